//! Lists of threads: filters, order, pages and a search in names and first messages.

use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use crate::{
    connection::column,
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
        let limit = i64::from(query.limit.clamp(1, MAX_LIMIT));
        let (after_at, after_id) = query.after.unzip();
        let source_kinds = Some(&query.source_kinds).filter(|kinds| !kinds.is_empty());
        let model_providers = Some(&query.model_providers).filter(|providers| !providers.is_empty());
        let search_term = query.search_term.as_ref().filter(|term| !term.is_empty());
        let below = query.below.map(|below| match below {
            ThreadsBelow::Children(id) | ThreadsBelow::Descendants(id) => id,
        });
        let values = [
            (&query.archived as _, Type::BOOL),
            (&source_kinds as _, Type::TEXT_ARRAY),
            (&model_providers as _, Type::TEXT_ARRAY),
            (&query.cwds as _, Type::TEXT_ARRAY),
            (&query.excluded as _, Type::UUID_ARRAY),
            (&search_term as _, Type::TEXT),
            (&after_at as _, Type::INT8),
            (&after_id as _, Type::UUID),
            (&limit as _, Type::INT8),
            (&PAGE_BYTES as _, Type::INT8),
            (&below as _, Type::UUID),
            (&query.after_rank as _, Type::TEXT),
            (&query.section as _, Type::TEXT),
            (&query.project as _, Type::TEXT),
            (&query.only as _, Type::UUID_ARRAY),
            (&query.trigrams as _, Type::INT4_ARRAY),
            (&query.outside_sections as _, Type::TEXT_ARRAY),
        ];
        let answer = self.pool.query("list threads", &query.sql(), &values).await?;
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

impl ThreadQuery {
    /// Writes the statement. Conditions whose value is null are dropped by the planner, which knows the values. One row more
    /// than the page holds tells whether there is a next page.
    fn sql(&self) -> String {
        let (key, after) = match self.sort {
            ThreadSort::Created => ("created_at", "$7"),
            ThreadSort::Updated => ("updated_at", "$7"),
            ThreadSort::Section => ("coalesce(facts #>> '{section,rank}', '') collate \"C\"", "$12"),
        };
        let (comparison, order) = if self.oldest_first { (">", "asc") } else { ("<", "desc") };
        let below = match self.below {
            None => "$11::uuid is null",
            Some(ThreadsBelow::Children(_)) => "parent = $11",
            Some(ThreadsBelow::Descendants(_)) => {
                "id in (with recursive below (id) as (
                    select id from codicil_thread where parent = $11
                    union select c.id from below join codicil_thread c on c.parent = below.id)
                select id from below)"
            }
        };
        format!(
            "select {COLUMNS}, found from (
                select *, count(*) over () as found,
                    sum(octet_length(preview)) over (order by {key} {order}, id {order} rows unbounded preceding)
                        - octet_length(preview) as before
                from (
                    select * from codicil_thread
                    where archived = $1 and preview is not null
                        and ($2::text[] is null or source_kind = any($2))
                        and ($3::text[] is null or model_provider = any($3))
                        and ($4::text[] is null or cwd = any($4))
                        and id <> all($5)
                        and ($6::text is null or position($6 in preview) > 0 or position($6 in name) > 0)
                        and ($8::uuid is null or ({key}, id) {comparison} ({after}, $8))
                        and ($13::text is null or facts #>> '{{section,sectionId}}' = $13)
                        and ($17::text[] is null or facts #>> '{{section,sectionId}}' is null
                            or facts #>> '{{section,sectionId}}' <> all($17))
                        and ($14::text is null or facts ->> 'projectId' = $14)
                        and ($15::uuid[] is null or id = any($15))
                        and ($16::integer[] is null or id in (
                            select thread from codicil_search_part where trigrams @> $16
                            union all
                            select l.thread from codicil_lease l left join codicil_search s using (thread)
                            where s.next is distinct from l.next))
                        and {below}
                    order by {key} {order}, id {order} limit $9 + 1
                ) matching
            ) page where before < $10 order by {key} {order}, id {order}"
        )
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
