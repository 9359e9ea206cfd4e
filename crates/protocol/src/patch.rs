//! A field that distinguishes between absent, null and a value.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Inspect, InspectFindings};

/// A change to a setting: keep it (absent), clear it (null) or replace it.
///
/// Fields of this type carry `#[serde(default, skip_serializing_if = "Patch::is_missing")]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Patch<T> {
    #[default]
    Missing,
    Null,
    Value(T),
}

impl<T> Patch<T> {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Returns the setting after the change.
    pub fn apply(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Missing => before,
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

impl<T: Serialize> Serialize for Patch<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Missing | Self::Null => to.serialize_none(),
            Self::Value(value) => value.serialize(to),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(from)?.map_or(Self::Null, Self::Value))
    }
}

impl<T: JsonSchema> JsonSchema for Patch<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        Option::<T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}

impl<T: Inspect> Inspect for Patch<T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        if let Self::Value(value) = self {
            value.inspect(findings);
        }
    }

    fn is_used(&self) -> bool {
        matches!(self, Self::Value(_))
    }
}
