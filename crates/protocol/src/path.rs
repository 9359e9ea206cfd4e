//! Absolute paths, checked when they are decoded, and lexical normalisation of paths.

use std::{
    ops::Deref,
    path::{Component, Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error};

use crate::{Inspect, wire};

/// An absolute path. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AbsolutePathBuf(#[schemars(with = "String")] PathBuf);

impl AbsolutePathBuf {
    /// Returns `None` for a relative path.
    pub fn new(path: impl Into<PathBuf>) -> Option<Self> {
        let path = path.into();
        path.is_absolute().then_some(Self(path))
    }
}

impl Deref for AbsolutePathBuf {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

/// A path as a string, which may be relative or of another operating system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct LegacyAppPathString(pub String);

impl Inspect for LegacyAppPathString {}

impl<'de> Deserialize<'de> for AbsolutePathBuf {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // The text is the reference server's; clients match on it.
        Self::new(PathBuf::deserialize(from)?)
            .ok_or_else(|| D::Error::custom("AbsolutePathBuf deserialized without a base path"))
    }
}

impl Inspect for AbsolutePathBuf {}

/// Removes `.`, `..`, doubled and trailing slashes from a path, without looking at the file system: `a/link/..` is `a`
/// wherever the link leads. The reference server does the same.
pub fn normal_path(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // The parent of the root is the root.
            Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

/// Decoding of paths that are kept as strings. They are decoded as paths, so that errors have the reference server's
/// text.
pub(crate) mod text {
    use super::{Deserialize, Deserializer, Error, PathBuf};

    pub fn one<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        text(PathBuf::deserialize(from)?)
    }

    pub fn optional<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        Option::<PathBuf>::deserialize(from)?.map(text).transpose()
    }

    pub fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
        let paths = Option::<Vec<PathBuf>>::deserialize(from)?;
        paths.map(|paths| paths.into_iter().map(text).collect()).transpose()
    }

    /// Converts a path to a string. Cannot fail for a path that was decoded from JSON.
    fn text<E: Error>(path: PathBuf) -> Result<String, E> {
        path.into_os_string().into_string().map_err(|_| E::custom("a path that is no text"))
    }
}

/// A path as a URI.
#[wire]
pub struct PathUri(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_made_normal_by_its_text() {
        let check =
            |path: &str, expected: &str| assert_eq!(normal_path(Path::new(path)), Path::new(expected));
        check("/", "/");
        check("/..", "/");
        check("/a/./b//c/", "/a/b/c");
        check("/a/missing/../b", "/a/b");
        check("/a/../../b", "/b");
    }
}
