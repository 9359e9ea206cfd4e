//! Translating a list query to SQL.

use rusqlite::{Connection, params_from_iter, types::Value};
use serde::Serialize;

use crate::{
    error::Result,
    index::rows,
    list::{ListBelow, ListCursor, ListQuery, ListSection, ListSort, PAGE_BYTES},
    summary::{ThreadSummary, kind_name},
};

/// The rows of a page, the cursor of the next one and that of the opposite direction.
pub struct RowPage {
    pub rows: Vec<ThreadSummary>,
    pub next: Option<ListCursor>,
    pub backwards: Option<ListCursor>,
}

/// A validated list query as SQL.
pub struct ListSelect {
    sql: String,
    values: Vec<Value>,
    limit: usize,
    sort: ListSort,
    oldest_first: bool,
    /// The position after which the page starts.
    pub start: Option<ListCursor>,
    pub archived: bool,
    /// Whether the names of unread files show which of them a page could contain: rows are sorted by creation, newest
    /// first.
    pub by_creation: bool,
}

impl ListSelect {
    pub fn new(query: &ListQuery) -> Result<Self> {
        let is_newest_first = query.sort == ListSort::Created && !query.oldest_first;
        let mut select = Self {
            sql: String::new(),
            values: Vec::new(),
            limit: query.limit(),
            sort: query.sort,
            oldest_first: query.oldest_first,
            archived: query.archived,
            by_creation: is_newest_first && query.search_term().is_none(),
            start: query.start()?,
        };
        select.write(query);
        Ok(select)
    }

    fn write(&mut self, query: &ListQuery) {
        let column = match self.sort {
            ListSort::Created => "t.created_at",
            ListSort::Updated => "t.updated_at",
            ListSort::Section => "coalesce(t.section_rank, '')",
        };
        // `CROSS JOIN` keeps the order of the join: a lookup for each found row. The reverse order would sort all rows.
        self.sql = format!(
            "SELECT {} FROM threads t CROSS JOIN dirs d ON d.id = t.dir WHERE t.archived = ",
            rows::COLUMNS
        );
        self.value(query.archived);
        // The threads of a section are listed from the start, as in 0.166.
        if !matches!(query.section, Some(ListSection::In(_))) {
            self.sql.push_str(" AND t.has_user = 1");
        }
        let kinds: Vec<_> = query.kinds().into_iter().map(kind_name).collect();
        if !kinds.is_empty() {
            self.one_of(" AND t.source_kind IN ", &kinds);
        }
        if !query.model_providers.is_empty() {
            self.one_of(" AND t.model_provider IN ", &query.model_providers);
        }
        if let Some(cwds) = &query.cwds {
            self.one_of(" AND t.cwd IN ", cwds);
        }
        if !query.excluded.is_empty() {
            self.one_of(" AND t.id NOT IN ", &query.excluded);
        }
        match &query.section {
            None => {}
            Some(ListSection::In(section)) => {
                self.sql.push_str(" AND t.section_id = ");
                self.value(section.clone());
            }
            Some(ListSection::OutsideOf(sections)) => {
                self.one_of(" AND (t.section_id IS NULL OR t.section_id NOT IN ", sections);
                self.sql.push(')');
            }
        }
        if let Some(project) = &query.project_id {
            self.sql.push_str(" AND t.project_id = ");
            self.value(project.clone());
        }
        if let Some(only) = &query.only {
            self.one_of(" AND t.id IN ", only);
        }
        if let Some(below) = &query.below {
            self.below(below);
        }
        if let Some(term) = query.search_term() {
            self.sql.push_str(" AND (instr(t.preview, ");
            self.value(term.to_owned());
            self.sql.push_str(") OR instr(t.name, ");
            self.value(term.to_owned());
            self.sql.push_str("))");
        }
        let (comparison, order) = if self.oldest_first { (">", "ASC") } else { ("<", "DESC") };
        if let Some(start) = self.start.clone() {
            self.sql.push_str(&format!(" AND ({column}, t.id) {comparison} ("));
            match self.sort {
                ListSort::Section => self.value(start.rank.unwrap_or_default()),
                ListSort::Created | ListSort::Updated => self.value(start.at),
            }
            self.sql.push_str(", ");
            self.value(start.id.to_string());
            self.sql.push(')');
        }
        self.sql.push_str(&format!(" ORDER BY {column} {order}, t.id {order} LIMIT "));
        self.value(i64::try_from(self.limit + 1).unwrap_or(i64::MAX));
    }

    fn value(&mut self, value: impl Into<Value>) {
        self.sql.push('?');
        self.values.push(value.into());
    }

    /// Adds a condition on a set of values. The set is one JSON value: SQLite limits the number of values, and cached
    /// statements fit sets of any size.
    fn one_of(&mut self, condition: &str, values: &[impl Serialize]) {
        self.sql.push_str(condition);
        self.sql.push_str("(SELECT value FROM json_each(");
        self.value(serde_json::json!(values).to_string());
        self.sql.push_str("))");
    }

    fn below(&mut self, below: &ListBelow) {
        match below {
            ListBelow::Children(parent) => {
                self.sql.push_str(" AND t.parent_thread_id = ");
                self.value(parent.to_string());
            }
            // `UNION` ends at ids that were found before: files could name each other as parents.
            ListBelow::Descendants(ancestor) => {
                self.sql.push_str(
                    " AND t.id IN (WITH RECURSIVE below (id) AS (SELECT id FROM threads WHERE parent_thread_id = ",
                );
                self.value(ancestor.to_string());
                self.sql.push_str(
                    " UNION SELECT child.id FROM below JOIN threads child ON child.parent_thread_id = below.id)
                    SELECT id FROM below)",
                );
            }
        }
    }

    /// Runs the query. It selects one more row than the page holds, to determine whether there is a next page.
    pub fn run(&self, connection: &Connection) -> rusqlite::Result<RowPage> {
        let mut statement = connection.prepare_cached(&self.sql)?;
        let mut found = statement.query(params_from_iter(&self.values))?;
        let mut page = RowPage { rows: Vec::new(), next: None, backwards: None };
        let mut bytes = 0;
        while let Some(row) = found.next()? {
            if page.rows.len() == self.limit || bytes > PAGE_BYTES {
                page.next = page.rows.last().map(|last| ListCursor::of(self.sort, last));
                break;
            }
            let row = rows::summary(row)?;
            bytes += row.preview.as_ref().map_or(0, String::len);
            page.rows.push(row);
        }
        page.backwards =
            page.rows.first().map(|first| ListCursor::backwards(self.sort, self.oldest_first, first));
        Ok(page)
    }
}
