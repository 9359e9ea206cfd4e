//! Where the model works: the `<environment_context>` block.

use crate::{tags, told::ContextSnapshot};

pub(crate) fn environment_text(told: &ContextSnapshot) -> String {
    let members = [
        ("cwd", &told.cwd),
        ("shell", &told.shell),
        ("current_date", &told.current_date),
        ("timezone", &told.timezone),
    ];
    let line = |(name, value): &(&str, &String)| format!("  <{name}>{}</{name}>", plain(value));
    tags::wrap(tags::ENVIRONMENT, &members.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// A value on one line that cannot close its tag. `&` stays as it is: models copy paths literally.
pub(crate) fn plain(value: &str) -> String {
    value.replace('<', "&lt;").replace('>', "&gt;").replace(['\n', '\r'], " ")
}
