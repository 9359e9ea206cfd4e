//! Creating threads, reading their lines, moving them to the archive and deleting them.

use memchr::memchr_iter;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{
    append_statement::{LogEnd, MAX_BATCH_BYTES, storable, storable_json},
    connection::{Value, column},
    error::{PostgresError, Result},
    lease::{Epoch, TreeLease},
    node_lease::NodeIdentity,
    store::PostgresStore,
};

/// A page of lines ends with the batch that exceeds this size.
const PAGE_BYTES: i64 = 8 * 1024 * 1024;
/// The maximum number of batches in a page.
const PAGE_BATCHES: i64 = 4096;

/// The epoch of a new tree.
const FIRST_EPOCH: Epoch = Epoch(1);

/// Both statements insert the lease, the first lines and the list entry of a thread, or nothing.
const INSERT_THREAD: &str = "
), log as (
    insert into codicil_log (thread, first, next, epoch, lines)
    select thread, 0, next, epoch, $3 from lease
), entry as (
    insert into codicil_thread (id, root, parent, place, created_at, updated_at, source_kind, model_provider, cwd, name,
        preview, details, facts, open_requests)
    select thread, root, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14::jsonb, $15 from lease
)";

/// A thread to create with its first lines.
#[derive(Clone, Debug)]
pub struct NewThread {
    pub id: Uuid,
    /// The thread whose agent starts this one.
    pub parent: Option<Uuid>,
    /// Where the workspace is: the name of a node or of a shared volume.
    pub place: String,
    /// Unix seconds, like `updated_at`.
    pub created_at: i64,
    pub updated_at: i64,
    pub source_kind: String,
    pub model_provider: String,
    pub cwd: String,
    pub name: Option<String>,
    pub preview: Option<String>,
    pub details: String,
    /// The section, project and attachments, as JSON.
    pub facts: String,
    pub open_requests: i32,
    /// The first lines, each with its newline, from ordinal 0 on.
    pub lines: Vec<u8>,
}

/// Lines of a thread, from the wanted ordinal on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinePage {
    pub lines: Vec<u8>,
    /// The ordinal behind the lines.
    pub next: u64,
    /// Whether the log has more lines.
    pub has_more: bool,
}

impl PostgresStore {
    /// Creates a thread that is the root of its tree. The node owns it.
    pub async fn create(&self, node: &NodeIdentity, thread: &NewThread) -> Result<TreeLease> {
        let sql = format!(
            "with lease as (
                insert into codicil_lease (thread, root, epoch, next, node, run)
                values ($1, $1, $16, $2, $17, $18) on conflict do nothing returning *
            {INSERT_THREAD} select thread from lease"
        );
        let owner =
            [(&FIRST_EPOCH.0 as _, Type::INT8), (&node.name as _, Type::TEXT), (&node.run as _, Type::UUID)];
        self.insert_thread(&sql, thread, FIRST_EPOCH, &owner).await?;
        Ok(TreeLease { root: thread.id, epoch: FIRST_EPOCH })
    }

    /// Creates a thread within a tree. Fails with `Overtaken` if another node has taken the tree.
    pub async fn spawn_child(&self, tree: &TreeLease, thread: &NewThread) -> Result<()> {
        // The lock on the root's row orders this before or after a takeover. Afterwards the epoch differs, and before it
        // the takeover finds the child.
        let sql = format!(
            "with root as (
                select * from codicil_lease where thread = $17 and epoch = $16 for update
            ), lease as (
                insert into codicil_lease (thread, root, epoch, next, node, run)
                select $1, thread, epoch, $2, node, run from root on conflict do nothing returning *
            {INSERT_THREAD} select thread from lease"
        );
        let values = [(&tree.epoch.0 as _, Type::INT8), (&tree.root as _, Type::UUID)];
        match self.insert_thread(&sql, thread, tree.epoch, &values).await {
            Err(PostgresError::Exists(_)) if self.log_end(thread.id).await?.is_none() => {
                Err(PostgresError::Overtaken { thread: tree.root, first: 0 })
            }
            result => result,
        }
    }

    /// Inserts a thread. `Exists` if nothing was inserted, unless an earlier attempt of this call has done it.
    async fn insert_thread(
        &self,
        sql: &str,
        thread: &NewThread,
        epoch: Epoch,
        more: &[Value<'_>],
    ) -> Result<()> {
        let bytes = thread.lines.len();
        if bytes > MAX_BATCH_BYTES {
            return Err(PostgresError::TooLarge { what: "a new thread", bytes, limit: MAX_BATCH_BYTES });
        }
        let next = memchr_iter(b'\n', &thread.lines).count() as u64;
        let next_ordinal = next.cast_signed();
        let texts = [&thread.place, &thread.source_kind, &thread.model_provider, &thread.cwd];
        let [place, source_kind, model_provider, cwd] = texts.map(|text| storable(Some(text)));
        let name = storable(thread.name.as_deref());
        let preview = storable(thread.preview.as_deref());
        let facts = storable_json(Some(&thread.facts));
        let mut values: Vec<Value<'_>> = vec![
            (&thread.id, Type::UUID),
            (&next_ordinal, Type::INT8),
            (&thread.lines, Type::BYTEA),
            (&thread.parent, Type::UUID),
            (&place, Type::TEXT),
            (&thread.created_at, Type::INT8),
            (&thread.updated_at, Type::INT8),
            (&source_kind, Type::TEXT),
            (&model_provider, Type::TEXT),
            (&cwd, Type::TEXT),
            (&name, Type::TEXT),
            (&preview, Type::TEXT),
            (&thread.details, Type::TEXT),
            (&facts, Type::TEXT),
            (&thread.open_requests, Type::INT4),
        ];
        values.extend(more.iter().cloned());
        let answer = self.pool.query("create a thread", sql, &values).await?;
        let is_ours = || async {
            Ok::<_, PostgresError>(
                answer.is_repeated && self.log_end(thread.id).await? == Some(LogEnd { epoch, next }),
            )
        };
        if answer.rows.is_empty() && !is_ours().await? {
            return Err(PostgresError::Exists(thread.id));
        }
        Ok(())
    }

    /// Returns a page of lines from an ordinal on. Pages are read until `has_more` is false.
    pub async fn read_lines(&self, thread: Uuid, from: u64) -> Result<LinePage> {
        // The length of a stored value is known without reading it.
        let sql = "select first, next, lines, last from (
                select g.first, g.next, g.lines, l.next as last,
                    sum(length(g.lines)) over (order by g.first rows unbounded preceding) - length(g.lines) as before
                from codicil_lease l left join lateral (
                    select * from codicil_log g where g.thread = l.thread and g.next > $2 order by first limit $4
                ) g on true
                where l.thread = $1
            ) page where before < $3 or before is null order by first";
        let from_ordinal = from.cast_signed();
        let values = [
            (&thread as _, Type::UUID),
            (&from_ordinal as _, Type::INT8),
            (&PAGE_BYTES as _, Type::INT8),
            (&PAGE_BATCHES as _, Type::INT8),
        ];
        let answer = self.pool.query("read the lines of a thread", sql, &values).await?;
        let mut page = LinePage { lines: Vec::new(), next: from, has_more: false };
        let mut last = None;
        for row in &answer.rows {
            last = Some(column::<i64>(row, "last")?.cast_unsigned());
            let Some(first) = column::<Option<i64>>(row, "first")? else { continue };
            let skipped = from.saturating_sub(first.cast_unsigned());
            page.lines.extend_from_slice(without_lines(column(row, "lines")?, skipped));
            page.next = column::<i64>(row, "next")?.cast_unsigned();
        }
        let last = last.ok_or(PostgresError::NotFound(thread))?;
        // Where lines are missing, there is nothing more to read: `store check` reports it.
        page.has_more = page.next < last && page.next > from;
        Ok(page)
    }

    /// Returns the end of a thread; `None` if there is no such thread.
    pub(crate) async fn log_end(&self, thread: Uuid) -> Result<Option<LogEnd>> {
        let sql = "select epoch, next from codicil_lease where thread = $1";
        let answer = self.pool.query("read a lease", sql, &[(&thread, Type::UUID)]).await?;
        let read = |row| {
            let next: i64 = column(row, "next")?;
            Ok(LogEnd { epoch: Epoch(column(row, "epoch")?), next: next.cast_unsigned() })
        };
        answer.rows.first().map(read).transpose()
    }

    /// Moves a thread to the archive.
    pub async fn archive(&self, thread: Uuid) -> Result<()> {
        self.move_thread(thread, true).await
    }

    /// Restores a thread from the archive.
    pub async fn unarchive(&self, thread: Uuid) -> Result<()> {
        self.move_thread(thread, false).await
    }

    /// Changes where the workspace of a thread is, and that of the threads of its tree that had the same one. Fails with
    /// `Overtaken` if another node has taken the tree.
    pub async fn set_place(&self, tree: &TreeLease, thread: Uuid, place: &str, cwd: &str) -> Result<()> {
        let sql = "with old as (select place, cwd from codicil_thread where id = $1)
            update codicil_thread t set place = $2, cwd = case when t.cwd = old.cwd then $3 else t.cwd end
            from old, codicil_lease l
            where l.thread = t.id and l.root = $4 and l.epoch = $5 and (t.id = $1 or t.place = old.place)
            returning t.id";
        let values = [
            (&thread as _, Type::UUID),
            (&place as _, Type::TEXT),
            (&cwd as _, Type::TEXT),
            (&tree.root as _, Type::UUID),
            (&tree.epoch.0 as _, Type::INT8),
        ];
        let answer = self.pool.query("change the place of a thread", sql, &values).await?;
        answer.rows.first().map(drop).ok_or(PostgresError::Overtaken { thread, first: 0 })
    }

    async fn move_thread(&self, thread: Uuid, archived: bool) -> Result<()> {
        let sql = "update codicil_thread set archived = $2 where id = $1 and archived <> $2 returning id";
        let values = [(&thread as _, Type::UUID), (&archived as _, Type::BOOL)];
        let answer = self.pool.query("move a thread", sql, &values).await?;
        if !answer.rows.is_empty() {
            return Ok(());
        }
        // An earlier attempt may have moved it.
        let is_moved = answer.is_repeated && self.thread(thread).await?.archived == archived;
        is_moved.then_some(()).ok_or(PostgresError::NotFound(thread))
    }

    /// Deletes a thread of a tree, or the whole tree if it is the root. Later appends are overtaken. Blobs are kept, because
    /// other threads may refer to them.
    pub async fn delete(&self, tree: &TreeLease, thread: Uuid) -> Result<()> {
        let sql = "with gone as (
                delete from codicil_lease where epoch = $3 and root = $2 and (thread = $1 or $1 = $2) returning thread
            ), log as (
                delete from codicil_log using gone where codicil_log.thread = gone.thread
            ), entry as (
                delete from codicil_thread using gone where id = gone.thread
            ), search as (
                delete from codicil_search using gone where codicil_search.thread = gone.thread
            ), part as (
                delete from codicil_search_part using gone where codicil_search_part.thread = gone.thread
            )
            select thread from gone";
        let values =
            [(&thread as _, Type::UUID), (&tree.root as _, Type::UUID), (&tree.epoch.0 as _, Type::INT8)];
        let answer = self.pool.query("delete a thread", sql, &values).await?;
        if !answer.rows.is_empty() {
            return Ok(());
        }
        match self.log_end(thread).await? {
            None if answer.is_repeated => Ok(()),
            None => Err(PostgresError::NotFound(thread)),
            Some(end) => Err(PostgresError::Overtaken { thread, first: end.next }),
        }
    }
}

/// Returns the lines behind the first ones.
fn without_lines(lines: &[u8], skipped: u64) -> &[u8] {
    let Some(last) = usize::try_from(skipped).ok().and_then(|skipped| skipped.checked_sub(1)) else {
        return lines;
    };
    let start = memchr_iter(b'\n', lines).nth(last).map_or(lines.len(), |newline| newline + 1);
    lines.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_before_the_wanted_one_are_left_out() {
        let check = |skipped, expected: &str| {
            assert_eq!(without_lines(b"a\nbb\nc\n", skipped), expected.as_bytes());
        };
        check(0, "a\nbb\nc\n");
        check(1, "bb\nc\n");
        check(3, "");
        check(9, "");
    }
}
