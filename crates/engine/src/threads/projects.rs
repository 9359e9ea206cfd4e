//! Projects, which threads can belong to: `project/*`.

use std::collections::{BTreeMap, HashSet};

use codicil_protocol::{
    AbsolutePathBuf, Project, ProjectChangeType, ProjectChanged, ProjectChangedNotification,
    ProjectImportParams, ProjectListParams, ProjectListResponse, ProjectRoot, ProjectSortKey,
    ProjectUpdateParams, SortDirection, ThreadId, ThreadProjectUpdated, ThreadProjectUpdatedNotification,
    normal_path,
};
use codicil_store::{FactChange, Organization, Record, StoredProject};
use uuid::Uuid;

use super::{Threads, ids::canonical, pages::page, stored::not_found};
use crate::{
    clock::unix_now,
    error::{MetadataError, ProjectError, ThreadError},
};

impl Threads {
    pub async fn projects(&self, params: &ProjectListParams) -> Result<ProjectListResponse, ThreadError> {
        if params.sort_direction.is_some() && params.sort_key.is_none() {
            return Err(ProjectError::DirectionWithoutKey.into());
        }
        let mut projects = self.all_projects().await?;
        match params.sort_key {
            Some(ProjectSortKey::RecencyAt) => {
                projects.sort_by_key(|project| std::cmp::Reverse(project.recency_at));
                if params.sort_direction == Some(SortDirection::Asc) {
                    projects.reverse();
                }
            }
            Some(ProjectSortKey::Position | ProjectSortKey::Unrecognized(_)) | None => {
                if params.sort_direction == Some(SortDirection::Desc) {
                    projects.reverse();
                }
            }
        }
        let page = page(projects, params.cursor.as_deref(), params.limit);
        let (data, next_cursor) = page.map_err(|_| ProjectError::Cursor)?;
        Ok(ProjectListResponse { data, next_cursor })
    }

    pub async fn project(&self, id: &str) -> Result<Project, ThreadError> {
        let found = self.all_projects().await?.into_iter().find(|project| project.id == id);
        Ok(found.ok_or_else(|| ProjectError::NotFound(id.to_owned()))?)
    }

    async fn all_projects(&self) -> Result<Vec<Project>, ThreadError> {
        let store = &self.0.engine.store;
        let recency = store.project_recency().await?;
        let organization = store.organization().await?;
        let shown = organization.projects.iter().zip(0..).map(|(project, position)| {
            let StoredProject { id, name, roots, metadata, created_at, updated_at, .. } = project.clone();
            let recency_at = recency.get(&id).copied();
            Project { id, name, roots, metadata, position, created_at, updated_at, recency_at }
        });
        Ok(shown.collect())
    }

    /// Creates a project with threads, unless its key has created one before.
    pub async fn import_project(&self, params: ProjectImportParams) -> Result<Project, ThreadError> {
        let ProjectImportParams { idempotency_key, name, roots, metadata, threads } = params;
        let threads: Vec<ThreadId> =
            threads.unwrap_or_default().iter().map(canonical).collect::<Result<_, _>>()?;
        for thread in &threads {
            self.0.engine.store.find(thread).await.map_err(|_| ProjectError::NoThread(thread.clone()))?;
        }
        let new = new_project(idempotency_key, &name, roots, metadata)?;
        let create = move |organization: &mut Organization| {
            let known = |project: &&StoredProject| project.idempotency_key == new.idempotency_key;
            Ok::<_, ProjectError>(match organization.projects.iter().find(known) {
                Some(known) => (known.id.clone(), false),
                None => {
                    organization.projects.push(new.clone());
                    (new.id.clone(), true)
                }
            })
        };
        let (id, is_new) = self.0.engine.store.change_organization(create).await??;
        if is_new {
            self.announce_project(&id, ProjectChangeType::Created);
            for thread in &threads {
                self.set_project(thread, Some(id.clone())).await?;
            }
        }
        self.project(&id).await
    }

    pub async fn update_project(&self, params: ProjectUpdateParams) -> Result<Project, ThreadError> {
        let ProjectUpdateParams { project_id, name, roots, metadata } = params;
        let name = name.as_deref().map(checked_name).transpose()?;
        let roots = roots.map(normal_roots);
        check_roots(roots.as_deref().unwrap_or_default())?;
        let id = project_id.clone();
        let update = move |organization: &mut Organization| {
            let project = find(organization, &id)?;
            let before = project.clone();
            if let Some(name) = &name {
                project.name.clone_from(name);
            }
            if let Some(roots) = &roots {
                project.roots.clone_from(roots);
            }
            if let Some(metadata) = &metadata {
                project.metadata.clone_from(metadata);
            }
            let is_changed = *project != before;
            if is_changed {
                project.updated_at = unix_now();
            }
            Ok::<_, ProjectError>(is_changed)
        };
        if self.0.engine.store.change_organization(update).await?? {
            self.announce_project(&project_id, ProjectChangeType::Updated);
        }
        self.project(&project_id).await
    }

    /// Moves a project before another one, or to the end.
    pub async fn move_project(&self, id: String, before: Option<String>) -> Result<(), ThreadError> {
        let moved = id.clone();
        let change = move |organization: &mut Organization| {
            let project = find(organization, &id)?.clone();
            let projects = &mut organization.projects;
            if let Some(before) = before.as_ref().filter(|before| projects.iter().all(|it| it.id != **before))
            {
                return Err(ProjectError::NoBefore(before.clone()));
            }
            if before.as_ref() == Some(&id) {
                return Err(ProjectError::BeforeItself(id.clone()));
            }
            projects.retain(|other| other.id != id);
            let place = before.as_ref().and_then(|before| projects.iter().position(|it| it.id == *before));
            projects.insert(place.unwrap_or(projects.len()), project);
            Ok(())
        };
        self.0.engine.store.change_organization(change).await??;
        self.announce_project(&moved, ProjectChangeType::Updated);
        Ok(())
    }

    /// Deletes a project. Its threads are told that they have none any more.
    pub async fn delete_project(&self, id: String) -> Result<(), ThreadError> {
        let store = &self.0.engine.store;
        let threads = store.project_threads(&id).await?;
        let deleted = id.clone();
        let delete = move |organization: &mut Organization| {
            find(organization, &id)?;
            organization.projects.retain(|project| project.id != id);
            Ok::<_, ProjectError>(())
        };
        store.change_organization(delete).await??;
        self.announce_project(&deleted, ProjectChangeType::Deleted);
        for thread_id in threads {
            self.announce_thread_project(thread_id, None);
        }
        Ok(())
    }

    /// Checks that a project exists.
    pub(super) async fn check_project(&self, id: &str) -> Result<(), ThreadError> {
        match self.0.engine.store.organization().await?.project(id) {
            Some(_) => Ok(()),
            None => Err(ThreadError::NoProject(id.to_owned())),
        }
    }

    /// Moves a stored thread into a project, or out of its project.
    pub(super) async fn move_to_project(
        &self,
        id: &ThreadId,
        project: Option<String>,
    ) -> Result<(), ThreadError> {
        if let Some(project) = &project {
            self.check_project(project).await?;
        }
        if let Ok(handle) = self.get(id)
            && handle.snapshot().await?.thread.ephemeral
        {
            return Err(MetadataError::Ephemeral(id.clone()).into());
        }
        self.0.engine.store.find(id).await.map_err(not_found)?;
        self.set_project(id, project).await
    }

    async fn set_project(&self, id: &ThreadId, project_id: Option<String>) -> Result<(), ThreadError> {
        let change = FactChange::Project { project_id: project_id.clone() };
        self.0.engine.store.append_beside(id, Record::fact(&change)).await?;
        self.announce_thread_project(id.clone(), project_id);
        Ok(())
    }

    fn announce_thread_project(&self, thread_id: ThreadId, project_id: Option<String>) {
        let updated = ThreadProjectUpdatedNotification { thread_id, project_id };
        self.0.engine.clients.broadcast::<ThreadProjectUpdated>(&updated);
    }

    fn announce_project(&self, id: &str, change_type: ProjectChangeType) {
        let changed = ProjectChangedNotification { project_id: id.to_owned(), change_type };
        self.0.engine.clients.broadcast::<ProjectChanged>(&changed);
    }
}

fn new_project(
    idempotency_key: String,
    name: &str,
    roots: Vec<ProjectRoot>,
    metadata: Option<BTreeMap<String, String>>,
) -> Result<StoredProject, ProjectError> {
    if idempotency_key.trim().is_empty() {
        return Err(ProjectError::EmptyKey);
    }
    let roots = normal_roots(roots);
    check_roots(&roots)?;
    let now = unix_now();
    Ok(StoredProject {
        id: Uuid::now_v7().to_string(),
        idempotency_key,
        name: checked_name(name)?,
        roots,
        metadata: metadata.unwrap_or_default(),
        created_at: now,
        updated_at: now,
    })
}

/// Returns the directories in their shortest form, such as without a slash at the end.
fn normal_roots(roots: Vec<ProjectRoot>) -> Vec<ProjectRoot> {
    let normal = |root: ProjectRoot| match AbsolutePathBuf::new(normal_path(&root.path)) {
        Some(path) => ProjectRoot { path },
        None => root,
    };
    roots.into_iter().map(normal).collect()
}

/// Checks that no directory is named twice.
fn check_roots(roots: &[ProjectRoot]) -> Result<(), ProjectError> {
    let mut known = HashSet::new();
    let again = roots.iter().find(|root| !known.insert(&root.path));
    again.map_or(Ok(()), |root| Err(ProjectError::DuplicateRoot(root.path.display().to_string())))
}

fn checked_name(name: &str) -> Result<String, ProjectError> {
    match name.trim() {
        "" => Err(ProjectError::EmptyName),
        name => Ok(name.to_owned()),
    }
}

fn find<'a>(organization: &'a mut Organization, id: &str) -> Result<&'a mut StoredProject, ProjectError> {
    let found = organization.projects.iter_mut().find(|project| project.id == id);
    found.ok_or_else(|| ProjectError::NotFound(id.to_owned()))
}
