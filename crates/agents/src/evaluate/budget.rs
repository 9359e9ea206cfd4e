//! Token usage and budgets.

use std::{fmt, sync::Arc};

use codicil_client::protocol::{ThreadTokenUsage, TokenUsageBreakdown};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::Instant;

/// Numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
    /// Total tokens, as the server counts them.
    pub total_tokens: u64,
}

impl TokenUsage {
    /// Adds two counts that may be unknown.
    pub(super) fn sum(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.combine(other, u64::saturating_add)),
            (one, other) => one.or(other),
        }
    }

    fn combine(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            prompt_tokens: with(self.prompt_tokens, other.prompt_tokens),
            completion_tokens: with(self.completion_tokens, other.completion_tokens),
            total_tokens: with(self.total_tokens, other.total_tokens),
        }
    }
}

impl From<&TokenUsageBreakdown> for TokenUsage {
    fn from(usage: &TokenUsageBreakdown) -> Self {
        let count = |tokens: i64| u64::try_from(tokens).unwrap_or_default();
        Self {
            prompt_tokens: count(usage.input_tokens),
            completion_tokens: count(usage.output_tokens),
            total_tokens: count(usage.total_tokens),
        }
    }
}

/// A limit on the tokens and the time of evaluations. Clones share the budget, so that several evaluations can draw on
/// it.
///
/// ```
/// use std::time::Duration;
/// use codicil_agents::evaluate::Budget;
///
/// let budget = Budget::new().max_total_tokens(200_000).timeout(Duration::from_secs(600));
/// assert_eq!(budget.spent().total_tokens, 0);
/// ```
#[derive(Clone, Default)]
pub struct Budget {
    limits: BudgetLimits,
    deadline: Option<Instant>,
    spent: Arc<Mutex<TokenUsage>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BudgetLimits {
    total: Option<u64>,
    prompt: Option<u64>,
    completion: Option<u64>,
}

impl Budget {
    /// Creates a budget without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the total number of tokens.
    pub fn max_total_tokens(mut self, tokens: u64) -> Self {
        self.limits.total = Some(tokens);
        self
    }

    /// Limits the number of input tokens.
    pub fn max_prompt_tokens(mut self, tokens: u64) -> Self {
        self.limits.prompt = Some(tokens);
        self
    }

    /// Limits the number of output tokens.
    pub fn max_completion_tokens(mut self, tokens: u64) -> Self {
        self.limits.completion = Some(tokens);
        self
    }

    /// Sets the deadline of all evaluations that use this budget.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the deadline relative to now.
    pub fn timeout(self, time: std::time::Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.deadline(deadline),
            None => self,
        }
    }

    /// Returns the tokens used so far.
    pub fn spent(&self) -> TokenUsage {
        *self.spent.lock()
    }

    pub(super) fn deadline_instant(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns an error if a limit has been reached, so that nothing can be started.
    pub(super) fn check_left(&self) -> Result<(), BudgetExceeded> {
        self.check_limits(|used, limit| used >= limit)
    }

    /// Adds used tokens. Returns an error if a limit is exceeded.
    pub(super) fn charge(&self, usage: TokenUsage) -> Result<(), BudgetExceeded> {
        {
            let mut spent = self.spent.lock();
            *spent = spent.combine(usage, u64::saturating_add);
        }
        self.check_limits(|used, limit| used > limit)
    }

    fn check_limits(&self, is_over: impl Fn(u64, u64) -> bool) -> Result<(), BudgetExceeded> {
        let spent = self.spent();
        let limits = self.limits;
        let all = [
            ("total", spent.total_tokens, limits.total),
            ("prompt", spent.prompt_tokens, limits.prompt),
            ("completion", spent.completion_tokens, limits.completion),
        ];
        let exceeded = all.into_iter().find_map(|(of, used, limit)| {
            limit.filter(|limit| is_over(used, *limit)).map(|limit| BudgetExceeded { of, used, limit })
        });
        exceeded.map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("limits", &self.limits)
            .field("spent", &self.spent())
            .finish_non_exhaustive()
    }
}

/// A limit of a [`Budget`] that was exceeded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the budget of {limit} {of} tokens is used up: {used}")]
pub struct BudgetExceeded {
    /// `total`, `prompt` or `completion`.
    pub of: &'static str,
    /// The tokens used.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// Computes the tokens of one turn from the thread's running totals.
#[derive(Debug, Default)]
pub(super) struct TurnUsage {
    /// The thread's usage as far as this program knows.
    known: TokenUsage,
    /// The thread's usage before the turn.
    before: Option<TokenUsage>,
    used: Option<TokenUsage>,
}

impl TurnUsage {
    /// Starts counting on a thread with this usage.
    pub fn after(known: TokenUsage) -> Self {
        Self { known, ..Self::default() }
    }

    /// Processes a report and returns the tokens used since the previous one.
    pub fn add(&mut self, usage: &ThreadTokenUsage) -> TokenUsage {
        let total = TokenUsage::from(&usage.total);
        let last = TokenUsage::from(&usage.last);
        let known = self.known;
        // The first report covers the turn's first response, unless it only repeats the usage of a resumed thread.
        let before = *self.before.get_or_insert_with(|| {
            if total == known {
                known
            } else {
                total.combine(last, u64::saturating_sub).combine(known, u64::max)
            }
        });
        let used = total.combine(before, u64::saturating_sub);
        let counted = self.used.unwrap_or_default();
        if used != TokenUsage::default() {
            self.used = Some(counted.combine(used, u64::max));
        }
        used.combine(counted, u64::saturating_sub)
    }

    /// Returns the turn's usage so far; `None` before the first report.
    pub fn used(&self) -> Option<TokenUsage> {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(input: u64, output: u64) -> TokenUsage {
        TokenUsage { prompt_tokens: input, completion_tokens: output, total_tokens: input + output }
    }

    fn report(total: (i64, i64), last: (i64, i64)) -> ThreadTokenUsage {
        let breakdown = |(input, output): (i64, i64)| TokenUsageBreakdown {
            total_tokens: input + output,
            input_tokens: input,
            cached_input_tokens: 0,
            cache_write_input_tokens: 0,
            output_tokens: output,
            reasoning_output_tokens: 0,
        };
        ThreadTokenUsage { total: breakdown(total), last: breakdown(last), model_context_window: None }
    }

    #[test]
    fn a_turn_used_what_was_added_to_its_thread() {
        let mut turn = TurnUsage::default();
        assert_eq!(turn.used(), None);
        assert_eq!(turn.add(&report((1100, 110), (100, 10))), usage(100, 10));
        assert_eq!(turn.add(&report((1300, 130), (200, 20))), usage(200, 20));
        // A repeated report, and one after a missed report.
        assert_eq!(turn.add(&report((1300, 130), (200, 20))), usage(0, 0));
        assert_eq!(turn.add(&report((2000, 200), (300, 30))), usage(700, 70));
        assert_eq!(turn.used(), Some(usage(1000, 100)));
    }

    #[test]
    fn the_usage_of_a_resumed_thread_is_not_counted_again() {
        let mut turn = TurnUsage::after(usage(100, 10));
        assert_eq!(turn.add(&report((100, 10), (100, 10))), usage(0, 0));
        assert_eq!(turn.used(), None);
        assert_eq!(turn.add(&report((300, 30), (200, 20))), usage(200, 20));
        // Without that first report, and after turns of other programs.
        let mut turn = TurnUsage::after(usage(100, 10));
        assert_eq!(turn.add(&report((600, 60), (200, 20))), usage(200, 20));
    }

    #[test]
    fn each_limit_applies_and_clones_share_the_budget() {
        let check = |budget: Budget, of: &str| {
            budget.clone().charge(usage(60, 40)).unwrap();
            budget.check_left().unwrap_err();
            let error = budget.charge(usage(1, 1)).unwrap_err();
            assert_eq!(error.of, of);
            assert_eq!(budget.spent(), usage(61, 41));
        };
        check(Budget::new().max_total_tokens(100), "total");
        check(Budget::new().max_prompt_tokens(60), "prompt");
        check(Budget::new().max_completion_tokens(40), "completion");
        let free = Budget::new();
        free.charge(usage(u64::MAX / 4, u64::MAX / 4)).unwrap();
        free.charge(usage(u64::MAX / 4, u64::MAX / 4)).unwrap();
    }
}
