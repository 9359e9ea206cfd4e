-- Appends batches of several threads. Takes effect for the threads whose lease has the expected epoch and end, and returns
-- them. Each connection of the server plans a function once, but a statement each time; this one runs for every append.
create function codicil_append(
    threads uuid[], epochs bigint[], firsts bigint[], nexts bigint[], batches bytea[], states smallint[],
    changed uuid[], active_ats bigint[], previews text[], names text[], requests integer[], detail_texts text[],
    fact_texts text[]
) returns setof uuid language plpgsql as $$
begin
    return query
    with want as (
        select * from unnest(threads, epochs, firsts, nexts, batches, states)
            as w(thread, epoch, first, next, lines, state)
    ), own as (
        update codicil_lease l set next = w.next, state = coalesce(w.state, l.state) from want w
        where l.thread = w.thread and l.epoch = w.epoch and l.next = w.first
        returning l.thread
    ), ins as (
        insert into codicil_log (thread, first, next, epoch, lines)
        select w.thread, w.first, w.next, w.epoch, w.lines from want w join own using (thread)
    ), upd as (
        update codicil_thread t set
            updated_at = greatest(t.updated_at, c.active_at),
            preview = coalesce(t.preview, c.preview),
            name = coalesce(c.name, t.name),
            open_requests = coalesce(c.open_requests, t.open_requests),
            details = coalesce(c.details, t.details),
            facts = coalesce(c.facts::jsonb, t.facts)
        from unnest(changed, active_ats, previews, names, requests, detail_texts, fact_texts)
            as c(thread, active_at, preview, name, open_requests, details, facts) join own using (thread)
        where t.id = c.thread and (
            c.active_at > t.updated_at or (c.preview is not null and t.preview is null)
            or c.name is not null or c.open_requests is not null or c.details is not null
            or c.facts is not null)
    )
    select own.thread from own;
end
$$;
