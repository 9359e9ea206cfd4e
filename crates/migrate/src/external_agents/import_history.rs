//! The stored results of imports, which clients make or record: one file in the home.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use codicil_config::replace_private;
use codicil_protocol::{
    ExternalAgentConfigImportHistory, ExternalAgentConfigImportHistoryRecordParams,
    ExternalAgentConfigImportItemTypeSuccess,
};
use parking_lot::Mutex;
use uuid::Uuid;

use super::ImportError;

/// Results that are kept. The oldest are dropped.
const MAX_ENTRIES: usize = 256;

/// Held while the file is read and replaced.
static CHANGING: Mutex<()> = Mutex::new(());

/// The results of imports. All methods block on the disk.
#[derive(Debug)]
pub struct ImportHistory {
    path: PathBuf,
}

impl ImportHistory {
    pub fn new(home: &Path) -> Self {
        Self { path: home.join("external_agent_imports.json") }
    }

    /// Returns the results, the oldest first.
    pub fn read(&self) -> Result<Vec<ExternalAgentConfigImportHistory>, ImportError> {
        match fs::read(&self.path) {
            Ok(text) => Ok(serde_json::from_slice(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(ImportError::io(&self.path)(error)),
        }
    }

    /// Stores a result and returns its id.
    pub fn record(
        &self,
        params: ExternalAgentConfigImportHistoryRecordParams,
    ) -> Result<String, ImportError> {
        let import_id = Uuid::now_v7().to_string();
        let mut entry = ExternalAgentConfigImportHistory {
            import_id: import_id.clone(),
            completed_at_ms: now_ms(),
            provider_id: Some(params.provider_id),
            successes: Vec::new(),
            failures: Vec::new(),
        };
        for result in params.item_type_results {
            entry.failures.extend(result.failures);
            entry.successes.extend(result.successes.into_iter().map(|success| {
                ExternalAgentConfigImportItemTypeSuccess {
                    item_type: success.item_type,
                    cwd: success.cwd,
                    source: success.source,
                    target: success.target,
                    title: success.title,
                }
            }));
        }
        let _changing = CHANGING.lock();
        let mut entries = self.read()?;
        entries.push(entry);
        let dropped = entries.len().saturating_sub(MAX_ENTRIES);
        entries.drain(..dropped);
        let text = serde_json::to_vec(&entries)?;
        replace_private(&self.path, &text).map_err(ImportError::io(&self.path))?;
        Ok(import_id)
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
