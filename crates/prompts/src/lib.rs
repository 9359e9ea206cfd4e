//! What a model is told besides its tools, as functions over plain data.
//!
//! A thread's history begins with what [`messages`] tells: what is allowed, how to work together, the rules
//! of the project ([`DocSearch`]), where everything is. The person's input follows ([`user_message`]), and
//! between turns comes what happened besides ([`turn_aborted_message`] and its neighbours). Around it stand
//! [`base_instructions`]; when it grows too long it is condensed ([`compacted_history`]), and when it is too
//! long even for that, the oldest parts are left out first ([`kept_within`]). Reviews and plan mode have
//! their own prompts, and their answers are taken apart here too ([`ReviewOutput`], [`PlanSplitter`]).
//!
//! All prose for models is in this crate, the longer texts as files under `text/`. It knows nothing of
//! threads, providers or the runtime: whoever calls it decides when. Two functions read files and block,
//! [`DocSearch::run`] and [`user_message`] (with local images, see [`reads_files`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod told;

mod agents_md;
mod environment;
mod extensions;
mod instructions;
mod permissions;

mod image;
mod input;
mod message;
mod notices;
mod tags;

mod compaction;
mod cut;
mod tokens;
mod truncate;

mod plan;
mod review;

pub use {
    agents_md::{DEFAULT_MAX_DOC_BYTES, DocSearch, OpenFile, ProjectDoc, ProjectDocs},
    compaction::{compacted_history, summary_message, user_messages},
    cut::kept_within,
    extensions::{PluginOffer, plugin_message, plugins_text, skills_text},
    image::{ImageError, MAX_IMAGE_BYTES, read_image},
    input::{MAX_MESSAGE_IMAGE_BYTES, reads_files, user_message},
    instructions::{
        COMPACTION_PROMPT, DEFAULT_PERSONALITY, REVIEW_INSTRUCTIONS, base_instructions, effective_personality,
    },
    message::{assistant_message, developer_message, message_text, user_text_message},
    notices::{
        ReviewEnd, skill_message, subagent_notification, turn_aborted_message, user_action_review_message,
        user_shell_command_message,
    },
    plan::{PlanPiece, PlanSplitter},
    review::{
        CodeLocation, LineRange, NO_REVIEW, REVIEW_CUT_SHORT, ReviewFinding, ReviewOutput, ReviewTargetError,
        check_review_target, review_label, review_prompt,
    },
    tags::is_context_message,
    tokens::{BYTES_PER_TOKEN, approx_tokens, text_tokens},
    told::{ContextSnapshot, ContextTexts, fingerprint, messages},
    truncate::{DEFAULT_OUTPUT_TOKENS, truncate_output},
};
