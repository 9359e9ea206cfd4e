//! The limits of planning a patch.
//!
//! A model chooses the patch and may choose the files, and with them the cost of the search. Each limit is far above what
//! an edit needs, and each has an error that names it.

use std::cell::Cell;

/// The size of the largest patch in bytes.
pub const LARGEST_PATCH: usize = 16 * 1024 * 1024;

/// How many files a patch may change. A file counts as often as the patch names it.
pub const MOST_OPERATIONS: usize = 5_000;

/// How many bytes of files may be read for one patch. A plan holds the contents before and after the patch.
pub const LARGEST_PLAN: u64 = 256 * 1024 * 1024;

/// How many lines a patched file may have. A short line takes more memory than its bytes.
pub const MOST_LINES: usize = 4_000_000;

/// How many lines may be compared while the sections of a patch are searched for.
const MOST_COMPARISONS: usize = 100_000_000;

/// The bytes of a file that cost as much as comparing a line.
const BYTES_PER_COMPARISON: usize = 16;

/// The remaining budget for finding the sections of one patch.
pub(crate) struct WorkBudget {
    comparisons: Cell<usize>,
    is_spent: Cell<bool>,
}

impl WorkBudget {
    pub(crate) fn new() -> Self {
        Self { comparisons: Cell::new(MOST_COMPARISONS), is_spent: Cell::new(false) }
    }

    /// Deducts the cost of a step. Returns false if the budget does not suffice, and from then on.
    pub(crate) fn spend(&self, comparisons: usize) -> bool {
        match self.comparisons.get().checked_sub(comparisons) {
            Some(remaining) if !self.is_spent.get() => self.comparisons.set(remaining),
            _ => self.is_spent.set(true),
        }
        !self.is_spent.get()
    }

    /// Deducts the cost of reading bytes of a file.
    pub(crate) fn spend_bytes(&self, bytes: usize) -> bool {
        self.spend(bytes / BYTES_PER_COMPARISON)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent.get()
    }
}
