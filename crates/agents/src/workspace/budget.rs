//! Counts copied bytes and files against the budgets.

use std::path::PathBuf;

use super::error::{BudgetExceededError, BudgetUnit};

/// The budgets of the current mount and of the workspace.
#[derive(Debug)]
pub(super) struct BudgetMeter {
    bytes: BudgetCount,
    files: BudgetCount,
    mount: Option<(PathBuf, BudgetCount)>,
}

#[derive(Debug)]
struct BudgetCount {
    used: u64,
    limit: u64,
}

impl BudgetCount {
    fn new(limit: u64) -> Self {
        Self { used: 0, limit }
    }

    fn take(&mut self, amount: u64) -> bool {
        self.used = self.used.saturating_add(amount);
        self.used <= self.limit
    }
}

impl BudgetMeter {
    pub fn new(max_bytes: u64, max_files: u64) -> Self {
        Self { bytes: BudgetCount::new(max_bytes), files: BudgetCount::new(max_files), mount: None }
    }

    /// Starts counting for a mount.
    pub fn begin_mount(&mut self, host_path: PathBuf, max_bytes: Option<u64>) {
        self.mount = max_bytes.map(|limit| (host_path, BudgetCount::new(limit)));
    }

    pub fn add_bytes(&mut self, amount: u64) -> Result<(), BudgetExceededError> {
        if let Some((path, count)) = &mut self.mount
            && !count.take(amount)
        {
            return Err(exceeded(Some(path.clone()), count.limit, BudgetUnit::Bytes));
        }
        if self.bytes.take(amount) {
            return Ok(());
        }
        Err(exceeded(None, self.bytes.limit, BudgetUnit::Bytes))
    }

    /// Counts a directory entry, whether or not it is copied: a tree of empty files costs time too.
    pub fn add_entry(&mut self) -> Result<(), BudgetExceededError> {
        if self.files.take(1) {
            return Ok(());
        }
        Err(exceeded(None, self.files.limit, BudgetUnit::Files))
    }
}

fn exceeded(mount: Option<PathBuf>, limit: u64, unit: BudgetUnit) -> BudgetExceededError {
    BudgetExceededError { mount, limit, unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exceeded_budget_is_reported() {
        let mut meter = BudgetMeter::new(100, 2);
        meter.begin_mount("/a".into(), Some(50));
        assert_eq!(meter.add_bytes(50), Ok(()));
        let error = meter.add_bytes(1).unwrap_err();
        assert_eq!(error.to_string(), "mount /a exceeds its budget of 50 bytes");
        meter.begin_mount("/b".into(), None);
        let error = meter.add_bytes(51).unwrap_err();
        assert_eq!(error.to_string(), "the workspace exceeds its budget of 100 bytes");
        meter.add_entry().unwrap();
        meter.add_entry().unwrap();
        assert_eq!(meter.add_entry().unwrap_err().unit, BudgetUnit::Files);
        assert!(meter.add_bytes(u64::MAX).is_err());
    }
}
