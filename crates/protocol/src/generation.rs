//! The generations of the published protocol that the tables and types cover.

use std::{fmt, str::FromStr};

/// A published generation of the protocol, named by the version of the reference server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolGeneration {
    #[default]
    V118,
    V166,
}

impl ProtocolGeneration {
    pub const ALL: [Self; 2] = [Self::V118, Self::V166];

    /// Returns the name, such as `0.118`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V118 => "0.118",
            Self::V166 => "0.166",
        }
    }

    /// Returns the version of the reference server, such as `0.118.0`.
    pub const fn version(self) -> &'static str {
        match self {
            Self::V118 => "0.118.0",
            Self::V166 => "0.166.0",
        }
    }
}

impl fmt::Display for ProtocolGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ProtocolGeneration {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|generation| generation.name() == name);
        found.ok_or_else(|| format!("unknown generation `{name}`, expected `0.118` or `0.166`"))
    }
}
