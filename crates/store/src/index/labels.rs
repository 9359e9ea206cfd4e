//! Queries about the sections, projects and attachments of threads.

use std::{collections::BTreeMap, sync::Arc};

use codicil_protocol::ThreadId;
use rusqlite::{Connection, Params, Row, params};

use crate::{
    error::Result,
    facts::{AttachmentKey, IndexedFacts, SectionPlace},
    index::ThreadIndex,
    store::Store,
    work_pool::WorkLane,
};

impl Store {
    /// Returns the threads of a section with their places, in their order.
    pub async fn section_members(&self, section: &str) -> Result<Vec<(ThreadId, SectionPlace)>> {
        if let Some(shared) = &self.shared {
            return shared.section_members(section).await;
        }
        let section = section.to_owned();
        let members = |row: &Row<'_>| {
            let facts = IndexedFacts::from_json(row.get::<_, Option<String>>(1)?.as_deref());
            let member = id(row)?;
            Ok(facts.section.map(|place| (member, place)))
        };
        let sql = "SELECT id, facts FROM threads WHERE section_id = ?1 ORDER BY section_rank, id";
        let found = self.run(WorkLane::List, move |inner| {
            inner.index.complete(|connection| select(connection, sql, [&section], members))
        });
        Ok(found.await?.into_iter().flatten().collect())
    }

    /// Returns the threads of a project, also archived ones.
    pub async fn project_threads(&self, project: &str) -> Result<Vec<ThreadId>> {
        if let Some(shared) = &self.shared {
            return shared.project_threads(project).await;
        }
        let project = project.to_owned();
        let sql = "SELECT id FROM threads WHERE project_id = ?1 ORDER BY id";
        self.run(WorkLane::List, move |inner| {
            inner.index.complete(|connection| select(connection, sql, [&project], id))
        })
        .await
    }

    /// Returns when a thread of each project was last active, in Unix seconds.
    pub async fn project_recency(&self) -> Result<BTreeMap<String, i64>> {
        if let Some(shared) = &self.shared {
            return Ok(shared.backend.project_recency().await?.into_iter().collect());
        }
        let sql = "SELECT project_id, max(updated_at) FROM threads WHERE project_id IS NOT NULL GROUP BY 1";
        let recency = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let found = self.run(WorkLane::List, move |inner| {
            inner.index.complete(|connection| select(connection, sql, [], recency))
        });
        Ok(found.await?.into_iter().collect())
    }

    /// Returns the threads with an attachment, and whether they are archived.
    pub async fn attachment_owners(&self, key: AttachmentKey) -> Result<Vec<(ThreadId, bool)>> {
        if let Some(shared) = &self.shared {
            return shared.attachment_owners(key).await;
        }
        let sql = "SELECT id, archived FROM threads WHERE facts IS NOT NULL AND EXISTS (
                SELECT 1 FROM json_each(facts, '$.attachments') AS attachment
                WHERE attachment.value ->> '$.type' = ?1 AND attachment.value ->> '$.key' = ?2)
            ORDER BY id";
        let owner = |row: &Row<'_>| Ok((id(row)?, row.get(1)?));
        self.run(WorkLane::List, move |inner| {
            inner.index.complete(|connection| {
                let AttachmentKey { attachment_type, identity_key } = &key;
                select(connection, sql, params![attachment_type, identity_key], owner)
            })
        })
        .await
    }
}

/// A thread's file as the index knows it.
#[derive(Clone, Debug)]
pub struct IndexedFile {
    pub id: ThreadId,
    /// The directory, relative to the home.
    pub dir: String,
    pub file: String,
    pub bytes: u64,
}

impl ThreadIndex {
    /// Returns the files of all threads, newest first: a thread comes after its subagents.
    pub fn all_files(self: &Arc<Self>) -> Result<Vec<IndexedFile>> {
        let sql = "SELECT t.id, d.path, t.file, t.size FROM threads t CROSS JOIN dirs d ON d.id = t.dir
            ORDER BY t.created_at DESC, t.id DESC";
        let file = |row: &Row<'_>| {
            let bytes = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
            Ok(IndexedFile { id: id(row)?, dir: row.get(1)?, file: row.get(2)?, bytes })
        };
        self.complete(|connection| select(connection, sql, [], file))
    }

    /// Runs a query once all files are in the index.
    pub fn complete<T>(self: &Arc<Self>, query: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.reconcile()?;
        loop {
            let seen = self.backlog.progress();
            if seen.is_done() {
                break;
            }
            self.backlog.wait(seen)?;
        }
        self.with(|open| query(&open.db.connection).map_err(open.db.failed()))
    }
}

fn select<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

fn id(row: &Row<'_>) -> rusqlite::Result<ThreadId> {
    row.get::<_, String>(0).map(ThreadId::from)
}
