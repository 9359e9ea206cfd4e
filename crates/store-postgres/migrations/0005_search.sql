-- The index of messages by their trigrams: groups of three characters, as numbers. It can be emptied at any time; searches
-- read what it lacks, and fill it.
create table codicil_search (
    thread uuid primary key,
    -- Lines before this ordinal are indexed.
    next bigint not null
) with (fillfactor = 50);

-- The messages that were added to a thread between two runs.
create table codicil_search_part (
    thread uuid not null,
    first bigint not null,
    trigrams integer[] not null,
    primary key (thread, first)
);

create index codicil_search_trigrams on codicil_search_part using gin (trigrams);
