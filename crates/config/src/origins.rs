//! The origins of the effective values.

use std::collections::BTreeMap;

use codicil_protocol::ConfigLayerMetadata;
use toml::{Table, Value};

use crate::layers::{LayerStack, value_at};

/// Returns the layer of each leaf value, by its keys joined with dots. Array elements are identified by their index.
pub(crate) fn origins(layers: &LayerStack, merged: &Table) -> BTreeMap<String, ConfigLayerMetadata> {
    let mut origins = OriginCollector { layers, found: BTreeMap::new() };
    origins.add_table(merged, &mut Vec::new());
    origins.found
}

struct OriginCollector<'l> {
    layers: &'l LayerStack,
    found: BTreeMap<String, ConfigLayerMetadata>,
}

impl OriginCollector<'_> {
    fn add_table(&mut self, table: &Table, path: &mut Vec<String>) {
        for (key, value) in table {
            path.push(key.clone());
            match value {
                Value::Table(below) => self.add_table(below, path),
                value => self.add_value(value, path),
            }
            path.pop();
        }
    }

    /// Adds a value that is not a table. It comes as a whole from the layer with the highest precedence.
    fn add_value(&mut self, value: &Value, path: &[String]) {
        let has_value = |table: &Table| value_at(table, path).is_some_and(|value| !value.is_table());
        let layer = self.layers.enabled().rev().find(|layer| has_value(layer.table()));
        if let Some(layer) = layer {
            add_leaves(value, &path.join("."), &layer.metadata(), &mut self.found);
        }
    }
}

type Found = BTreeMap<String, ConfigLayerMetadata>;

fn add_leaves(value: &Value, path: &str, from: &ConfigLayerMetadata, found: &mut Found) {
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_leaves(item, &format!("{path}.{index}"), from, found);
            }
        }
        Value::Table(table) => {
            for (key, value) in table {
                add_leaves(value, &format!("{path}.{key}"), from, found);
            }
        }
        _ => {
            found.insert(path.to_owned(), from.clone());
        }
    }
}
