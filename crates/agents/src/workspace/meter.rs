//! Counting what mounts bring against what they may.

use std::path::PathBuf;

use super::error::{BudgetExceededError, BudgetUnit};

/// What is left of the budgets: that of the mount at hand and those of the workspace.
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

    /// From here on, bytes count for this mount too.
    pub fn begin(&mut self, host_path: PathBuf, max_bytes: Option<u64>) {
        self.mount = max_bytes.map(|limit| (host_path, BudgetCount::new(limit)));
    }

    pub fn bytes(&mut self, amount: u64) -> Result<(), BudgetExceededError> {
        if let Some((path, count)) = &mut self.mount
            && !count.take(amount)
        {
            return Err(exceeded(Some(path.clone()), count.limit, BudgetUnit::Bytes));
        }
        match self.bytes.take(amount) {
            true => Ok(()),
            false => Err(exceeded(None, self.bytes.limit, BudgetUnit::Bytes)),
        }
    }

    /// Something to look at, whether or not it is copied: a tree of nothing but empty names costs time too.
    pub fn entry(&mut self) -> Result<(), BudgetExceededError> {
        match self.files.take(1) {
            true => Ok(()),
            false => Err(exceeded(None, self.files.limit, BudgetUnit::Files)),
        }
    }
}

fn exceeded(mount: Option<PathBuf>, limit: u64, unit: BudgetUnit) -> BudgetExceededError {
    BudgetExceededError { mount, limit, unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_budget_that_is_used_up_is_named() {
        let mut meter = BudgetMeter::new(100, 2);
        meter.begin("/a".into(), Some(50));
        assert_eq!(meter.bytes(50), Ok(()));
        let error = meter.bytes(1).unwrap_err();
        assert_eq!(error.to_string(), "mount /a exceeds its budget of 50 bytes");
        meter.begin("/b".into(), None);
        let error = meter.bytes(51).unwrap_err();
        assert_eq!(error.to_string(), "the workspace exceeds its budget of 100 bytes");
        meter.entry().unwrap();
        meter.entry().unwrap();
        assert_eq!(meter.entry().unwrap_err().unit, BudgetUnit::Files);
        assert!(meter.bytes(u64::MAX).is_err());
    }
}
