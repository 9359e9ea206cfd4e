//! Tests of the configuration with real files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod caching;
mod catalogue;
mod concurrency;
mod errors;
mod features;
mod layers;
mod overrides;
mod profiles;
mod properties;
mod read;
mod requirements;
mod settings;
mod support;
mod trust;
mod type_fields;
mod writes;
