//! Tokens: what was used, and what may be.

use std::{fmt, sync::Arc};

use codicil_client::protocol::{ThreadTokenUsage, TokenUsageBreakdown};
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::Instant;

/// Tokens used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// What the model read.
    pub prompt_tokens: u64,
    /// What it wrote.
    pub completion_tokens: u64,
    /// Both, as the server counts them.
    pub total_tokens: u64,
}

impl TokenUsage {
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

/// How much evaluations may use, together. Clones are the same budget, so one can be shared by many.
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
    /// Without limits.
    pub fn new() -> Self {
        Self::default()
    }

    /// The most tokens altogether.
    pub fn max_total_tokens(mut self, tokens: u64) -> Self {
        self.limits.total = Some(tokens);
        self
    }

    /// The most tokens that models may read.
    pub fn max_prompt_tokens(mut self, tokens: u64) -> Self {
        self.limits.prompt = Some(tokens);
        self
    }

    /// The most tokens that models may write.
    pub fn max_completion_tokens(mut self, tokens: u64) -> Self {
        self.limits.completion = Some(tokens);
        self
    }

    /// When everything has to be over.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// The same, counted from now.
    pub fn timeout(self, time: std::time::Duration) -> Self {
        match Instant::now().checked_add(time) {
            Some(deadline) => self.deadline(deadline),
            None => self,
        }
    }

    /// What has been used so far.
    pub fn spent(&self) -> TokenUsage {
        *self.lock()
    }

    pub(super) fn must_end(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether there is nothing left to begin with.
    pub(super) fn check_left(&self) -> Result<(), BudgetExceeded> {
        self.over(|used, limit| used >= limit)
    }

    /// Counts what was used, and says if that is too much.
    pub(super) fn charge(&self, usage: TokenUsage) -> Result<(), BudgetExceeded> {
        {
            let mut spent = self.lock();
            *spent = spent.combine(usage, u64::saturating_add);
        }
        self.over(|used, limit| used > limit)
    }

    fn over(&self, is_over: impl Fn(u64, u64) -> bool) -> Result<(), BudgetExceeded> {
        let (spent, limits) = (self.spent(), self.limits);
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

    fn lock(&self) -> MutexGuard<'_, TokenUsage> {
        self.spent.lock()
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

/// A limit of a [`Budget`] that was passed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the budget of {limit} {of} tokens is used up: {used}")]
pub struct BudgetExceeded {
    /// `total`, `prompt` or `completion`.
    pub of: &'static str,
    /// How much was used.
    pub used: u64,
    /// How much was allowed.
    pub limit: u64,
}

/// What one turn uses, from the thread's counts as they come.
#[derive(Debug, Default)]
pub(super) struct TurnUsage {
    /// What the thread had used as far as this program knows.
    known: TokenUsage,
    /// What it had used before the turn.
    before: Option<TokenUsage>,
    used: Option<TokenUsage>,
}

impl TurnUsage {
    /// On a thread that had used this; nothing if it is new.
    pub fn after(known: TokenUsage) -> Self {
        Self { known, ..Self::default() }
    }

    /// Takes a report, and tells what is new since the one before.
    pub fn take(&mut self, usage: &ThreadTokenUsage) -> TokenUsage {
        let (total, last) = (TokenUsage::from(&usage.total), TokenUsage::from(&usage.last));
        let known = self.known;
        // The first report is about the turn's first response, unless it only repeats what a resumed thread had.
        let before = *self.before.get_or_insert_with(|| match total == known {
            true => known,
            false => total.combine(last, u64::saturating_sub).combine(known, u64::max),
        });
        let used = total.combine(before, u64::saturating_sub);
        let counted = self.used.unwrap_or_default();
        if used != TokenUsage::default() {
            self.used = Some(counted.combine(used, u64::max));
        }
        used.combine(counted, u64::saturating_sub)
    }

    /// All of the turn so far; `None` when nothing was said about it.
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
            output_tokens: output,
            reasoning_output_tokens: 0,
        };
        ThreadTokenUsage { total: breakdown(total), last: breakdown(last), model_context_window: None }
    }

    #[test]
    fn a_turn_is_what_was_added_to_its_thread() {
        let mut turn = TurnUsage::default();
        assert_eq!(turn.used(), None);
        assert_eq!(turn.take(&report((1100, 110), (100, 10))), usage(100, 10));
        assert_eq!(turn.take(&report((1300, 130), (200, 20))), usage(200, 20));
        // Said again, or after one that was missed.
        assert_eq!(turn.take(&report((1300, 130), (200, 20))), usage(0, 0));
        assert_eq!(turn.take(&report((2000, 200), (300, 30))), usage(700, 70));
        assert_eq!(turn.used(), Some(usage(1000, 100)));
    }

    #[test]
    fn what_a_resumed_thread_had_used_is_not_counted_again() {
        let mut turn = TurnUsage::after(usage(100, 10));
        assert_eq!(turn.take(&report((100, 10), (100, 10))), usage(0, 0));
        assert_eq!(turn.used(), None);
        assert_eq!(turn.take(&report((300, 30), (200, 20))), usage(200, 20));
        // Without that first report, and with other turns in between.
        let mut turn = TurnUsage::after(usage(100, 10));
        assert_eq!(turn.take(&report((600, 60), (200, 20))), usage(200, 20));
    }

    #[test]
    fn each_limit_counts_and_clones_share() {
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
