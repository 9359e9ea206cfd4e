//! Text of models, commands and files as safe HTML: pure functions without I/O.
//!
//! | module | purpose |
//! |---|---|
//! | [`text`] | escapes text, and makes control and bidi characters visible |
//! | [`markdown`] | the model's Markdown |
//! | [`ansi`] | output of commands, with the colours of the terminal |
//! | [`highlight`] | code, by language |
//! | [`diff`] | diffs as tables, unified or side by side |
//! | [`charts`] | bar and line charts as inline SVG |
//!
//! All of it is safe by construction: every function writes its own tags and passes foreign text through [`text`], so no
//! input can add an element or an attribute. The output has classes and no inline styles, because the console's content
//! security policy refuses those.

pub mod ansi;
pub mod charts;
pub mod diff;
pub mod highlight;
pub mod markdown;
pub mod text;

mod diff_table;
mod languages;
mod word_diff;

#[cfg(test)]
mod properties;
