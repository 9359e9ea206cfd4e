//! Everything that a model reads besides its tools, as functions over plain data.
//!
//! A thread's history begins with [`context_messages`]: permissions, collaboration mode, project instructions ([`DocSearch`]) and
//! environment. User input follows ([`user_message`]), and between turns messages about other events
//! ([`turn_aborted_message`] and its neighbours). Every request carries [`base_instructions`]. A history that is too long is
//! compacted ([`compacted_history`]); if it is too long even for that, its oldest parts are dropped ([`kept_within`]). Reviews
//! and plan mode have their own prompts, and their responses are parsed here ([`ReviewOutput`], [`PlanSplitter`]).
//!
//! All prose for models is in this crate, the longer texts as files in `text/`. The crate does not know threads, providers or
//! the runtime. Two functions read files and block: [`DocSearch::run`] and [`user_message`] (with local images, see
//! [`reads_files`]).
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod context_snapshot;

mod additional_context;
mod agents_md;
mod extensions;
mod instructions;
mod permissions;

mod audio;
mod context_tags;
mod event_messages;
mod goal;
mod image;
mod input;
mod message;

mod compaction;
mod history_trim;
mod tokens;
mod truncate;

mod plan;
mod review;

pub use {
    additional_context::{additional_context_message, is_context_name},
    agents_md::{DEFAULT_MAX_DOC_BYTES, DocSearch, OpenFile, ProjectDoc, ProjectDocs},
    compaction::{compacted_history, summary_message, user_messages},
    context_snapshot::{ContextSnapshot, ContextTexts, context_messages, fingerprint},
    context_tags::is_context_message,
    event_messages::{
        ReviewEnd, skill_message, subagent_notification, turn_aborted_message, user_action_review_message,
        user_shell_command_message,
    },
    extensions::{PluginOffer, app_message, plugin_message, plugins_text, skills_text},
    goal::{goal_budget_message, goal_continuation_message, goal_edited_message},
    history_trim::kept_within,
    image::{ImageError, MAX_IMAGE_BYTES, read_image},
    input::{MAX_MESSAGE_IMAGE_BYTES, reads_files, user_message},
    instructions::{
        COMPACTION_PROMPT, DEFAULT_PERSONALITY, REVIEW_INSTRUCTIONS, base_instructions,
        effective_personality, shown_mode_instructions,
    },
    message::{assistant_message, developer_message, json_object_text, message_text, user_text_message},
    plan::{PlanPiece, PlanSplitter},
    review::{
        CodeLocation, LineRange, NO_REVIEW, REVIEW_CUT_SHORT, ReviewFinding, ReviewOutput, ReviewTargetError,
        check_review_target, review_label, review_prompt,
    },
    tokens::{BYTES_PER_TOKEN, approx_tokens, text_tokens},
    truncate::{DEFAULT_OUTPUT_TOKENS, truncate_output},
};
