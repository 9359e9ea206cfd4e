//! Verifies with SQL what must hold of the tables, for `codicil store check` and for tests.

use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use crate::{connection::column, error::Result, store::PostgresStore};

/// The maximum number of violations that are reported.
const MAX_VIOLATIONS: usize = 100;
/// The number of threads whose logs a statement reads.
const PAGE_THREADS: i64 = 100;

const ACTION: &str = "check the tables";

/// Returns the last thread of a page.
const PAGE_END: &str = "select thread from codicil_lease where thread > $1 order by thread offset $2 limit 1";

/// Reads the logs of the threads after $2 up to $3, or to the end if that is null, each in its order. A page is read from
/// one snapshot, so nodes may write meanwhile.
const CHECK: &str = r"
with batches as (
    select thread, first, next, epoch,
        lag(next, 1, 0) over log as expected, lag(epoch, 1, epoch) over log as epoch_before,
        length(encode(lines, 'escape')) - length(replace(encode(lines, 'escape'), E'\n', '')) as lines
    from codicil_log where thread > $2 and ($3::uuid is null or thread <= $3)
    window log as (partition by thread order by first)
), ends as (
    select thread, max(next) as next, max(epoch) as epoch from batches group by thread
), leases as (
    select * from codicil_lease where thread > $2 and ($3::uuid is null or thread <= $3)
), entries as (
    select id, root, parent from codicil_thread where id > $2 and ($3::uuid is null or id <= $3)
)
select * from (
    select thread, 'missing' as rule, format('expected line %s, found %s', expected, first) as detail
        from batches where first > expected
    union all
    select thread, 'doubled', format('expected line %s, found %s', expected, first) from batches where first < expected
    union all
    select thread, 'epochs', format('epoch %s after %s', epoch, epoch_before) from batches where epoch < epoch_before
    union all
    select thread, 'lineCount', format('%s lines from %s to %s', lines, first, next) from batches where lines <> next - first
    union all
    select thread, 'end', format('the lease ends at %s, the log at %s', l.next, e.next)
        from leases l join ends e using (thread) where l.next <> e.next
    union all
    select thread, 'orphan', case when l.thread is null then 'lines without a lease' else 'a lease without lines' end
        from leases l full join ends e using (thread) where l.thread is null or e.thread is null
    union all
    select thread, 'fence', format('epoch %s in the log, %s in the lease', e.epoch, l.epoch)
        from leases l join ends e using (thread) where e.epoch > l.epoch
    union all
    select l.thread, 'tree', format('root %s', l.root)
        from leases l left join codicil_lease r on r.thread = l.root
        where r.thread is null or r.root <> r.thread or l.epoch > r.epoch
    union all
    select t.id, 'tree', format('root %s, but that of parent %s is %s', t.root, p.id, p.root)
        from entries t join codicil_thread p on p.id = t.parent where p.root <> t.root
    union all
    select coalesce(l.thread, t.id), 'entry', 'the lease has no list entry, or the entry no lease'
        from leases l full join entries t on t.id = l.thread
        where l.thread is null or t.id is null or t.root <> l.root
) found limit $1";

/// Something that must not be in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub thread: Uuid,
    pub rule: ViolatedRule,
    pub detail: String,
}

/// What holds of the tables at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolatedRule {
    /// Every ordinal is written.
    Gaps,
    /// No ordinal is written twice.
    Overlaps,
    /// Epochs do not decrease along a log.
    Epochs,
    /// A batch has as many lines as ordinals.
    LineCount,
    /// The lease knows the end of the log.
    End,
    /// The lease's epoch is not below any epoch of the log.
    Fence,
    /// The root of a thread exists, is its own root, is not below the thread's epoch, and is that of its parent.
    Tree,
    /// Leases and list entries belong to each other.
    Entry,
    /// Leases and lines belong to each other.
    Orphan,
}

/// The violations of a part of the tables.
pub(crate) struct ViolationPage {
    pub violations: Vec<Violation>,
    /// The last thread of the part; `None` if it was the last part.
    pub next: Option<Uuid>,
}

impl PostgresStore {
    /// Returns what is wrong with the tables, at most 100 findings. Reads everything; nodes may write meanwhile.
    pub async fn find_violations(&self) -> Result<Vec<Violation>> {
        let mut found = Vec::new();
        let mut after = Uuid::nil();
        loop {
            let page = self.violations_after(after).await?;
            found.extend(page.violations);
            match page.next {
                Some(next) if found.len() < MAX_VIOLATIONS => after = next,
                _ => break,
            }
        }
        found.truncate(MAX_VIOLATIONS);
        Ok(found)
    }

    /// Returns what is wrong with the tables of some threads.
    pub(crate) async fn violations_after(&self, after: Uuid) -> Result<ViolationPage> {
        let last = PAGE_THREADS - 1;
        let values = [(&after as _, Type::UUID), (&last as _, Type::INT8)];
        let end = self.pool.query(ACTION, PAGE_END, &values).await?;
        let next: Option<Uuid> = end.rows.first().map(|row| column(row, "thread")).transpose()?;
        let limit = MAX_VIOLATIONS as i64;
        let values = [(&limit as _, Type::INT8), (&after as _, Type::UUID), (&next as _, Type::UUID)];
        let answer = self.pool.query(ACTION, CHECK, &values).await?;
        Ok(ViolationPage { violations: answer.rows.iter().map(violation).collect::<Result<_>>()?, next })
    }
}

fn violation(row: &Row) -> Result<Violation> {
    let rule = match column::<&str>(row, "rule")? {
        "missing" => ViolatedRule::Gaps,
        "doubled" => ViolatedRule::Overlaps,
        "epochs" => ViolatedRule::Epochs,
        "lineCount" => ViolatedRule::LineCount,
        "end" => ViolatedRule::End,
        "fence" => ViolatedRule::Fence,
        "tree" => ViolatedRule::Tree,
        "orphan" => ViolatedRule::Orphan,
        _ => ViolatedRule::Entry,
    };
    Ok(Violation { thread: column(row, "thread")?, rule, detail: column(row, "detail")? })
}
