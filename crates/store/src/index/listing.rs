//! Running list queries. A result is returned as soon as unread files cannot change it, and only from rows that agree with
//! their files.

use std::sync::Arc;

use crate::{
    error::{Result, StoreError},
    index::{
        ThreadIndex,
        directory_tree::FoundFile,
        query::{ListSelect, RowPage},
    },
    layout::FileName,
    list::ListQuery,
    summary::{FileStamp, ThreadSummary},
};

/// The maximum number of times that a page is queried again because files changed.
const MAX_REPAIRS: usize = 3;

impl ThreadIndex {
    /// Returns one page of the list.
    pub fn list(self: &Arc<Self>, query: &ListQuery) -> Result<RowPage> {
        let select = ListSelect::new(query)?;
        self.reconcile()?;
        let mut repairs = 0;
        loop {
            let replaced = self.lock().replaced;
            let rows = self.query_page(&select)?;
            if repairs < MAX_REPAIRS && self.repair(&rows, replaced)? {
                repairs += 1;
                continue;
            }
            return Ok(rows);
        }
    }

    /// Runs a query, waiting until unread files cannot change its result.
    fn query_page(&self, select: &ListSelect) -> Result<RowPage> {
        loop {
            let seen = self.backlog.progress();
            let start = select.start.as_ref().filter(|_| select.by_creation);
            let (unread, rows) = self.with(|open| {
                let unread = self.backlog.newest(select.archived, start)?;
                Ok((unread, select.run(&open.db.connection).map_err(open.db.failed())?))
            })?;
            let Some(unread) = unread else { return self.check_complete(rows) };
            let last = rows.rows.last().map(|row| (row.created_at, &row.id));
            if select.by_creation && rows.next.is_some() && last > Some((unread.at, &unread.id)) {
                return Ok(rows);
            }
            self.backlog.wait(seen)?;
        }
    }

    fn check_complete(&self, rows: RowPage) -> Result<RowPage> {
        match self.backlog.take_failure() {
            None => Ok(rows),
            Some(reason) => Err(StoreError::Unindexed(reason)),
        }
    }

    /// Reads changed files again, or all files if the index was replaced by an empty one. Returns whether that was needed.
    fn repair(self: &Arc<Self>, rows: &RowPage, replaced: usize) -> Result<bool> {
        if self.lock().replaced != replaced {
            return self.reconcile().map(|()| true);
        }
        let stale: Vec<FoundFile> = rows.rows.iter().filter_map(|row| self.changed_file(row)).collect();
        if !stale.is_empty() {
            self.read_files(&stale)?;
        }
        Ok(!stale.is_empty())
    }

    /// Returns the file of a row if its stamp has changed.
    pub fn changed_file(&self, row: &ThreadSummary) -> Option<FoundFile> {
        let stamp = FileStamp::read(&self.layout.absolute(&row.dir).join(&row.file));
        (stamp != Some(row.stamp)).then(|| FoundFile {
            dir: row.dir.clone(),
            file: row.file.clone(),
            name: FileName { id: row.id.clone(), created_at: row.created_at },
            archived: row.archived,
            replaces: Some(row.stamp),
        })
    }
}
