//! Verifies with SQL what must hold of the tables, for `codicil store check` and for tests.

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{connection::column, error::Result, store::PostgresStore};

/// The maximum number of violations that are reported.
const MAX_VIOLATIONS: i64 = 100;

/// Reads all logs, each in its order.
const CHECK: &str = r"
with batches as (
    select thread, first, next, epoch,
        lag(next, 1, 0) over log as expected, lag(epoch, 1, epoch) over log as epoch_before,
        length(encode(lines, 'escape')) - length(replace(encode(lines, 'escape'), E'\n', '')) as lines
    from codicil_log window log as (partition by thread order by first)
), ends as (
    select thread, max(next) as next, max(epoch) as epoch from codicil_log group by thread
)
select * from (
    select thread, 'ordinals' as rule, format('expected line %s, found %s', expected, first) as detail
        from batches where first <> expected
    union all
    select thread, 'epochs', format('epoch %s after %s', epoch, epoch_before) from batches where epoch < epoch_before
    union all
    select thread, 'lineCount', format('%s lines from %s to %s', lines, first, next) from batches where lines <> next - first
    union all
    select thread, 'end', format('the lease ends at %s, the log at %s', l.next, e.next)
        from codicil_lease l full join ends e using (thread) where l.next is distinct from e.next
    union all
    select thread, 'fence', format('epoch %s in the log, %s in the lease', e.epoch, l.epoch)
        from codicil_lease l join ends e using (thread) where e.epoch > l.epoch
    union all
    select l.thread, 'tree', format('root %s', l.root)
        from codicil_lease l left join codicil_lease r on r.thread = l.root
        where r.thread is null or r.root <> r.thread or l.epoch > r.epoch
    union all
    select thread, 'entry', 'the lease has no list entry, or the entry no lease'
        from codicil_lease l full join codicil_thread t on t.id = l.thread
        where l.thread is null or t.id is null or t.root <> l.root
) found limit $1";

/// Something that must not be in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The thread; `None` for a list entry without a thread.
    pub thread: Option<Uuid>,
    pub rule: ViolatedRule,
    pub detail: String,
}

/// What holds of the tables at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolatedRule {
    /// Every ordinal is written once, without gaps.
    Ordinals,
    /// Epochs do not decrease along a log.
    Epochs,
    /// A batch has as many lines as ordinals.
    LineCount,
    /// The lease knows the end of the log.
    End,
    /// The lease's epoch is not below any epoch of the log.
    Fence,
    /// The root of a thread exists, is its own root, and is not below the thread's epoch.
    Tree,
    /// Leases and list entries belong to each other.
    Entry,
}

impl PostgresStore {
    /// Returns what is wrong with the tables, at most 100 findings. Reads everything, from one snapshot; nodes may write
    /// meanwhile.
    pub async fn find_violations(&self) -> Result<Vec<Violation>> {
        let answer = self.pool.query("check the tables", CHECK, &[(&MAX_VIOLATIONS, Type::INT8)]).await?;
        let read = |row| {
            let rule = match column::<&str>(row, "rule")? {
                "ordinals" => ViolatedRule::Ordinals,
                "epochs" => ViolatedRule::Epochs,
                "lineCount" => ViolatedRule::LineCount,
                "end" => ViolatedRule::End,
                "fence" => ViolatedRule::Fence,
                "tree" => ViolatedRule::Tree,
                _ => ViolatedRule::Entry,
            };
            Ok(Violation { thread: column(row, "thread")?, rule, detail: column(row, "detail")? })
        };
        answer.rows.iter().map(read).collect()
    }
}
