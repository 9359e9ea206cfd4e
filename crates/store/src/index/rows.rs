//! Reading and writing the rows of the index.

use codicil_protocol::{GitInfo, SessionSource, ThreadId};
use rusqlite::{Connection, OptionalExtension, Row, named_params, params};

use crate::{
    facts::{FactEvent, IndexedFacts},
    index::changes::{GitChange, SummaryChange},
    record::QuestionKind,
    summary::{FileStamp, ModelChoice, ThreadSummary, kind_name, source_kind},
};

/// The columns in the order of [`summary`].
pub const COLUMNS: &str = "t.id, d.path, t.file, t.archived, t.created_at, t.updated_at, t.source, \
    t.model_provider, t.cwd, t.cli_version, t.has_user, t.preview, t.name, t.git, t.parent_thread_id, \
    t.agent_nickname, t.agent_role, t.size, t.mtime, t.model, t.effort, t.forked_from_id, t.originator, \
    t.thread_source, t.history_mode, t.open_requests, t.facts";

/// Reads a row that was selected with [`COLUMNS`].
pub fn summary(row: &Row<'_>) -> rusqlite::Result<ThreadSummary> {
    let source: String = row.get(6)?;
    let has_user: bool = row.get(10)?;
    let git: Option<String> = row.get(13)?;
    let effort: Option<String> = row.get(20)?;
    let history_mode: String = row.get(24)?;
    let open_requests: Option<String> = row.get(25)?;
    Ok(ThreadSummary {
        id: id(row, 0)?,
        dir: row.get(1)?,
        file: row.get(2)?,
        archived: row.get(3)?,
        created_at: row.get(4)?,
        updated_at: row.get(5)?,
        source: serde_json::from_str(&source).unwrap_or(SessionSource::Unknown),
        model_provider: row.get(7)?,
        cwd: row.get(8)?,
        cli_version: row.get(9)?,
        preview: if has_user { row.get(11)? } else { None },
        name: row.get(12)?,
        git: git.and_then(|git| serde_json::from_str(&git).ok()),
        parent_thread_id: row.get::<_, Option<String>>(14)?.map(ThreadId::from),
        agent_nickname: row.get(15)?,
        agent_role: row.get(16)?,
        stamp: FileStamp { size: row.get(17)?, mtime: row.get(18)? },
        model: ModelChoice {
            model: row.get(19)?,
            effort: effort.and_then(|effort| serde_json::from_str(&effort).ok()),
        },
        forked_from: row.get::<_, Option<String>>(21)?.map(ThreadId::from),
        originator: row.get(22)?,
        thread_source: row.get(23)?,
        history_mode: serde_json::from_str(&history_mode).unwrap_or_default(),
        facts: IndexedFacts::from_json(row.get::<_, Option<String>>(26)?.as_deref()),
        open_requests: open_requests.and_then(|kinds| serde_json::from_str(&kinds).ok()).unwrap_or_default(),
    })
}

fn id(row: &Row<'_>, column: usize) -> rusqlite::Result<ThreadId> {
    row.get::<_, String>(column).map(ThreadId::from)
}

/// Returns the row of a thread.
pub fn get(connection: &Connection, id: &ThreadId) -> rusqlite::Result<Option<ThreadSummary>> {
    let sql = format!("SELECT {COLUMNS} FROM threads t JOIN dirs d ON d.id = t.dir WHERE t.id = ?1");
    connection.prepare_cached(&sql)?.query_row([&**id], summary).optional()
}

/// Adds or replaces the row of a thread.
pub fn put(connection: &Connection, row: &ThreadSummary) -> rusqlite::Result<()> {
    remove(connection, &row.id)?;
    insert(connection, row)
}

/// Adds the row of a thread, which must not have one.
pub fn insert(connection: &Connection, row: &ThreadSummary) -> rusqlite::Result<()> {
    let dir = dir_id(connection, &row.dir)?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO threads (archived, created_at, id, updated_at, has_user, source_kind, model_provider, cwd,
            name, dir, file, size, mtime, source, cli_version, git, model, effort, forked_from_id,
            parent_thread_id, agent_nickname, agent_role, originator, thread_source, history_mode,
            open_requests, facts, preview)
        VALUES (:archived, :created_at, :id, :updated_at, :has_user, :source_kind, :model_provider, :cwd,
            :name, :dir, :file, :size, :mtime, :source, :cli_version, :git, :model, :effort, :forked_from,
            :parent, :nickname, :role, :originator, :thread_source, :history_mode,
            :open_requests, :facts, :preview)",
    )?;
    insert.execute(named_params! {
        ":archived": row.archived,
        ":created_at": row.created_at,
        ":id": &*row.id,
        ":updated_at": row.updated_at,
        ":has_user": row.preview.is_some(),
        ":source_kind": kind_name(source_kind(&row.source)),
        ":model_provider": row.model_provider,
        ":cwd": row.cwd,
        ":name": row.name,
        ":dir": dir,
        ":file": row.file,
        ":size": row.stamp.size,
        ":mtime": row.stamp.mtime,
        ":source": serde_json::to_string(&row.source).unwrap_or_default(),
        ":cli_version": row.cli_version,
        ":git": git_json(row.git.as_ref()),
        ":model": row.model.model,
        ":effort": effort_json(&row.model),
        ":forked_from": row.forked_from.as_deref(),
        ":parent": row.parent_thread_id.as_deref(),
        ":nickname": row.agent_nickname,
        ":role": row.agent_role,
        ":originator": row.originator,
        ":thread_source": row.thread_source,
        ":history_mode": serde_json::to_string(&row.history_mode).unwrap_or_default(),
        ":open_requests": requests_json(&row.open_requests),
        ":facts": row.facts.to_json(),
        ":preview": row.preview,
    })?;
    Ok(())
}

/// Applies the changes of an append. Returns `false` if the index does not contain the thread.
pub fn update(connection: &Connection, id: &ThreadId, change: &SummaryChange) -> rusqlite::Result<bool> {
    let mut update = connection.prepare_cached(
        "UPDATE threads SET
            updated_at = max(updated_at, :active_at),
            size = :size,
            mtime = :mtime,
            preview = CASE WHEN has_user THEN preview ELSE :preview END,
            has_user = has_user OR :preview IS NOT NULL,
            name = coalesce(:name, name),
            git = CASE WHEN :sets_git THEN :git ELSE git END,
            model = CASE WHEN :sets_model THEN :model ELSE model END,
            effort = CASE WHEN :sets_model THEN :effort ELSE effort END,
            open_requests = CASE WHEN :sets_requests THEN :open_requests ELSE open_requests END
        WHERE id = :id",
    )?;
    let changed = update.execute(named_params! {
        ":id": &**id,
        ":active_at": change.active_at.unwrap_or(0),
        ":size": change.stamp.size,
        ":mtime": change.stamp.mtime,
        ":preview": change.preview,
        ":name": change.name,
        ":sets_git": change.git != GitChange::Unchanged,
        ":git": match &change.git {
            GitChange::Set(git) => git_json(git.as_ref()),
            GitChange::Unchanged => None,
        },
        ":sets_model": change.model.is_some(),
        ":model": change.model.as_ref().and_then(|choice| choice.model.as_deref()),
        ":effort": change.model.as_ref().and_then(effort_json),
        ":sets_requests": change.open_requests.is_some(),
        ":open_requests": change.open_requests.as_deref().and_then(requests_json),
    })?;
    if changed > 0 && !change.facts.is_empty() {
        update_facts(connection, id, &change.facts)?;
    }
    Ok(changed > 0)
}

/// Applies records that affect facts to the row of a thread.
fn update_facts(connection: &Connection, id: &ThreadId, events: &[(u64, FactEvent)]) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached("SELECT facts FROM threads WHERE id = ?1")?;
    let json: Option<String> = select.query_row([&**id], |row| row.get(0))?;
    let mut facts = IndexedFacts::from_json(json.as_deref());
    for (ordinal, event) in events {
        facts.apply(*ordinal, event);
    }
    let changed = facts.to_json();
    if changed != json {
        connection
            .prepare_cached("UPDATE threads SET facts = ?2 WHERE id = ?1")?
            .execute(params![&**id, changed])?;
    }
    Ok(())
}

/// Returns the number of threads in the index.
pub fn count(connection: &Connection) -> rusqlite::Result<usize> {
    let count: i64 = connection.query_row("SELECT count(*) FROM threads", [], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}

pub fn git_json(git: Option<&GitInfo>) -> Option<String> {
    git.and_then(|git| serde_json::to_string(git).ok())
}

fn effort_json(choice: &ModelChoice) -> Option<String> {
    choice.effort.as_ref().and_then(|effort| serde_json::to_string(effort).ok())
}

/// Returns the kinds of open requests as JSON; `None` if there are none.
fn requests_json(kinds: &[QuestionKind]) -> Option<String> {
    if kinds.is_empty() { None } else { serde_json::to_string(kinds).ok() }
}

/// Returns the threads from `from` on that have open requests and are not archived, sorted by id.
pub fn with_requests(connection: &Connection, from: &str) -> rusqlite::Result<Vec<ThreadId>> {
    let mut select = connection.prepare_cached(
        "SELECT id FROM threads WHERE open_requests IS NOT NULL AND NOT archived AND id >= ?1 ORDER BY id",
    )?;
    let found = select.query_map([from], |row| id(row, 0))?;
    found.collect()
}

pub fn children(connection: &Connection, id: &ThreadId) -> rusqlite::Result<Vec<ThreadId>> {
    let mut select =
        connection.prepare_cached("SELECT id FROM threads WHERE parent_thread_id = ?1 ORDER BY id")?;
    let found = select.query_map([&**id], |row| self::id(row, 0))?;
    found.collect()
}

pub fn remove(connection: &Connection, id: &ThreadId) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM threads WHERE id = ?1")?.execute([&**id])?;
    Ok(())
}

/// Removes a thread if its row still has this stamp.
pub fn remove_as_of(connection: &Connection, id: &ThreadId, stamp: FileStamp) -> rusqlite::Result<()> {
    let sql = "DELETE FROM threads WHERE id = ?1 AND size = ?2 AND mtime = ?3";
    connection.prepare_cached(sql)?.execute(params![&**id, stamp.size, stamp.mtime])?;
    Ok(())
}

/// Removes the row of a missing file, unless its thread has been found elsewhere.
pub fn remove_file(connection: &Connection, dir: &str, file: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM threads WHERE file = ?2 AND dir = (SELECT id FROM dirs WHERE path = ?1)";
    connection.prepare_cached(sql)?.execute([dir, file])?;
    Ok(())
}

/// Returns the files of a directory that are in the index.
pub fn files_in(connection: &Connection, dir: &str) -> rusqlite::Result<Vec<(String, FileStamp)>> {
    let sql = "SELECT file, size, mtime FROM threads WHERE dir = (SELECT id FROM dirs WHERE path = ?1)";
    let mut select = connection.prepare_cached(sql)?;
    let files = select
        .query_map([dir], |row| Ok((row.get(0)?, FileStamp { size: row.get(1)?, mtime: row.get(2)? })))?;
    files.collect()
}

/// Returns the directories for which the index was complete, and their times then.
pub fn clean_dirs(connection: &Connection) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut select = connection.prepare_cached("SELECT path, mtime FROM dirs WHERE mtime IS NOT NULL")?;
    let dirs = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    dirs.collect()
}

/// Records that the index is complete for a directory as of `mtime`.
pub fn set_dir(connection: &Connection, path: &str, mtime: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO dirs (path, mtime) VALUES (?1, ?2)
        ON CONFLICT (path) DO UPDATE SET mtime = ?2 WHERE mtime IS NOT ?2";
    connection.prepare_cached(sql)?.execute(params![path, mtime])?;
    Ok(())
}

/// Removes a missing directory and its threads.
pub fn remove_dir(connection: &Connection, path: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM threads WHERE dir = (SELECT id FROM dirs WHERE path = ?1)";
    connection.prepare_cached(sql)?.execute([path])?;
    connection.prepare_cached("DELETE FROM dirs WHERE path = ?1")?.execute([path])?;
    Ok(())
}

pub fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("DELETE FROM threads; DELETE FROM dirs;")
}

fn dir_id(connection: &Connection, path: &str) -> rusqlite::Result<i64> {
    let find = "SELECT id FROM dirs WHERE path = ?1";
    if let Some(id) = connection.prepare_cached(find)?.query_row([path], |row| row.get(0)).optional()? {
        return Ok(id);
    }
    connection.prepare_cached("INSERT INTO dirs (path) VALUES (?1)")?.execute([path])?;
    Ok(connection.last_insert_rowid())
}
