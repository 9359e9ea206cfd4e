//! Comparing the index with the files, without changing it.

use std::{collections::HashMap, fs, path::Path};

use codicil_protocol::ThreadId;
use rusqlite::{Connection, OpenFlags};

use crate::{
    check::RowDifference,
    index::{
        database,
        rows::{self, COLUMNS},
    },
    layout::HomeLayout,
    summary::{self, ThreadSummary},
};

/// The content of an index.
pub struct IndexRows {
    rows: HashMap<ThreadId, ThreadSummary>,
    /// The directories for which the index claims to be complete, with their times then.
    dirs: HashMap<String, i64>,
}

impl IndexRows {
    /// Reads the index of a home, or returns what is wrong with it. Creates and changes no file.
    pub fn read(layout: &HomeLayout) -> Result<Self, String> {
        let connection = open_unchanged(&layout.index()).map_err(|error| error.to_string())?;
        match connection.pragma_query_value(None, "quick_check", |row| row.get::<_, String>(0)) {
            Ok(check) if check == "ok" => Self::select(&connection).map_err(|error| error.to_string()),
            Ok(damage) => Err(damage),
            Err(error) => Err(error.to_string()),
        }
    }

    fn select(connection: &Connection) -> rusqlite::Result<Self> {
        // A server that was killed while it created the index leaves an empty one.
        if !database::is_current(connection)? {
            return Ok(Self { rows: HashMap::new(), dirs: HashMap::new() });
        }
        let sql = format!("SELECT {COLUMNS} FROM threads t JOIN dirs d ON d.id = t.dir");
        let mut select = connection.prepare(&sql)?;
        let found: rusqlite::Result<Vec<_>> = select.query_map([], rows::summary)?.collect();
        let rows = found?.into_iter().map(|row| (row.id.clone(), row)).collect();
        Ok(Self { rows, dirs: rows::clean_dirs(connection)?.into_iter().collect() })
    }

    pub fn count(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether the index claims to be complete for a directory. Otherwise the next list reads its files.
    fn is_complete(&self, layout: &HomeLayout, dir: &str) -> bool {
        let now = fs::metadata(layout.absolute(dir)).ok().map(|found| summary::nanoseconds(&found));
        now.is_some() && self.dirs.get(dir).copied() == now
    }
}

/// Opens a database for reading. SQLite creates its helper files for a database that no process uses, so such a database
/// is opened as one that never changes.
fn open_unchanged(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut shared_memory = path.as_os_str().to_owned();
    shared_memory.push("-shm");
    if Path::new(&shared_memory).exists() {
        return Connection::open_with_flags(path, flags);
    }
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                uri.push(char::from(*byte))
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    uri.push_str("?immutable=1");
    Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
}

/// Returns the rows that differ from the files, which are given as the rows that they should have.
pub fn differences(layout: &HomeLayout, index: &IndexRows, files: &[ThreadSummary]) -> Vec<RowDifference> {
    let mut differences = Vec::new();
    let by_id: HashMap<_, _> = files.iter().map(|row| (&row.id, row)).collect();
    for expected in files.iter().filter(|row| index.is_complete(layout, &row.dir)) {
        match index.rows.get(&expected.id) {
            None => differences.push((expected.id.clone(), "is missing".to_owned())),
            Some(found) => {
                let fields = differing_fields(found, expected);
                if !fields.is_empty() {
                    differences.push((expected.id.clone(), format!("has another {}", fields.join(", "))));
                }
            }
        }
    }
    for (id, row) in &index.rows {
        if !by_id.contains_key(id) && index.is_complete(layout, &row.dir) {
            differences.push((id.clone(), "has no file".to_owned()));
        }
    }
    differences.sort();
    differences
}

/// Returns the names of the members in which two rows differ.
pub fn differing_fields(found: &ThreadSummary, expected: &ThreadSummary) -> Vec<&'static str> {
    let fields = [
        ("path", (&found.dir, &found.file) == (&expected.dir, &expected.file)),
        ("archive state", found.archived == expected.archived),
        ("time of creation", found.created_at == expected.created_at),
        ("time of change", found.updated_at == expected.updated_at),
        ("first message", found.preview == expected.preview),
        ("name", found.name == expected.name),
        ("repository", found.git == expected.git),
        ("directory", found.cwd == expected.cwd),
        ("model", found.model == expected.model),
        ("parent", found.parent_thread_id == expected.parent_thread_id),
    ];
    fields.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
}
