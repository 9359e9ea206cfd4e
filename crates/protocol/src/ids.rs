//! Ids as types of their own. Any string is accepted: what an id must look like is its owner's rule.

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
    /// A thread, for as long as it is stored.
    ThreadId;
    /// A turn within its thread.
    #[schemars(inline)]
    TurnId;
    /// An item; deltas and approval requests name the item they belong to.
    #[schemars(inline)]
    ItemId;
}
