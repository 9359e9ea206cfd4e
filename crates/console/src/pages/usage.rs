//! Usage over time, from what the server has stored: tokens, turns, tool calls, errors and time by day.
//!
//! The last threads are read, and of each the last turns, so that a page costs the same with any number of threads.

use std::collections::BTreeMap;

use codicil_client::{
    Client, ClientError,
    protocol::{
        CodicilThreadUsage, CodicilUsageRead, CodicilUsageReadParams, CommandExecutionStatus,
        DynamicToolCallStatus, McpToolCallStatus, PatchApplyStatus, SortDirection, Thread, ThreadId,
        ThreadItem, ThreadListParams, ThreadSortKey, ThreadTurnsList, ThreadTurnsListParams, Turn,
        TurnItemsView, TurnStatus,
    },
};
use futures_util::{StreamExt, stream};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use maud::{Markup, html};

use super::format::unix_now;
use crate::{
    questions::all_thread_sources,
    render::charts::{ChartKind, ChartSeries, chart},
};

/// Threads that are read, and turns of each.
const MAX_THREADS: u32 = 60;
const MAX_TURNS: u32 = 100;

/// Days of a chart.
const DAYS: i64 = 14;

/// Threads that are read at the same time.
const PARALLEL_READS: usize = 4;

/// What happened on one day.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DayUsage {
    tokens: i64,
    turns: usize,
    tool_calls: usize,
    /// Turns and tool calls that failed.
    errors: usize,
    seconds: f64,
}

/// What threads have done: their turns, and the tokens of each response with its time in Unix seconds.
#[derive(Debug, Default)]
struct RecentWork {
    turns: Vec<Turn>,
    responses: Vec<(i64, i64)>,
}

/// Usage by day, without gaps, the oldest day first.
#[derive(Debug, PartialEq)]
pub struct RecentUsage(Vec<(Date, DayUsage)>);

/// Reads the usage of the last days.
pub async fn recent(client: &Client) -> Result<RecentUsage, ClientError> {
    let params = ThreadListParams {
        limit: Some(MAX_THREADS),
        sort_key: Some(ThreadSortKey::UpdatedAt),
        source_kinds: Some(all_thread_sources()),
        ..ThreadListParams::default()
    };
    let oldest = unix_now() - DAYS * 86_400;
    let mut threads = client.list_threads(params).await?.data;
    threads.retain(|thread| thread.updated_at >= oldest);
    let responses = responses(client, &threads, oldest).await;
    let turns: Vec<Vec<Turn>> = stream::iter(threads)
        .map(|thread| last_turns(client, thread))
        .buffer_unordered(PARALLEL_READS)
        .collect()
        .await;
    let turns = turns.into_iter().flatten().collect();
    Ok(count(RecentWork { turns, responses }, today()))
}

/// Returns the tokens of the responses since a time; none if the server cannot tell.
async fn responses(client: &Client, threads: &[Thread], since: i64) -> Vec<(i64, i64)> {
    let thread_ids = threads.iter().map(|thread| thread.id.clone()).collect();
    let params = CodicilUsageReadParams { thread_ids, since: Some(since) };
    let read = match client.call::<CodicilUsageRead>(params).await {
        Ok(read) => read.data,
        Err(error) => {
            tracing::debug!("cannot read the tokens of threads: {error}");
            return Vec::new();
        }
    };
    // A fork begins with copies of what happened before it was created.
    let created_at = |id: &ThreadId| {
        threads.iter().find(|thread| thread.id == *id).map_or(i64::MIN, |thread| thread.created_at)
    };
    let of_thread = |usage: CodicilThreadUsage| {
        let created_at = created_at(&usage.thread_id);
        let own = usage.responses.into_iter().filter(move |response| response.at >= created_at);
        own.map(|response| (response.at, response.usage.total_tokens))
    };
    read.into_iter().flat_map(of_thread).collect()
}

/// Returns the last own turns of a thread, without copies from the thread it was forked from; none if it cannot be read, because the charts are worth showing without it.
async fn last_turns(client: &Client, thread: Thread) -> Vec<Turn> {
    let params = ThreadTurnsListParams {
        thread_id: thread.id,
        cursor: None,
        limit: Some(MAX_TURNS),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Full),
    };
    let mut turns = client.call::<ThreadTurnsList>(params).await.map(|page| page.data).unwrap_or_default();
    turns.retain(|turn| turn.started_at.is_none_or(|started| started >= thread.created_at));
    turns
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::system()).date()
}

fn count(work: RecentWork, today: Date) -> RecentUsage {
    let first = today.saturating_sub(jiff::Span::new().days(DAYS - 1));
    let mut days: BTreeMap<Date, DayUsage> = first
        .series(jiff::Span::new().days(1))
        .take_while(|day| *day <= today)
        .map(|day| (day, DayUsage::default()))
        .collect();
    for turn in work.turns {
        let Some(usage) = turn.started_at.and_then(day_of).and_then(|day| days.get_mut(&day)) else {
            continue;
        };
        usage.turns += 1;
        usage.tool_calls += turn.items.iter().filter(|item| is_tool_call(item)).count();
        usage.errors += turn.items.iter().filter(|item| is_failed_call(item)).count();
        usage.errors += usize::from(turn.status == TurnStatus::Failed);
        usage.seconds += turn.duration_ms.unwrap_or_default() as f64 / 1000.0;
    }
    for (at, tokens) in work.responses {
        if let Some(usage) = day_of(at).and_then(|day| days.get_mut(&day)) {
            usage.tokens = usage.tokens.saturating_add(tokens);
        }
    }
    RecentUsage(days.into_iter().collect())
}

/// Returns the day of a time in Unix seconds.
fn day_of(seconds: i64) -> Option<Date> {
    Some(Timestamp::from_second(seconds).ok()?.to_zoned(TimeZone::system()).date())
}

fn is_tool_call(item: &ThreadItem) -> bool {
    matches!(
        item,
        ThreadItem::CommandExecution { .. }
            | ThreadItem::FileChange { .. }
            | ThreadItem::McpToolCall { .. }
            | ThreadItem::DynamicToolCall { .. }
            | ThreadItem::CollabAgentToolCall { .. }
            | ThreadItem::WebSearch { .. }
    )
}

fn is_failed_call(item: &ThreadItem) -> bool {
    match item {
        ThreadItem::CommandExecution { status, .. } => *status == CommandExecutionStatus::Failed,
        ThreadItem::FileChange { status, .. } => *status == PatchApplyStatus::Failed,
        ThreadItem::McpToolCall { status, .. } => *status == McpToolCallStatus::Failed,
        ThreadItem::DynamicToolCall { status, .. } => *status == DynamicToolCallStatus::Failed,
        _ => false,
    }
}

/// Returns the charts.
pub fn charts(usage: &RecentUsage) -> Markup {
    let series = |title: &str, unit: &str, value: fn(&DayUsage) -> f64| ChartSeries {
        title: format!("{title}, last {DAYS} days"),
        unit: unit.to_owned(),
        points: usage
            .0
            .iter()
            .map(|(day, usage)| (day.strftime("%d %b").to_string(), value(usage)))
            .collect(),
    };
    html! {
        div.charts {
            (chart(&series("Tokens", "tokens", |usage| usage.tokens as f64), ChartKind::Bars))
            (chart(&series("Turns", "turns", |usage| usage.turns as f64), ChartKind::Bars))
            (chart(&series("Tool calls", "calls", |usage| usage.tool_calls as f64), ChartKind::Bars))
            (chart(&series("Errors", "errors", |usage| usage.errors as f64), ChartKind::Bars))
            (chart(&series("Working time", "seconds", |usage| usage.seconds), ChartKind::Line))
        }
    }
}

#[cfg(test)]
mod tests {
    use codicil_client::protocol::TurnId;

    use super::*;

    #[test]
    fn turns_are_counted_by_day() {
        let today = today();
        let now = unix_now();
        let turn = |age_days: i64, status: TurnStatus| Turn {
            status,
            started_at: Some(now - age_days * 86_400),
            duration_ms: Some(1500),
            items: vec![ThreadItem::WebSearch {
                id: "i".into(),
                query: "q".into(),
                action: None,
                results: None,
            }],
            ..Turn::in_progress(TurnId::from("t"))
        };
        let turns =
            [turn(0, TurnStatus::Completed), turn(0, TurnStatus::Failed), turn(100, TurnStatus::Completed)];
        let responses = vec![(now, 40), (now, 2), (now - 100 * 86_400, 7)];
        let RecentUsage(days) = count(RecentWork { turns: turns.into(), responses }, today);
        assert_eq!(days.len(), DAYS as usize);
        let (_, last) = days.last().unwrap();
        assert_eq!(*last, DayUsage { tokens: 42, turns: 2, tool_calls: 2, errors: 1, seconds: 3.0 });
        let all: usize = days.iter().map(|(_, day)| day.turns).sum();
        assert_eq!(all, 2);
    }
}
