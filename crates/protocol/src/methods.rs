//! One table per direction: the traits that describe a method, and the macro that expands a table.
//!
//! Every method is declared exactly once, as a line of a table (`client_requests.rs`, `server_requests.rs`,
//! `notifications.rs`). Everything else that depends on a method is derived from its line:
//!
//! - a unit type such as `ThreadStart`, which the server's router and the client's typed calls use as the name of the
//!   method, with its params and response as associated types;
//! - an entry of a list ([`MethodInfo`]), which the schema export and the tests iterate over;
//! - its stability, which the server checks before it calls a handler;
//! - the generations that have it, each of which has a schema of its own.
//!
//! So a method cannot be routed without being exported, or documented in one place and typed differently in another.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::{Inspect, ProtocolGeneration};

/// A request method: its name, params and response.
pub trait Method: 'static {
    const NAME: &'static str;
    const STABILITY: Stability;
    const GENERATIONS: MethodGenerations;
    /// Whether a client may leave the params out. In 0.118 the method has none then.
    const HAS_OPTIONAL_PARAMS: bool;
    type Params: Serialize + DeserializeOwned + Inspect + Send + 'static;
    type Response: Serialize + DeserializeOwned + Send + 'static;
}

/// A notification method. Notifications have no response.
pub trait NotificationMethod: 'static {
    const NAME: &'static str;
    const GENERATIONS: MethodGenerations;
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// The capability that a client needs to use a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Stable,
    /// Needs `capabilities.experimentalApi`.
    Experimental,
    /// Needs `capabilities.codicil`.
    Extension,
}

/// The generations of the protocol that have a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodGenerations {
    /// Removed in 0.166.
    Only118,
    Both,
    /// Added in 0.166.
    Since166,
}

impl MethodGenerations {
    pub fn include(self, generation: ProtocolGeneration) -> bool {
        match self {
            Self::Only118 => generation == ProtocolGeneration::V118,
            Self::Both => true,
            Self::Since166 => generation == ProtocolGeneration::V166,
        }
    }
}

/// One line of a table, as the schema export and the tests see it.
#[derive(Clone, Copy)]
pub struct MethodInfo {
    pub name: &'static str,
    pub generations: MethodGenerations,
    pub stability: Stability,
    /// Whether this server serves the method. It refuses the others, which are declared for clients.
    pub is_served: bool,
    /// The name and schema of the params; `None` for a method without any.
    pub params: Option<TypeInfo>,
    /// Whether a client may leave the params out.
    pub has_optional_params: bool,
    /// `None` for a notification.
    pub response: Option<TypeInfo>,
}

/// The name and schema of a wire type.
#[derive(Clone, Copy)]
pub struct TypeInfo {
    pub name: fn() -> String,
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

impl TypeInfo {
    pub const fn of<T: JsonSchema>() -> Self {
        Self { name: || T::schema_name().into_owned(), schema: SchemaGenerator::subschema_for::<T> }
    }
}

/// The params of a method without params. Reads as absent, null or an object whose members are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoParams;

impl Serialize for NoParams {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for NoParams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NoParamsVisitor)
    }
}

struct NoParamsVisitor;

impl<'de> Visitor<'de> for NoParamsVisitor {
    type Value = NoParams;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unit")
    }

    fn visit_unit<E>(self) -> Result<NoParams, E> {
        Ok(NoParams)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<NoParams, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(NoParams)
    }
}

impl Inspect for NoParams {}

/// Decodes the params of a message. Absent params, null and `{}` are equivalent.
///
/// The error is serde's message without the position, which would count from the start of the params.
pub fn decode_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    match params.map(RawValue::get).filter(|text| *text != "null") {
        Some(text) => serde_json::from_str(text).map_err(|error| reason::<T>(text, &error)),
        None => serde_json::from_str("{}").map_err(|_| "missing field `params`".to_owned()),
    }
}

/// Returns the reason of a decoding error. The text parser reports a number in the place of an enum as a syntax error, so
/// that error is replaced by the one for the parsed value.
fn reason<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> String {
    let reason = without_position(error);
    if reason != "expected value" {
        return reason;
    }
    let again = serde_json::from_str::<serde_json::Value>(text).map(serde_json::from_value::<T>);
    match again {
        Ok(Err(error)) => without_position(&error),
        _ => reason,
    }
}

fn without_position(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if error.line() > 0
        && let Some(end) = message.rfind(" at line ")
    {
        message.truncate(end);
    }
    message
}

macro_rules! type_info {
    (NoParams) => {
        None
    };
    ($type:ty) => {
        Some(crate::TypeInfo::of::<$type>())
    };
}

/// Expands a table of requests, one per line: `both stable Name = "method/name" (Params) -> Response;`
///
/// The first word is the generation: `v118` (removed in 0.166), `v166` (added in 0.166) or `both`. `(Params?)` marks params
/// that a client may leave out; 0.118 has none then. `-> Response, refused` marks a request that this server does not serve.
macro_rules! requests {
    (
        $(#[$table_attribute:meta])* $table:ident;
        $(
            $(#[$attribute:meta])*
            $generation:ident $stability:ident $name:ident = $method:literal ($params:ident $($optional:tt)?)
                -> $response:ident $(, $refused:ident)?;
        )*
    ) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl crate::Method for $name {
                const NAME: &'static str = $method;
                const STABILITY: crate::Stability = crate::methods::stability!($stability);
                const GENERATIONS: crate::MethodGenerations = crate::methods::generations!($generation);
                const HAS_OPTIONAL_PARAMS: bool = crate::methods::is_optional!($($optional)?);
                type Params = $params;
                type Response = $response;
            }
        )*

        $(#[$table_attribute])*
        pub const $table: &[crate::MethodInfo] = &[$(crate::MethodInfo {
            name: $method,
            generations: crate::methods::generations!($generation),
            stability: crate::methods::stability!($stability),
            is_served: crate::methods::is_served!($($refused)?),
            params: crate::methods::type_info!($params),
            has_optional_params: crate::methods::is_optional!($($optional)?),
            response: crate::methods::type_info!($response),
        }),*];
    };
}

macro_rules! generations {
    (both) => {
        crate::MethodGenerations::Both
    };
    (v118) => {
        crate::MethodGenerations::Only118
    };
    (v166) => {
        crate::MethodGenerations::Since166
    };
}

macro_rules! stability {
    (stable) => {
        crate::Stability::Stable
    };
    (experimental) => {
        crate::Stability::Experimental
    };
    (extension) => {
        crate::Stability::Extension
    };
}

macro_rules! is_served {
    () => {
        true
    };
    (refused) => {
        false
    };
}

macro_rules! is_optional {
    () => {
        false
    };
    (?) => {
        true
    };
}

pub(crate) use {generations, is_optional, is_served, requests, stability, type_info};
