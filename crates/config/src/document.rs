//! Brings a file in line with a table, touching nothing that need not change.
//!
//! The document is compared with the wanted table key by key. What is equal stays as it is, with its
//! comments, order and spelling; a changed value keeps the comment behind it; a removed key takes along the
//! comment directly above it, but not one that a blank line sets apart.

use toml::{Table, Value};
use toml_edit::{
    ArrayOfTables, Decor, DocumentMut, InlineTable, Item, Table as DocTable, TableLike, Value as DocValue,
};

use crate::{arrays, files::BYTE_ORDER_MARK};

/// The text would not say what it should. Nothing is written then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is written in a way that cannot be edited safely")]
pub struct CannotEdit;

/// The text of `before`, changed so that it says `wanted`. Tables that are left empty may disappear.
pub(crate) fn rewrite(text: &str, before: &Table, wanted: &Table) -> Result<String, CannotEdit> {
    let mark = text.starts_with(BYTE_ORDER_MARK);
    let mut document: DocumentMut =
        text.trim_start_matches(BYTE_ORDER_MARK).parse().map_err(|_| CannotEdit)?;
    // A file of comments only: what is new comes after them, set apart.
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
    adopt(&mut document, &orphans);
    let mut edited = comments + &document.to_string();
    if text.contains("\r\n") {
        edited = edited.replace("\r\n", "\n").replace('\n', "\r\n");
    }
    let says: Table = edited.parse().map_err(|_| CannotEdit)?;
    if without_empty_tables(&says) != without_empty_tables(wanted) {
        return Err(CannotEdit);
    }
    if mark {
        edited.insert(0, BYTE_ORDER_MARK);
    }
    Ok(edited)
}

/// How members of a table can be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableStyle {
    /// With headers of their own where they are tables.
    Standard,
    /// As values, in a table that is itself written in braces or with dotted keys.
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
            (Some(now), Some(item)) if is_alike(item, value) => sync_item(item, now, value, style, orphans),
            (now, _) => {
                if now.is_some() {
                    remove(table, key, orphans);
                }
                table.insert(key, new_item(value, style));
            }
        }
    }
}

/// Whether a value can be written where the item stands: with a header, or behind an equals sign.
fn is_alike(item: &Item, wanted: &Value) -> bool {
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
            arrays::sync(array, before, wanted);
        }
        (Item::Value(value), _, wanted) => {
            let decor = value.decor().clone();
            *value = new_value(wanted);
            *value.decor_mut() = decor;
        }
        (item, _, wanted) => *item = new_item(wanted, style),
    }
}

/// `[[name]]` tables: the ones that went away are dropped by what they say, so that the others keep their
/// comments.
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

/// Tells which elements are gone, and returns what is left of `before`. An element is taken to be gone
/// when the list is too long and the element is not the one wanted in its place.
fn drop_removed(before: &[Value], wanted: &[Value], mut drop: impl FnMut(usize)) -> Vec<Value> {
    let mut left = before.to_vec();
    while left.len() > wanted.len() {
        let differs = left.iter().zip(wanted).position(|(now, value)| now != value);
        let at = differs.unwrap_or(left.len() - 1).min(left.len() - 1);
        left.remove(at);
        drop(at);
    }
    left
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
    // A header is noise when all it holds has headers itself.
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

/// Removes a key; a comment that a blank line sets apart from it goes to the next key, or to `orphans`.
fn remove(table: &mut dyn TableLike, key: &str, orphans: &mut String) {
    let is_value = table.get(key).is_some_and(Item::is_value);
    let comment = match table.get(key) {
        Some(_) if is_value => table.key(key).and_then(|key| set_apart(key.leaf_decor())).unwrap_or_default(),
        Some(item) => set_apart_within(item),
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

/// The part of the comment above a key that ends with a blank line.
fn set_apart(decor: &Decor) -> Option<String> {
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

/// The same for every header of a table and of those below it.
fn set_apart_within(item: &Item) -> String {
    match item {
        Item::Table(table) => set_apart_in_table(table),
        Item::ArrayOfTables(tables) => tables.iter().map(set_apart_in_table).collect(),
        _ => String::new(),
    }
}

fn set_apart_in_table(table: &DocTable) -> String {
    let own = set_apart(table.decor()).unwrap_or_default();
    own + &table.iter().map(|(_, item)| set_apart_within(item)).collect::<String>()
}

/// Comments that lost the key below them stand above the first table, else at the end.
fn adopt(document: &mut DocumentMut, orphans: &str) {
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
