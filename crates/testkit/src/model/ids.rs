//! Ids that are the same in every run: a prefix and ten digits, counted per prefix and server.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::state::lock;

/// Hands out `msg_0000000001`, `msg_0000000002`, `call_0000000001` and so on.
#[derive(Default)]
pub(super) struct IdCounter {
    last: Mutex<HashMap<&'static str, u64>>,
}

impl IdCounter {
    pub(super) fn next(&self, prefix: &'static str) -> String {
        let mut last = lock(&self.last);
        let number = last.entry(prefix).or_default();
        *number += 1;
        format!("{prefix}_{number:010}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_counts_for_itself() {
        let ids = IdCounter::default();
        assert_eq!(ids.next("msg"), "msg_0000000001");
        assert_eq!(ids.next("call"), "call_0000000001");
        assert_eq!(ids.next("msg"), "msg_0000000002");
    }
}
