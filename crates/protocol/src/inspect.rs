//! Finding the parts of a decoded message that a server must reject: experimental fields and unknown values.
//!
//! `#[wire]` implements [`Inspect`] for every type from the attributes of its members, so a field at any depth is gated
//! by its own attribute. Clients do not inspect messages, so that they keep working with newer servers.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use crate::ProtocolGeneration;

/// The result of an inspection: the first finding of each kind.
#[derive(Debug, Default)]
pub struct InspectFindings {
    experimental: Option<&'static str>,
    /// An experimental part that is given without being used, such as an empty list. 0.118 does not gate it.
    given_experimental: Option<&'static str>,
    unrecognized: Option<UnknownValue>,
    later: bool,
    outdated: Option<String>,
}

impl InspectFindings {
    pub fn of(value: &impl Inspect) -> Self {
        let mut findings = Self::default();
        value.inspect(&mut findings);
        findings
    }

    /// Returns the descriptor of an experimental part that is used, such as `thread/start.dynamicTools`.
    pub fn experimental_use(&self) -> Option<&'static str> {
        self.experimental_use_in(ProtocolGeneration::V118)
    }

    /// Returns the descriptor of an experimental part that is used. In 0.166, an empty list is a use.
    pub fn experimental_use_in(&self, generation: ProtocolGeneration) -> Option<&'static str> {
        let given = self.given_experimental.filter(|_| generation == ProtocolGeneration::V166);
        self.experimental.or(given)
    }

    /// Returns serde's error message for an unknown value. It names the values of all generations.
    pub fn unknown_value(&self) -> Option<&str> {
        self.unknown_value_in(ProtocolGeneration::V166)
    }

    /// Returns serde's error message for an unknown value. It names the values of a generation.
    pub fn unknown_value_in(&self, generation: ProtocolGeneration) -> Option<&str> {
        let unknown = self.unrecognized.as_ref()?;
        Some(match generation {
            ProtocolGeneration::V118 => &unknown.earlier_reason,
            ProtocolGeneration::V166 => &unknown.reason,
        })
    }

    /// Returns whether a part is used that only generations after 0.118 have.
    pub fn is_later(&self) -> bool {
        self.later
    }

    /// Returns the error message for a value that 0.166 no longer has.
    pub fn outdated_value(&self) -> Option<&str> {
        self.outdated.as_deref()
    }

    pub(crate) fn later(&mut self) {
        self.later = true;
    }

    pub(crate) fn outdated(&mut self, name: &str) {
        self.outdated
            .get_or_insert_with(|| format!("unknown variant `{name}`, expected one of the current values"));
    }

    pub(crate) fn experimental(&mut self, descriptor: &'static str) {
        self.experimental.get_or_insert(descriptor);
    }

    pub(crate) fn given_experimental(&mut self, descriptor: &'static str) {
        self.given_experimental.get_or_insert(descriptor);
    }

    pub(crate) fn unrecognized(&mut self, name: &str, known: &[&str], earlier: &[&str]) {
        self.unrecognized.get_or_insert_with(|| UnknownValue {
            reason: unknown_variant(name, known),
            earlier_reason: unknown_variant(name, earlier),
        });
    }
}

/// The error messages for an unknown value.
#[derive(Debug)]
struct UnknownValue {
    reason: String,
    /// That for clients of 0.118.
    earlier_reason: String,
}

/// Returns serde's error message for an unknown variant of an enum.
pub fn unknown_variant(name: &str, known: &[&str]) -> String {
    let expected = match known {
        [] => return format!("unknown variant `{name}`, there are no variants"),
        [only] => format!("`{only}`"),
        [one, two] => format!("`{one}` or `{two}`"),
        many => format!("one of `{}`", many.join("`, `")),
    };
    format!("unknown variant `{name}`, expected {expected}")
}

/// A type that can be inspected. `#[wire]` implements it for the protocol's types; the types of their fields follow below.
pub trait Inspect {
    fn inspect(&self, _findings: &mut InspectFindings) {}

    /// Returns whether a field with this value counts as used: null, `false` and empty lists do not.
    fn is_used(&self) -> bool {
        true
    }

    /// Returns whether a field has a value at all: an empty list is one.
    fn is_given(&self) -> bool {
        self.is_used()
    }
}

impl<T: Inspect> Inspect for Option<T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        self.iter().for_each(|value| value.inspect(findings));
    }

    fn is_used(&self) -> bool {
        self.as_ref().is_some_and(T::is_used)
    }

    fn is_given(&self) -> bool {
        self.is_some()
    }
}

impl<T: Inspect> Inspect for Box<T> {
    fn inspect(&self, findings: &mut InspectFindings) {
        (**self).inspect(findings);
    }

    fn is_used(&self) -> bool {
        (**self).is_used()
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
