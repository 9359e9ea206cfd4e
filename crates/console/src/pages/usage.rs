//! Usage over time, from the turns that the server has stored: turns, tool calls, errors and time by day.
//!
//! The last threads are read, and of each the last turns, so that a page costs the same with any number of threads.

use std::collections::BTreeMap;

use codicil_client::{
    Client, ClientError,
    protocol::{
        SortDirection, Thread, ThreadItem, ThreadListParams, ThreadTurnsList, ThreadTurnsListParams, Turn,
        TurnItemsView, TurnStatus,
    },
};
use futures_util::{StreamExt, stream};
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use maud::{Markup, html};

use super::format::unix_now;
use crate::render::charts::{ChartKind, ChartSeries, chart};

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
    turns: usize,
    tool_calls: usize,
    errors: usize,
    seconds: f64,
}

/// Usage by day, without gaps, the oldest day first.
#[derive(Debug, PartialEq)]
pub struct RecentUsage(Vec<(Date, DayUsage)>);

/// Reads the usage of the last days.
pub async fn recent(client: &Client) -> Result<RecentUsage, ClientError> {
    let params = ThreadListParams { limit: Some(MAX_THREADS), ..ThreadListParams::default() };
    let oldest = unix_now() - DAYS * 86_400;
    let threads = client.list_threads(params).await?.data;
    let is_recent = |thread: &Thread| thread.updated_at >= oldest;
    let turns: Vec<Vec<Turn>> = stream::iter(threads.into_iter().filter(is_recent))
        .map(|thread| last_turns(client, thread))
        .buffer_unordered(PARALLEL_READS)
        .collect()
        .await;
    Ok(count(turns.into_iter().flatten(), today()))
}

/// Returns the last turns of a thread; none if it cannot be read, because the charts are worth showing without it.
async fn last_turns(client: &Client, thread: Thread) -> Vec<Turn> {
    let params = ThreadTurnsListParams {
        thread_id: thread.id,
        cursor: None,
        limit: Some(MAX_TURNS),
        sort_direction: Some(SortDirection::Desc),
        items_view: Some(TurnItemsView::Full),
    };
    client.call::<ThreadTurnsList>(params).await.map(|page| page.data).unwrap_or_default()
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::system()).date()
}

fn count(turns: impl Iterator<Item = Turn>, today: Date) -> RecentUsage {
    let first = today.saturating_sub(jiff::Span::new().days(DAYS - 1));
    let mut days: BTreeMap<Date, DayUsage> = first
        .series(jiff::Span::new().days(1))
        .take_while(|day| *day <= today)
        .map(|day| (day, DayUsage::default()))
        .collect();
    for turn in turns {
        let day = turn.started_at.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let Some(day) = day.map(|time| time.to_zoned(TimeZone::system()).date()) else { continue };
        let Some(usage) = days.get_mut(&day) else { continue };
        usage.turns += 1;
        usage.tool_calls += turn.items.iter().filter(|item| is_tool_call(item)).count();
        usage.errors += usize::from(turn.status == TurnStatus::Failed);
        usage.seconds += turn.duration_ms.unwrap_or_default() as f64 / 1000.0;
    }
    RecentUsage(days.into_iter().collect())
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
            (chart(&series("Turns", "turns", |usage| usage.turns as f64), ChartKind::Bars))
            (chart(&series("Tool calls", "calls", |usage| usage.tool_calls as f64), ChartKind::Bars))
            (chart(&series("Failed turns", "turns", |usage| usage.errors as f64), ChartKind::Bars))
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
        let RecentUsage(days) = count(turns.into_iter(), today);
        assert_eq!(days.len(), DAYS as usize);
        let (_, last) = days.last().unwrap();
        assert_eq!(*last, DayUsage { turns: 2, tool_calls: 2, errors: 1, seconds: 3.0 });
        let all: usize = days.iter().map(|(_, day)| day.turns).sum();
        assert_eq!(all, 2);
    }
}
