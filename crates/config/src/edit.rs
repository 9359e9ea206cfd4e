//! Applying the edits of clients to a table. Changing the file accordingly, with its comments, is left to `document.rs`.

use codicil_protocol::{ConfigEdit, MergeStrategy};
use serde_json::Value as Json;
use toml::{Table, Value};

use crate::{KeyPath, KeyPathError, layers::merge, toml_json::to_toml};

/// A change of one key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyEdit {
    pub path: KeyPath,
    /// Null removes the key.
    pub value: Json,
    pub strategy: MergeStrategy,
}

/// The reason why an edit is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error(transparent)]
    KeyPath(#[from] KeyPathError),
    /// The text is the reference server's; clients match on it.
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

    /// Applies the edit. Upsert merges tables at every depth; everything else is replaced.
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

/// Removes a key, if it exists.
fn remove(table: &mut Table, parents: &[String], key: &str) {
    let parent = parents.iter().try_fold(table, |table, key| table.get_mut(key)?.as_table_mut());
    if let Some(parent) = parent {
        parent.remove(key);
    }
}
