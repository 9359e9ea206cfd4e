-- The fence of a thread: who may append, at which epoch, and where. It is updated by every append, so it is narrow and its
-- pages keep room for new versions of rows.
create table codicil_lease (
    thread uuid primary key,
    -- The root of the thread's tree: itself, or the thread whose agents started it. A tree has one owner.
    root uuid not null,
    epoch bigint not null,
    -- The ordinal of the next line.
    next bigint not null,
    -- The owner; null if the tree was released. A node that is not in codicil_node with this run is not alive.
    node text,
    run uuid,
    -- 0 idle, 1 a turn runs, 2 a turn is parked.
    state smallint not null default 0
) with (fillfactor = 50);

create index codicil_lease_tree on codicil_lease (root);
create index codicil_lease_running on codicil_lease (root) where state = 1;

-- The lines of all threads, a row for each batch.
create table codicil_log (
    thread uuid not null,
    first bigint not null,
    next bigint not null,
    epoch bigint not null,
    lines bytea not null,
    primary key (thread, first),
    check (first >= 0 and next > first)
);

-- What lists need. Times are Unix seconds.
create table codicil_thread (
    id uuid primary key,
    root uuid not null,
    parent uuid,
    place text not null,
    archived boolean not null default false,
    created_at bigint not null,
    updated_at bigint not null,
    source_kind text not null,
    model_provider text not null,
    cwd text not null,
    name text,
    -- The first user message. Threads without one are not listed.
    preview text,
    open_requests integer not null default 0,
    -- The rest of a list entry as JSON, which the database does not look into.
    details text not null
);

create index codicil_thread_created on codicil_thread (archived, created_at, id) where preview is not null;
create index codicil_thread_updated on codicil_thread (archived, updated_at, id) where preview is not null;
create index codicil_thread_parent on codicil_thread (parent) where parent is not null;
create index codicil_thread_requests on codicil_thread (id) where open_requests > 0;

-- Large texts, by their content.
create table codicil_blob (
    sha256 bytea primary key,
    body bytea not null
);
