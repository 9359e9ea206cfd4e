-- The nodes that are up. A node renews `until` in time, by the clock of the database. '-infinity' means buried: the run never
-- comes back, and its trees can be taken.
create table codicil_node (
    name text primary key,
    run uuid not null,
    url text not null,
    -- Workspaces that the node can reach.
    places text[] not null,
    until timestamptz not null
) with (fillfactor = 50);
