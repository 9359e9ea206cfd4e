//! The traits behind the three tables, and the macro that makes a table into types.
//!
//! A line of a table becomes a type without a value (`ThreadStart`) that names the method for the
//! server's router and the client's typed call, and an entry of a list that the schema export and the
//! tests walk.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned, de::IgnoredAny};
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
pub trait Notice: 'static {
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

/// The params of a method that has none: whatever is sent is ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoParams;

impl Serialize for NoParams {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for NoParams {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Self)
    }
}

impl Inspect for NoParams {}

/// Decodes params. Left out, null and `{}` are the same thing; the error is serde's sentence without
/// its position, which would count from the start of the params.
pub fn decode_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, String> {
    match params.map(RawValue::get).filter(|text| *text != "null") {
        Some(text) => serde_json::from_str(text).map_err(|error| without_position(&error)),
        None => serde_json::from_str("{}").map_err(|_| "missing field `params`".to_owned()),
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
