//! Editing a file to match a table, with minimal changes.
//!
//! The document is compared with the wanted table key by key. Equal values keep their comments, order and spelling. A changed
//! value keeps the comment after it. A removed key takes the comment directly above it along, but not one that is separated by
//! a blank line.

use toml::{Table, Value};
use toml_edit::{
    ArrayOfTables, Decor, DocumentMut, InlineTable, Item, Table as DocTable, TableLike, Value as DocValue,
};

use crate::{array_edit, files::BYTE_ORDER_MARK};

/// An edit that cannot be made safely. Nothing is written then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is written in a way that cannot be edited safely")]
pub struct CannotEdit;

/// Changes `text`, whose content is `before`, such that its content is `wanted`. Empty tables may be removed.
pub(crate) fn rewrite(text: &str, before: &Table, wanted: &Table) -> Result<String, CannotEdit> {
    let mark = text.starts_with(BYTE_ORDER_MARK);
    let mut document: DocumentMut =
        text.trim_start_matches(BYTE_ORDER_MARK).parse().map_err(|_| CannotEdit)?;
    // In a file with comments only, new keys follow after a blank line.
    let mut comments = String::new();
    if document.is_empty() {
        comments = std::mem::take(&mut document).to_string();
        if !comments.trim().is_empty() {
            comments.truncate(comments.trim_end().len());
            comments.push_str("\n\n");
        }
    }
    let mut orphans = String::new();
    sync_table(document.as_table_mut(), before, wanted, TableStyle::Standard, &mut orphans);
    insert_orphans(&mut document, &orphans);
    let mut edited = comments + &document.to_string();
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let content: Table = edited.parse().map_err(|_| CannotEdit)?;
    if without_empty_tables(&content) != without_empty_tables(wanted) {
        return Err(CannotEdit);
    }
    if mark {
        edited.insert(0, BYTE_ORDER_MARK);
    }
    Ok(edited)
}

/// How the members of a table are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableStyle {
    /// Tables with their own headers.
    Standard,
    /// Values, in a table with braces or dotted keys.
    Inline,
}

fn sync_table(
    table: &mut dyn TableLike,
    before: &Table,
    wanted: &Table,
    style: TableStyle,
    orphans: &mut String,
) {
    for key in before.keys().filter(|key| !wanted.contains_key(*key)) {
        remove(table, key, orphans);
    }
    for (key, value) in wanted {
        match (before.get(key), table.get_mut(key)) {
            (Some(now), Some(_)) if now == value => {}
            (Some(now), Some(item)) if has_same_form(item, value) => {
                sync_item(item, now, value, style, orphans)
            }
            (now, _) => {
                if now.is_some() {
                    remove(table, key, orphans);
                }
                table.insert(key, new_item(value, style));
            }
        }
    }
}

/// Returns whether a value can replace the item in place: with a header, or after an equals sign.
fn has_same_form(item: &Item, wanted: &Value) -> bool {
    match (item, wanted) {
        (Item::Table(_) | Item::Value(DocValue::InlineTable(_)), wanted) => wanted.is_table(),
        (Item::ArrayOfTables(_), Value::Array(wanted)) => is_list_of_tables(wanted),
        (Item::Value(_), wanted) => !wanted.is_table(),
        _ => false,
    }
}

fn sync_item(item: &mut Item, before: &Value, wanted: &Value, style: TableStyle, orphans: &mut String) {
    match (item, before, wanted) {
        (Item::Table(table), Value::Table(before), Value::Table(wanted)) => {
            let style = if table.is_dotted() { TableStyle::Inline } else { style };
            sync_table(table, before, wanted, style, orphans);
        }
        (Item::Value(DocValue::InlineTable(table)), Value::Table(before), Value::Table(wanted)) => {
            sync_table(table, before, wanted, TableStyle::Inline, orphans);
        }
        (Item::ArrayOfTables(tables), Value::Array(before), Value::Array(wanted)) => {
            sync_tables(tables, before, wanted, orphans);
        }
        (Item::Value(DocValue::Array(array)), Value::Array(before), Value::Array(wanted)) => {
            array_edit::sync(array, before, wanted);
        }
        (Item::Value(value), _, wanted) => {
            let decor = value.decor().clone();
            *value = new_value(wanted);
            *value.decor_mut() = decor;
        }
        (item, _, wanted) => *item = new_item(wanted, style),
    }
}

/// Edits `[[name]]` tables. Removed tables are identified by their content, so that the others keep their comments.
fn sync_tables(tables: &mut ArrayOfTables, before: &[Value], wanted: &[Value], orphans: &mut String) {
    let before = drop_removed(before, wanted, |at| {
        tables.remove(at);
    });
    for (at, value) in wanted.iter().enumerate() {
        match (before.get(at), tables.get_mut(at), value) {
            (Some(Value::Table(now)), Some(table), Value::Table(value)) => {
                sync_table(table, now, value, TableStyle::Standard, orphans);
            }
            (_, _, Value::Table(value)) => tables.push(new_table(value)),
            _ => {}
        }
    }
}

/// Calls `drop` for the elements that are removed, and returns the remaining ones. While there are too many elements, the first
/// one that differs from the wanted element at its position is removed.
fn drop_removed(before: &[Value], wanted: &[Value], mut drop: impl FnMut(usize)) -> Vec<Value> {
    let mut remaining = before.to_vec();
    while remaining.len() > wanted.len() {
        let differs = remaining.iter().zip(wanted).position(|(now, value)| now != value);
        let at = differs.unwrap_or(remaining.len() - 1).min(remaining.len() - 1);
        remaining.remove(at);
        drop(at);
    }
    remaining
}

fn new_item(value: &Value, style: TableStyle) -> Item {
    match (style, value) {
        (TableStyle::Standard, Value::Table(table)) => Item::Table(new_table(table)),
        (TableStyle::Standard, Value::Array(items)) if is_list_of_tables(items) => {
            let tables = items.iter().filter_map(Value::as_table).map(new_table);
            Item::ArrayOfTables(tables.collect())
        }
        (_, value) => Item::Value(new_value(value)),
    }
}

fn new_table(table: &Table) -> DocTable {
    let mut new = DocTable::new();
    for (key, value) in table {
        new.insert(key, new_item(value, TableStyle::Standard));
    }
    // A header is redundant if all members have their own headers.
    new.set_implicit(
        !table.is_empty() && new.iter().all(|(_, item)| item.is_table() || item.is_array_of_tables()),
    );
    new
}

fn is_list_of_tables(items: &[Value]) -> bool {
    !items.is_empty() && items.iter().all(Value::is_table)
}

pub(crate) fn new_value(value: &Value) -> DocValue {
    match value {
        Value::String(text) => DocValue::from(text.as_str()),
        Value::Integer(number) => DocValue::from(*number),
        Value::Float(number) => DocValue::from(*number),
        Value::Boolean(flag) => DocValue::from(*flag),
        Value::Datetime(date) => DocValue::from(*date),
        Value::Array(items) => DocValue::Array(items.iter().map(new_value).collect()),
        Value::Table(table) => {
            let members = table.iter().map(|(key, value)| (key.as_str(), new_value(value)));
            DocValue::InlineTable(members.collect::<InlineTable>())
        }
    }
}

/// Removes a key. A comment that is separated by a blank line moves to the next key or to `orphans`.
fn remove(table: &mut dyn TableLike, key: &str, orphans: &mut String) {
    let is_value = table.get(key).is_some_and(Item::is_value);
    let comment = match table.get(key) {
        Some(_) if is_value => {
            table.key(key).and_then(|key| separate_comment(key.leaf_decor())).unwrap_or_default()
        }
        Some(item) => separate_comments_within(item),
        None => return,
    };
    let next = {
        let mut following = table.iter().skip_while(|(name, _)| *name != key).skip(1);
        following.find(|(_, item)| is_value && item.is_value()).map(|(name, _)| name.to_owned())
    };
    table.remove(key);
    if comment.is_empty() {
        return;
    }
    match next.and_then(|next| table.key_mut(&next)) {
        Some(mut next) => {
            let decor = next.leaf_decor_mut();
            let own = decor.prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default().to_owned();
            decor.set_prefix(comment + &own);
        }
        None => orphans.push_str(&comment),
    }
}

/// Returns the part of the comment above a key that ends with a blank line.
fn separate_comment(decor: &Decor) -> Option<String> {
    let prefix = decor.prefix()?.as_str()?;
    let mut end = 0;
    let mut at = 0;
    for line in prefix.split_inclusive('\n') {
        at += line.len();
        if line.ends_with('\n') && line.trim().is_empty() {
            end = at;
        }
    }
    prefix.get(..end).filter(|apart| apart.contains('#')).map(str::to_owned)
}

/// Returns these parts for all headers of a table and its subtables.
fn separate_comments_within(item: &Item) -> String {
    match item {
        Item::Table(table) => separate_comments_in_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(separate_comments_in_table).collect(),
        _ => String::new(),
    }
}

fn separate_comments_in_table(table: &DocTable) -> String {
    let own = separate_comment(table.decor()).unwrap_or_default();
    own + &table.iter().map(|(_, item)| separate_comments_within(item)).collect::<String>()
}

/// Inserts comments without a key above the first table, or at the end.
fn insert_orphans(document: &mut DocumentMut, orphans: &str) {
    if orphans.is_empty() {
        return;
    }
    let first = document.as_table().iter().filter_map(|(key, item)| Some((first_position(item)?, key))).min();
    let first = first.map(|(_, key)| key.to_owned());
    if let Some(Item::Table(table)) = first.and_then(|key| document.get_mut(&key))
        && !table.is_implicit()
    {
        let own = table.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or("\n").to_owned();
        table.decor_mut().set_prefix(orphans.to_owned() + own.trim_start_matches('\n'));
        return;
    }
    let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
    document.set_trailing(trailing + orphans);
}

fn first_position(item: &Item) -> Option<isize> {
    match item {
        Item::Table(table) => {
            let below = table.iter().filter_map(|(_, item)| first_position(item));
            table.position().into_iter().chain(below).min()
        }
        _ => None,
    }
}

fn without_empty_tables(table: &Table) -> Table {
    let members = table.iter().filter_map(|(key, value)| match value {
        Value::Table(below) => {
            let below = without_empty_tables(below);
            (!below.is_empty()).then(|| (key.clone(), Value::Table(below)))
        }
        value => Some((key.clone(), value.clone())),
    });
    members.collect()
}
