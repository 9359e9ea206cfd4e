//! The index of messages by their trigrams, which are numbers here. It may lack anything, and never has too little of what
//! it claims to have.

use std::ops::Range;

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::{connection::column, error::Result, store::PostgresStore};

/// The number of threads that are named at a time.
const MAX_UNINDEXED: i64 = 100;

const ACTION: &str = "index messages";

impl PostgresStore {
    /// Returns some threads whose lines are not all indexed, each with the ordinal from which on they are not.
    pub async fn unindexed(&self) -> Result<Vec<(Uuid, u64)>> {
        let sql = "select l.thread, coalesce(s.next, 0) as next
            from codicil_lease l left join codicil_search s using (thread)
            where s.next is distinct from l.next order by l.thread limit $1";
        let answer = self.pool.query(ACTION, sql, &[(&MAX_UNINDEXED, Type::INT8)]).await?;
        let read = |row| Ok((column(row, "thread")?, column::<i64>(row, "next")?.cast_unsigned()));
        answer.rows.iter().map(read).collect()
    }

    /// Adds the trigrams of a range of lines, unless another node has done it.
    pub async fn index_messages(&self, thread: Uuid, lines: Range<u64>, trigrams: &[i32]) -> Result<()> {
        // The lock keeps the thread from being deleted meanwhile, which would leave rows behind.
        let sql = "with own as (
                select thread from codicil_lease where thread = $1 for key share
            ), step as (
                insert into codicil_search as s (thread, next)
                select thread, $3 from own
                    where $2 = 0 or exists (select from codicil_search known where known.thread = $1)
                on conflict (thread) do update set next = excluded.next where s.next = $2
                returning thread
            )
            insert into codicil_search_part (thread, first, trigrams)
            select thread, $2, $4 from step where cardinality($4) > 0 on conflict do nothing";
        let (first, next) = (lines.start.cast_signed(), lines.end.cast_signed());
        let values = [
            (&thread as _, Type::UUID),
            (&first as _, Type::INT8),
            (&next as _, Type::INT8),
            (&trigrams as _, Type::INT4_ARRAY),
        ];
        self.pool.query(ACTION, sql, &values).await?;
        Ok(())
    }
}
