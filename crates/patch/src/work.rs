//! How much a patch may cost to plan.
//!
//! Both the patch and the files come from a model, so their sizes and what they do to the search are its
//! choice. Each limit is far above what an edit needs, and each has an error that names it.

use std::cell::Cell;

/// The longest patch that is read.
pub const LARGEST_PATCH: usize = 16 * 1024 * 1024;

/// The most files that a patch changes, counting a file as often as the patch names it.
pub const MOST_OPERATIONS: usize = 5_000;

/// The most bytes of files that are read for one patch. A plan holds them before and after the patch.
pub const LARGEST_PLAN: u64 = 256 * 1024 * 1024;

/// The most lines of a file that a patch changes. A short line takes more memory than its bytes.
pub const MOST_LINES: usize = 4_000_000;

/// Lines that may be compared while the sections of a patch are looked for.
const MOST_COMPARISONS: usize = 100_000_000;

/// The bytes of a file that cost as much as comparing a line.
const BYTES_PER_COMPARISON: usize = 16;

/// What is left for finding the sections of one patch.
pub(crate) struct WorkBudget {
    comparisons: Cell<usize>,
    is_spent: Cell<bool>,
}

impl WorkBudget {
    pub(crate) fn new() -> Self {
        Self { comparisons: Cell::new(MOST_COMPARISONS), is_spent: Cell::new(false) }
    }

    /// Takes away what a step costs. False if there is not enough left, then and from then on.
    pub(crate) fn spend(&self, comparisons: usize) -> bool {
        match self.comparisons.get().checked_sub(comparisons) {
            Some(left) if !self.is_spent.get() => self.comparisons.set(left),
            _ => self.is_spent.set(true),
        }
        !self.is_spent.get()
    }

    /// Takes away what going through a file costs.
    pub(crate) fn spend_bytes(&self, bytes: usize) -> bool {
        self.spend(bytes / BYTES_PER_COMPARISON)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }
}
