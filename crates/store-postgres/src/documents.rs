//! Texts that belong to no thread and are replaced as a whole, by compare-and-set.

use tokio_postgres::types::Type;

use crate::{connection::column, error::Result, store::PostgresStore};

impl PostgresStore {
    /// Returns a document and its version; an empty text and 0 if there is none.
    pub async fn document(&self, name: &str) -> Result<(String, i64)> {
        let sql = "select body, version from codicil_document where name = $1";
        let answer = self.pool.query("read a document", sql, &[(&name, Type::TEXT)]).await?;
        let read = |row| Ok((column(row, "body")?, column(row, "version")?));
        answer.rows.first().map_or_else(|| Ok((String::new(), 0)), read)
    }

    /// Replaces a document if it still has this version. Returns whether it had.
    pub async fn replace_document(&self, name: &str, version: i64, body: &str) -> Result<bool> {
        let sql = "insert into codicil_document as d (name, version, body)
            select $1, $2 + 1, $3 where $2 = 0 or exists (select from codicil_document where name = $1)
            on conflict (name) do update set version = excluded.version, body = excluded.body where d.version = $2
            returning version";
        let values = [(&name as _, Type::TEXT), (&version as _, Type::INT8), (&body as _, Type::TEXT)];
        let answer = self.pool.query("change a document", sql, &values).await?;
        if !answer.rows.is_empty() {
            return Ok(true);
        }
        // An earlier attempt may have taken effect.
        Ok(answer.is_repeated && self.document(name).await? == (body.to_owned(), version + 1))
    }
}
