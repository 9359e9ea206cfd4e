//! Decoding the parts of a record that a reader needs. Members that stay JSON are not validated.

use std::borrow::Cow;

use codicil_protocol::{GitInfo, ThreadGoal, ThreadTokenUsage, TurnError, TurnId, TurnStatus};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    record::{RunId, TurnEndCause},
    record_line::LineHead,
};

/// The end of the record of a completed turn, by far the most frequent one.
pub const COMPLETED: &str = ",\"status\":\"completed\",\"error\":null}";

#[derive(Deserialize)]
pub struct TurnEnd {
    pub status: TurnStatus,
    pub error: Option<TurnError>,
    #[serde(default)]
    pub cause: Option<TurnEndCause>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRecord {
    pub turn_id: TurnId,
    pub usage: ThreadTokenUsage,
}

#[derive(Deserialize)]
pub struct RollbackRecord {
    pub turns: u32,
}

#[derive(Deserialize)]
struct ExtraKind {
    kind: String,
}

#[derive(Deserialize)]
pub struct ExtraRecord<T> {
    pub data: T,
}

#[derive(Deserialize)]
pub struct GoalRecord {
    pub goal: Option<ThreadGoal>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RootTurnRecord {
    pub turn_id: TurnId,
    pub root_turn_id: TurnId,
}

#[derive(Deserialize)]
pub struct SchemaRecord {
    pub schema: serde_json::Value,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawnRecord {
    pub turn_id: String,
    pub item_id: String,
}

#[derive(Deserialize)]
pub struct NameRecord {
    pub name: String,
}

#[derive(Deserialize)]
pub struct GitRecord {
    pub git: Option<GitInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RecordParts {
    turn_id: Option<String>,
    #[serde(alias = "item", alias = "replacement")]
    value: Box<RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfTurn {
    pub turn_id: Option<String>,
}

#[derive(Deserialize)]
struct IdentifiedItem {
    id: String,
}

pub fn decode<T: for<'de> Deserialize<'de>>(head: LineHead<'_>) -> Option<T> {
    serde_json::from_str(&head.json()).ok()
}

/// Returns the kind of an extra record.
pub fn extra_kind(head: LineHead<'_>) -> Option<String> {
    decode::<ExtraKind>(head).map(|extra| extra.kind)
}

/// Returns the turn of a record, if it belongs to one.
pub fn turn_of<'a>(head: LineHead<'a>) -> Option<Cow<'a, str>> {
    match head.turn_id() {
        Some(id) => Some(Cow::Borrowed(id)),
        None => decode::<OfTurn>(head)?.turn_id.map(Cow::Owned),
    }
}

/// Returns the run of a turn record; `None` for those of earlier versions.
pub fn run_of(head: LineHead<'_>) -> Option<RunId> {
    #[derive(Deserialize)]
    struct TurnRecord {
        run: Option<RunId>,
    }
    decode::<TurnRecord>(head)?.run
}

/// Returns the turn and the JSON of the other member. Borrowed JSON is not validated.
pub fn parts<'a>(head: LineHead<'a>, member: &str) -> Option<(Option<Cow<'a, str>>, Cow<'a, str>)> {
    if let Some((turn, json)) = head.last_member(member) {
        return Some((Some(Cow::Borrowed(turn)), Cow::Borrowed(json)));
    }
    let parts: RecordParts = decode(head)?;
    Some((parts.turn_id.map(Cow::Owned), Cow::Owned(parts.value.get().to_owned())))
}

pub fn item_id<'a>(json: Cow<'a, str>) -> Option<Cow<'a, str>> {
    if let Cow::Borrowed(json) = json
        && let Some((_, rest)) = json.strip_prefix("{\"type\":\"").and_then(|json| json.split_once('"'))
        && let Some((id, _)) = rest.strip_prefix(",\"id\":\"").and_then(|rest| rest.split_once('"'))
        && !id.contains('\\')
    {
        return Some(Cow::Borrowed(id));
    }
    serde_json::from_str::<IdentifiedItem>(&json).ok().map(|it| Cow::Owned(it.id))
}
