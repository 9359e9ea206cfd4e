//! Translating a list query to SQL.

use rusqlite::{Connection, params_from_iter, types::Value};

use crate::{
    error::Result,
    index::rows,
    list::{ListCursor, ListQuery, ListSort, PAGE_BYTES},
    summary::{ThreadSummary, kind_name},
};

/// The rows of a page and the cursor of the next one.
pub struct RowPage {
    pub rows: Vec<ThreadSummary>,
    pub next: Option<ListCursor>,
}

/// A validated list query as SQL.
pub struct ListSelect {
    sql: String,
    values: Vec<Value>,
    limit: usize,
    sort: ListSort,
    /// The position after which the page starts.
    pub start: Option<ListCursor>,
    pub archived: bool,
    /// Whether rows are sorted by creation and there is no search term.
    pub by_creation: bool,
}

impl ListSelect {
    pub fn new(query: &ListQuery) -> Result<Self> {
        let mut select = Self {
            sql: String::new(),
            values: Vec::new(),
            limit: query.limit(),
            sort: query.sort,
            start: query.start()?,
            archived: query.archived,
            by_creation: query.sort == ListSort::Created && query.search_term().is_none(),
        };
        select.write(query);
        Ok(select)
    }

    fn write(&mut self, query: &ListQuery) {
        let column = match self.sort {
            ListSort::Created => "t.created_at",
            ListSort::Updated => "t.updated_at",
        };
        // `CROSS JOIN` keeps the order of the join: a lookup for each found row. The reverse order would sort all rows.
        self.sql = format!(
            "SELECT {} FROM threads t CROSS JOIN dirs d ON d.id = t.dir WHERE t.archived = ",
            rows::COLUMNS
        );
        self.value(query.archived);
        self.sql.push_str(" AND t.has_user = 1");
        let kinds = query.kinds().into_iter().map(|kind| Value::from(kind_name(kind).to_owned()));
        self.one_of("t.source_kind", kinds.collect());
        self.one_of("t.model_provider", query.model_providers.iter().cloned().map(Value::from).collect());
        self.one_of("t.cwd", query.cwd.iter().cloned().map(Value::from).collect());
        if let Some(term) = query.search_term() {
            self.sql.push_str(" AND (instr(t.preview, ");
            self.value(term.to_owned());
            self.sql.push_str(") OR instr(t.name, ");
            self.value(term.to_owned());
            self.sql.push_str("))");
        }
        if let Some(start) = self.start.clone() {
            self.sql.push_str(&format!(" AND ({column}, t.id) < ("));
            self.value(start.at);
            self.sql.push_str(", ");
            self.value(start.id.to_string());
            self.sql.push(')');
        }
        self.sql.push_str(&format!(" ORDER BY {column} DESC, t.id DESC LIMIT "));
        self.value(i64::try_from(self.limit + 1).unwrap_or(i64::MAX));
    }

    fn value(&mut self, value: impl Into<Value>) {
        self.sql.push('?');
        self.values.push(value.into());
    }

    fn one_of(&mut self, column: &str, values: Vec<Value>) {
        if values.is_empty() {
            return;
        }
        self.sql.push_str(&format!(" AND {column} IN ("));
        for (at, value) in values.into_iter().enumerate() {
            self.sql.push_str(if at > 0 { ", " } else { "" });
            self.value(value);
        }
        self.sql.push(')');
    }

    /// Runs the query. It selects one more row than the page holds, to determine whether there is a next page.
    pub fn run(&self, connection: &Connection) -> rusqlite::Result<RowPage> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut found = statement.query(params_from_iter(&self.values))?;
        let mut page = RowPage { rows: Vec::new(), next: None };
        let mut bytes = 0;
        while let Some(row) = found.next()? {
            if page.rows.len() == self.limit || bytes > PAGE_BYTES {
                page.next = page.rows.last().map(|last| self.cursor(last));
                break;
            }
            let row = rows::summary(row)?;
            bytes += row.preview.as_ref().map_or(0, String::len);
            page.rows.push(row);
        }
        Ok(page)
    }

    fn cursor(&self, row: &ThreadSummary) -> ListCursor {
        let at = match self.sort {
            ListSort::Created => row.created_at,
            ListSort::Updated => row.updated_at,
        };
        ListCursor { at, id: row.id.clone() }
    }
}
