//! Typed ids. Any string decodes; the code that looks an id up checks its form.

use std::{fmt, ops::Deref, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Inspect;

macro_rules! ids {
    ($($(#[$attribute:meta])* $name:ident;)*) => { $(
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        $(#[$attribute])*
        #[serde(transparent)]
        pub struct $name(#[schemars(with = "String")] Arc<str>);

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(id: T) -> Self {
                Self(id.into())
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Inspect for $name {}
    )* };
}

ids! {
    /// The id of a thread.
    ThreadId;
    /// The id of a turn, unique within its thread.
    #[schemars(inline)]
    TurnId;
    /// The id of an item. Deltas and approval requests refer to it.
    #[schemars(inline)]
    ItemId;
}
