//! What a decoded message uses that its receiver may have to refuse: parts that are experimental, and
//! values that this version does not know.
//!
//! `#[wire]` implements `Inspect` for every type from the marks on its members, so a field, however
//! deep, is gated by the one attribute that stands on it. A server refuses what is found; a client
//! never asks, and so survives a newer server.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

/// What an inspection found; the first of each kind.
#[derive(Debug, Default)]
pub struct InspectFindings {
    experimental: Option<&'static str>,
    unrecognized: Option<String>,
}

impl InspectFindings {
    pub fn of(value: &impl Inspect) -> Self {
        let mut findings = Self::default();
        value.inspect(&mut findings);
        findings
    }

    /// The descriptor of an experimental part that is used, such as `thread/start.dynamicTools`.
    pub fn experimental_use(&self) -> Option<&'static str> {
        self.experimental
    }

    /// Why an unknown value cannot be accepted, in serde's words.
    pub fn unknown_value(&self) -> Option<&str> {
        self.unrecognized.as_deref()
    }

    pub(crate) fn experimental(&mut self, descriptor: &'static str) {
        self.experimental.get_or_insert(descriptor);
    }

    pub(crate) fn unrecognized(&mut self, name: &str, known: &[&str]) {
        self.unrecognized.get_or_insert_with(|| unknown_variant(name, known));
    }
}

/// The sentence serde uses for a name that is none of an enum's.
pub fn unknown_variant(name: &str, known: &[&str]) -> String {
    let expected = match known {
        [] => return format!("unknown variant `{name}`, there are no variants"),
        [only] => format!("`{only}`"),
        [one, two] => format!("`{one}` or `{two}`"),
        many => format!("one of `{}`", many.join("`, `")),
    };
    format!("unknown variant `{name}`, expected {expected}")
}

/// Implemented by `#[wire]` for the protocol's types, and below for what they are made of.
pub trait Inspect {
    fn inspect(&self, _findings: &mut InspectFindings) {}

    /// Whether a field holding this value counts as used: null, `false` and an empty list do not.
    fn is_used(&self) -> bool {
        true
    }
}

impl<T: Inspect> Inspect for Option<T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        self.iter().for_each(|value| value.inspect(findings));
    }

    fn is_used(&self) -> bool {
        self.as_ref().is_some_and(T::is_used)
    }
}

impl<T: Inspect> Inspect for Vec<T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        self.iter().for_each(|value| value.inspect(findings));
    }

    fn is_used(&self) -> bool {
        !self.is_empty()
    }
}

impl<T: Inspect> Inspect for BTreeMap<String, T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        self.values().for_each(|value| value.inspect(findings));
    }

    fn is_used(&self) -> bool {
        !self.is_empty()
    }
}

impl Inspect for bool {
    fn is_used(&self) -> bool {
        *self
    }
}

macro_rules! plain {
    ($($type:ty),*) => { $(impl Inspect for $type {})* };
}
plain!(String, Arc<str>, PathBuf, Value, Map<String, Value>, f64, i32, i64, u8, u16, u32, u64, ());
