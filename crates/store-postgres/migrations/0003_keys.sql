-- Requests with keys that create, move or delete threads, and so have no log to stand in: what each is about to do, and its
-- result. Both are JSON, which the database does not look into.
create table codicil_key (
    key text primary key,
    intent text,
    result text,
    -- The attempt that is carried out, and by which node; null if there is none.
    holder uuid,
    node text,
    run uuid,
    at timestamptz not null default now()
);

create index codicil_key_age on codicil_key (at);
