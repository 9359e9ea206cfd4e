//! Edits as clients send them, applied to a table.
//!
//! This is the meaning of an edit. How the file comes to say the same, with its comments, is `document.rs`.

use codicil_protocol::{ConfigEdit, MergeStrategy};
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::{KeyPath, KeyPathError, convert::to_toml, layers::merge};

/// A change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyEdit {
    pub path: KeyPath,
    /// Null removes the key.
    pub value: Json,
    pub strategy: MergeStrategy,
}

/// Why an edit has no meaning.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    KeyPath(#[from] KeyPathError),
    /// The sentence is the reference server's; clients match on it.
    #[error("cannot set value on non-table parent")]
    ParentIsNoTable,
}

impl KeyEdit {
    pub fn replace(path: KeyPath, value: impl Into<Json>) -> Self {
        Self { path, value: value.into(), strategy: MergeStrategy::Replace }
    }

    pub(crate) fn parse(edit: &ConfigEdit) -> Result<Self, KeyPathError> {
        Ok(Self {
            path: KeyPath::parse(&edit.key_path)?,
            value: edit.value.clone(),
            strategy: edit.merge_strategy,
        })
    }

    /// Upsert adds the members of a table to those that are there, at every depth; all else is replaced.
    pub fn apply(&self, table: &mut Table) -> Result<(), EditError> {
        let (parents, key) = self.path.split_last();
        let Some(value) = to_toml(&self.value) else {
            remove(table, parents, key);
            return Ok(());
        };
        let parent = parents.iter().try_fold(table, |table, key| {
            let below = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            below.as_table_mut().ok_or(EditError::ParentIsNoTable)
        })?;
        match (self.strategy, parent.get_mut(key), value) {
            (MergeStrategy::Upsert, Some(Value::Table(before)), Value::Table(added)) => merge(before, &added),
            (_, _, value) => {
                parent.insert(key.to_owned(), value);
            }
        }
        Ok(())
    }
}

/// What is not there is removed already.
fn remove(table: &mut Table, parents: &[String], key: &str) {
    let parent = parents.iter().try_fold(table, |table, key| table.get_mut(key)?.as_table_mut());
    if let Some(parent) = parent {
        parent.remove(key);
    }
}
