-- The section, project and attachments of a thread, by which threads are found.
alter table codicil_thread add column facts jsonb not null default '{}';

create index codicil_thread_section on codicil_thread ((facts #>> '{section,sectionId}')) where facts ? 'section';
create index codicil_thread_project on codicil_thread ((facts ->> 'projectId')) where facts ? 'projectId';

-- What belongs to no thread, such as the list of sections and projects.
create table codicil_document (
    name text primary key,
    version bigint not null,
    body text not null
);
