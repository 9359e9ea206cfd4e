//! The id of a plugin: its name and that of its marketplace.

use std::{fmt, str::FromStr};

use super::error::PluginError;

/// `NAME@MARKETPLACE`. Both parts are also names of folders, so only letters, digits, `-` and `_` are
/// allowed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginId {
    name: String,
    marketplace: String,
}

impl PluginId {
    pub(crate) fn new(name: &str, marketplace: &str) -> Result<Self, PluginError> {
        check(name, "plugin name")?;
        check(marketplace, "marketplace name")?;
        Ok(Self { name: name.to_owned(), marketplace: marketplace.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn marketplace(&self) -> &str {
        &self.marketplace
    }
}

impl FromStr for PluginId {
    type Err = PluginError;

    fn from_str(text: &str) -> Result<Self, PluginError> {
        match text.rsplit_once('@') {
            Some((name, marketplace)) if !name.is_empty() && !marketplace.is_empty() => {
                Self::new(name, marketplace).map_err(|error| match error {
                    PluginError::BadName { what, reason, .. } => {
                        PluginError::BadName { what, reason, within: Some(text.to_owned()) }
                    }
                    other => other,
                })
            }
            _ => Err(PluginError::BadId(text.to_owned())),
        }
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.marketplace)
    }
}

/// Checks the name of a marketplace.
pub(crate) fn check_marketplace_name(name: &str) -> Result<(), PluginError> {
    check(name, "marketplace name")
}

fn check(part: &str, what: &'static str) -> Result<(), PluginError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    match part {
        "" => Err(PluginError::BadName { what, reason: "must not be empty", within: None }),
        part if part.chars().all(is_plain) => Ok(()),
        _ => {
            let reason = "only ASCII letters, digits, `_`, and `-` are allowed";
            Err(PluginError::BadName { what, reason, within: None })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_name_and_a_marketplace() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let parsed = text.parse::<PluginId>().map(|id| id.to_string()).map_err(|error| error.to_string());
            assert_eq!(parsed.as_deref().map_err(String::as_str), expected, "{text}");
        };
        check("a@b", Ok("a@b"));
        check("bogus", Err("invalid plugin key `bogus`; expected <plugin>@<marketplace>"));
        check("@b", Err("invalid plugin key `@b`; expected <plugin>@<marketplace>"));
        check("a@", Err("invalid plugin key `a@`; expected <plugin>@<marketplace>"));
        let allowed = "only ASCII letters, digits, `_`, and `-` are allowed";
        check("../a@b", Err(&format!("invalid plugin name: {allowed} in `../a@b`")));
        check("a@..", Err(&format!("invalid marketplace name: {allowed} in `a@..`")));
    }
}
