//! The tokens that stored threads have used: `codicil/usage/read`.

use codicil_protocol::{CodicilResponseUsage, CodicilThreadUsage, ThreadId, TokenUsageBreakdown};
use codicil_store::{StoreError, UsageRecord};

use super::Threads;
use crate::error::ThreadError;

impl Threads {
    /// Returns the usage of a stored thread, with each response since a time in Unix seconds. `None` for a thread that is
    /// not stored or has used no tokens.
    pub async fn token_usage(
        &self,
        id: &ThreadId,
        since: Option<i64>,
    ) -> Result<Option<CodicilThreadUsage>, ThreadError> {
        let records = match self.0.engine.store.token_usage(id).await {
            Ok(records) => records,
            Err(StoreError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let responses = since.map(|since| responses(&records, since)).unwrap_or_default();
        let usage =
            |last: UsageRecord| CodicilThreadUsage { thread_id: id.clone(), usage: last.usage, responses };
        Ok(records.into_iter().next_back().map(usage))
    }
}

/// Returns the tokens of each response since a time. A rollback repeats the usage before it, which is not a response.
fn responses(records: &[UsageRecord], since: i64) -> Vec<CodicilResponseUsage> {
    let totals = records.iter().map(|record| record.usage.total.total_tokens);
    let before = std::iter::once(0).chain(totals);
    let added = |(record, before): &(&UsageRecord, i64)| record.usage.total.total_tokens > *before;
    let response = |record: &UsageRecord| CodicilResponseUsage {
        turn_id: record.turn_id.clone(),
        at: record.at.as_second(),
        usage: TokenUsageBreakdown::clone(&record.usage.last),
    };
    let recent = records.iter().zip(before).filter(added).map(|(record, _)| record);
    recent.filter(|record| record.at.as_second() >= since).map(response).collect()
}
