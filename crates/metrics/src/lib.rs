//! The numbers of the process for operators.
//!
//! Every crate counts in [`METRICS`], the one table of the process ([`table`](crate::Metrics)). Counting is an atomic
//! addition: there is no registry to look up, no lock and no allocation, so it happens whether or not the numbers are
//! served. [`encode`] writes them as OpenMetrics text, which Prometheus reads.
//!
//! Labels come from closed sets ([`labels`](crate::labels)): a name, a path or an id of a user is never a label.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod encode;
mod instruments;
pub mod labels;
mod process;
mod table;

pub use encode::{CONTENT_TYPE, encode};
pub use instruments::{Counter, CounterSet, Gauge, LabelSet, TimeHistogram};
pub use table::{METRICS, Metrics, metric_names};
