//! The traits behind the three tables, and the macro that makes a table into types.
//!
//! A line of a table becomes a type without a value (`ThreadStart`) that names the method for the
//! server's router and the client's typed call, and an entry of a list that the schema export and the
//! tests walk.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::Inspect;

/// A request: one message and its answer.
pub trait Method: 'static {
    const NAME: &'static str;
    const STABILITY: Stability;
    type Params: Serialize + DeserializeOwned + Inspect + Send + 'static;
    type Response: Serialize + DeserializeOwned + Send + 'static;
}

/// A message without an answer.
pub trait NotificationMethod: 'static {
    const NAME: &'static str;
    type Params: Serialize + DeserializeOwned + Send + 'static;
}

/// Whether a client must ask for it with `capabilities.experimentalApi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    Stable,
    Experimental,
}

/// What a table tells about one method.
#[derive(Clone, Copy)]
pub struct MethodInfo {
    pub name: &'static str,
    pub stability: Stability,
    /// The name and schema of the params; `None` for a method without any.
    pub params: Option<TypeInfo>,
    /// `None` for a notification.
    pub response: Option<TypeInfo>,
}

/// A wire type as the schema export sees it.
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

/// The params of a method that has none: left out, null, or an object, whose members are ignored.
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

/// Decodes params. Left out, null and `{}` are the same thing; the error is serde's sentence without
/// its position, which would count from the start of the params.
pub fn decode_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    match params.map(RawValue::get).filter(|text| *text != "null") {
        Some(text) => serde_json::from_str(text).map_err(|error| reason::<T>(text, &error)),
        None => serde_json::from_str("{}").map_err(|_| "missing field `params`".to_owned()),
    }
}

/// A number where an enum is wanted is a matter of syntax to the parser of text; a parsed value says more.
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

/// Requests, one a line: `stable Name = "method/name" (Params) -> Response;`
macro_rules! requests {
    (
        $(#[$table_attribute:meta])* $table:ident;
        $($(#[$attribute:meta])* $stability:ident $name:ident = $method:literal ($params:tt) -> $response:ty;)*
    ) => {
        $(
            $(#[$attribute])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl crate::Method for $name {
                const NAME: &'static str = $method;
                const STABILITY: crate::Stability = crate::methods::stability!($stability);
                type Params = $params;
                type Response = $response;
            }
        )*

        $(#[$table_attribute])*
        pub const $table: &[crate::MethodInfo] = &[$(crate::MethodInfo {
            name: $method,
            stability: crate::methods::stability!($stability),
            params: crate::methods::type_info!($params),
            response: crate::methods::type_info!($response),
        }),*];
    };
}

macro_rules! stability {
    (stable) => {
        crate::Stability::Stable
    };
    (experimental) => {
        crate::Stability::Experimental
    };
}

pub(crate) use {requests, stability, type_info};
