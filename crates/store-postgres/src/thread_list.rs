//! Lists of threads: filters, order, pages and a search in names and first messages.

use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};
use uuid::Uuid;

use crate::{
    connection::{Value, column},
    error::{PostgresError, Result},
    store::PostgresStore,
};

const MAX_LIMIT: u32 = 100;
/// A page ends early if its previews exceed this size.
const PAGE_BYTES: i64 = 4 * 1024 * 1024;
const MAX_REQUEST_THREADS: i64 = 1000;

const COLUMNS: &str = "id, root, parent, place, archived, created_at, updated_at, source_kind, model_provider, cwd, name, \
    preview, open_requests, details, facts::text as facts";

/// The list entry of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadRow {
    pub id: Uuid,
    pub root: Uuid,
    pub parent: Option<Uuid>,
    pub place: String,
    pub archived: bool,
    pub created_at: i64,
    pub updated_at: i64,
    pub source_kind: String,
    pub model_provider: String,
    pub cwd: String,
    pub name: Option<String>,
    pub preview: Option<String>,
    pub open_requests: i32,
    pub details: String,
    /// The section, project and attachments, as JSON.
    pub facts: String,
}

/// The filter, order and position of a list. The default is the first page of all threads.
#[derive(Clone, Debug, Default)]
pub struct ThreadQuery {
    pub sort: ThreadSort,
    pub oldest_first: bool,
    /// The time and id of the thread behind which the page starts.
    pub after: Option<(i64, Uuid)>,
    /// The rank of that thread in its section.
    pub after_rank: String,
    pub limit: u32,
    pub archived: bool,
    /// Empty: all kinds.
    pub source_kinds: Vec<String>,
    /// Empty: all providers.
    pub model_providers: Vec<String>,
    /// `None`: all directories.
    pub cwds: Option<Vec<String>>,
    pub excluded: Vec<Uuid>,
    /// Only these threads.
    pub only: Option<Vec<Uuid>>,
    pub section: Option<String>,
    /// Only threads in none of these sections.
    pub outside_sections: Option<Vec<String>>,
    pub project: Option<String>,
    pub below: Option<ThreadsBelow>,
    /// A case-sensitive substring of the name or the first user message.
    pub search_term: Option<String>,
    /// Only threads whose messages may contain all these trigrams.
    pub trigrams: Option<Vec<i32>>,
}

/// What threads are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadSort {
    #[default]
    Created,
    Updated,
    /// The rank in their section.
    Section,
}

/// What threads have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ThreadLabel {
    Section(String),
    Project(String),
    Attachment { attachment_type: String, identity_key: String },
}

/// The threads that agents have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadsBelow {
    /// By the agent of this thread.
    Children(Uuid),
    /// Those and theirs, at any depth.
    Descendants(Uuid),
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPage {
    pub threads: Vec<ThreadRow>,
    pub has_more: bool,
}

impl PostgresStore {
    /// Returns a page of threads that have a user message, newest first.
    pub async fn list(&self, query: &ThreadQuery) -> Result<ThreadPage> {
        let statement = ListStatement::new(query);
        let answer = self.pool.query("list threads", &statement.sql, &statement.values).await?;
        let found: i64 = answer.rows.first().map_or(Ok(0), |row| column(row, "found"))?;
        let limit = query.limit.clamp(1, MAX_LIMIT) as usize;
        let threads: Vec<_> = answer.rows.iter().take(limit).map(thread_row).collect::<Result<_>>()?;
        let has_more = usize::try_from(found).is_ok_and(|found| found > threads.len());
        Ok(ThreadPage { threads, has_more })
    }

    /// Returns the list entry of a thread, archived or not, with or without a user message.
    pub async fn thread(&self, thread: Uuid) -> Result<ThreadRow> {
        let sql = format!("select {COLUMNS} from codicil_thread where id = $1");
        let answer = self.pool.query("read a thread", &sql, &[(&thread, Type::UUID)]).await?;
        answer.rows.first().map(thread_row).ok_or(PostgresError::NotFound(thread))?
    }

    /// Returns the threads with a label, archived or not, by id.
    pub async fn labelled(&self, label: &ThreadLabel) -> Result<Vec<ThreadRow>> {
        let (condition, values) = match label {
            ThreadLabel::Section(id) => {
                ("facts ? 'section' and facts #>> '{section,sectionId}' = $1", vec![(id as _, Type::TEXT)])
            }
            ThreadLabel::Project(id) => {
                ("facts ? 'projectId' and facts ->> 'projectId' = $1", vec![(id as _, Type::TEXT)])
            }
            ThreadLabel::Attachment { attachment_type, identity_key } => (
                "facts -> 'attachments' @> jsonb_build_array(jsonb_build_object('type', $1::text, 'key', $2::text))",
                vec![(attachment_type as _, Type::TEXT), (identity_key as _, Type::TEXT)],
            ),
        };
        let sql = format!("select {COLUMNS} from codicil_thread where {condition} order by id");
        let answer = self.pool.query("list threads", &sql, &values).await?;
        answer.rows.iter().map(thread_row).collect()
    }

    /// Returns when a thread of each project was last active.
    pub async fn project_recency(&self) -> Result<Vec<(String, i64)>> {
        let sql = "select facts ->> 'projectId' as project, max(updated_at) as at from codicil_thread
            where facts ? 'projectId' and facts ->> 'projectId' is not null group by 1";
        let answer = self.pool.query("list projects", sql, &[]).await?;
        answer.rows.iter().map(|row| Ok((column(row, "project")?, column(row, "at")?))).collect()
    }

    /// Returns the threads that the agent of this thread started.
    pub async fn children(&self, thread: Uuid) -> Result<Vec<Uuid>> {
        let sql = "select id from codicil_thread where parent = $1 order by id";
        let answer = self.pool.query("list the children of a thread", sql, &[(&thread, Type::UUID)]).await?;
        answer.rows.iter().map(|row| column(row, "id")).collect()
    }

    /// Returns threads after an id, archived or not, sorted by id; at most 1000.
    pub async fn threads_after(&self, after: Uuid) -> Result<Vec<Uuid>> {
        let sql = "select id from codicil_thread where id > $1 order by id limit $2";
        let values = [(&after as _, Type::UUID), (&MAX_REQUEST_THREADS as _, Type::INT8)];
        let answer = self.pool.query("list threads", sql, &values).await?;
        answer.rows.iter().map(|row| column(row, "id")).collect()
    }

    /// Returns threads from an id on with server requests that wait for an answer, sorted by id; at most 1000.
    pub async fn threads_with_requests(&self, from: Uuid) -> Result<Vec<Uuid>> {
        let sql = "select id from codicil_thread where open_requests > 0 and not archived and id >= $1
            order by id limit $2";
        let values = [(&from as _, Type::UUID), (&MAX_REQUEST_THREADS as _, Type::INT8)];
        let answer = self.pool.query("list threads with requests", sql, &values).await?;
        answer.rows.iter().map(|row| column(row, "id")).collect()
    }
}

/// The statement of a list, with a condition for each filter that the query has: the database parses and plans it for
/// every page.
struct ListStatement<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> ListStatement<'a> {
    fn new(query: &'a ThreadQuery) -> Self {
        let mut statement = Self { sql: String::new(), values: Vec::new() };
        let (key, key_type) = match query.sort {
            ThreadSort::Created => ("created_at", Type::INT8),
            ThreadSort::Updated => ("updated_at", Type::INT8),
            ThreadSort::Section => ("coalesce(facts #>> '{section,rank}', '') collate \"C\"", Type::TEXT),
        };
        let (comparison, direction) = if query.oldest_first { (">", "asc") } else { ("<", "desc") };
        let order = format!("{key} {direction}, id {direction}");

        let mut conditions = format!("archived = {} and preview is not null", query.archived);
        if let Some((at, id)) = &query.after {
            let key_value: &(dyn ToSql + Sync) =
                if query.sort == ThreadSort::Section { &query.after_rank } else { at };
            let key_value = statement.bind(key_value, key_type);
            let id = statement.bind(id, Type::UUID);
            conditions += &format!(" and ({key}, id) {comparison} ({key_value}, {id})");
        }
        for condition in statement.filters(query) {
            conditions += " and ";
            conditions += &condition;
        }
        // One row more than the page holds tells whether there is a next page.
        let rows = query.limit.clamp(1, MAX_LIMIT) + 1;
        statement.sql = format!(
            "select {COLUMNS}, found from (
                select *, count(*) over () as found,
                    sum(octet_length(preview)) over (order by {order} rows unbounded preceding)
                        - octet_length(preview) as before
                from (select * from codicil_thread where {conditions} order by {order} limit {rows}) matching
            ) page where before < {PAGE_BYTES} order by {order}"
        );
        statement
    }

    /// Returns the conditions of the filters that the query has.
    fn filters(&mut self, query: &'a ThreadQuery) -> Vec<String> {
        let mut filters = Vec::new();
        if !query.source_kinds.is_empty() {
            filters.push(format!("source_kind = any({})", self.bind(&query.source_kinds, Type::TEXT_ARRAY)));
        }
        if !query.model_providers.is_empty() {
            let providers = self.bind(&query.model_providers, Type::TEXT_ARRAY);
            filters.push(format!("model_provider = any({providers})"));
        }
        if let Some(cwds) = &query.cwds {
            filters.push(format!("cwd = any({})", self.bind(cwds, Type::TEXT_ARRAY)));
        }
        if !query.excluded.is_empty() {
            filters.push(format!("id <> all({})", self.bind(&query.excluded, Type::UUID_ARRAY)));
        }
        if let Some(only) = &query.only {
            filters.push(format!("id = any({})", self.bind(only, Type::UUID_ARRAY)));
        }
        if let Some(term) = query.search_term.as_ref().filter(|term| !term.is_empty()) {
            let term = self.bind(term, Type::TEXT);
            filters.push(format!("(position({term} in preview) > 0 or position({term} in name) > 0)"));
        }
        if let Some(section) = &query.section {
            let section = self.bind(section, Type::TEXT);
            filters.push(format!("facts #>> '{{section,sectionId}}' = {section}"));
        }
        if let Some(sections) = &query.outside_sections {
            let sections = self.bind(sections, Type::TEXT_ARRAY);
            filters.push(format!(
                "(facts #>> '{{section,sectionId}}' is null or facts #>> '{{section,sectionId}}' <> all({sections}))"
            ));
        }
        if let Some(project) = &query.project {
            filters.push(format!("facts ->> 'projectId' = {}", self.bind(project, Type::TEXT)));
        }
        if let Some(trigrams) = &query.trigrams {
            let trigrams = self.bind(trigrams, Type::INT4_ARRAY);
            filters.push(format!(
                "id in (
                    select thread from codicil_search_part where trigrams @> {trigrams}
                    union all
                    select l.thread from codicil_lease l left join codicil_search s using (thread)
                    where s.next is distinct from l.next)"
            ));
        }
        match &query.below {
            None => {}
            Some(ThreadsBelow::Children(id)) => {
                filters.push(format!("parent = {}", self.bind(id, Type::UUID)));
            }
            Some(ThreadsBelow::Descendants(id)) => {
                let id = self.bind(id, Type::UUID);
                filters.push(format!(
                    "id in (with recursive below (id) as (
                        select id from codicil_thread where parent = {id}
                        union select c.id from below join codicil_thread c on c.parent = below.id)
                    select id from below)"
                ));
            }
        }
        filters
    }

    /// Adds a value, and returns the parameter that stands for it.
    fn bind(&mut self, value: &'a (dyn ToSql + Sync), value_type: Type) -> String {
        self.values.push((value, value_type));
        format!("${}", self.values.len())
    }
}

fn thread_row(row: &Row) -> Result<ThreadRow> {
    Ok(ThreadRow {
        id: column(row, "id")?,
        root: column(row, "root")?,
        parent: column(row, "parent")?,
        place: column(row, "place")?,
        archived: column(row, "archived")?,
        created_at: column(row, "created_at")?,
        updated_at: column(row, "updated_at")?,
        source_kind: column(row, "source_kind")?,
        model_provider: column(row, "model_provider")?,
        cwd: column(row, "cwd")?,
        name: column(row, "name")?,
        preview: column(row, "preview")?,
        open_requests: column(row, "open_requests")?,
        details: column(row, "details")?,
        facts: column(row, "facts")?,
    })
}
