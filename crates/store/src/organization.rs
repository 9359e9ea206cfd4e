//! Sections and projects: what orders threads and belongs to none of them.
//!
//! They are one small JSON file in the home, which is replaced as a whole, under a lock, for each change. Which section and
//! project a thread is in stands in the thread's own file ([`facts`](crate::facts)). A thread that names a section or a
//! project that does not exist any more is in none, so deleting one leaves the threads' files as they are.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
};

use codicil_protocol::{ProjectRoot, Thread, ThreadSection};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Result, StoreError},
    facts::SectionPlace,
    layout::{self, HomeLayout},
    store::{Store, StoreInner},
    summary::FileStamp,
    work_pool::WorkLane,
};

/// The id of the section that every home has.
pub const PINNED_SECTION: &str = "01984de2-8f74-7c91-a3b2-5c5e937cf318";

/// The sections and projects of a home, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Organization {
    /// The sections besides the built-in one.
    pub sections: Vec<ThreadSection>,
    pub projects: Vec<StoredProject>,
}

/// A project as it is stored. Its place in the list is its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredProject {
    pub id: String,
    /// The key of the request that created it.
    pub idempotency_key: String,
    pub name: String,
    pub roots: Vec<ProjectRoot>,
    #[serde(default)]
    pub metadata: std::collections::BTreeMap<String, String>,
    pub created_at: i64,
    pub updated_at: i64,
}

impl Organization {
    /// Returns all sections, the built-in one first.
    pub fn all_sections(&self) -> Vec<ThreadSection> {
        let pinned =
            ThreadSection { id: PINNED_SECTION.to_owned(), name: "Pinned".to_owned(), appearance: None };
        [pinned].into_iter().chain(self.sections.iter().cloned()).collect()
    }

    pub fn section(&self, id: &str) -> Option<ThreadSection> {
        self.all_sections().into_iter().find(|section| section.id == id)
    }

    pub fn project(&self, id: &str) -> Option<&StoredProject> {
        self.projects.iter().find(|project| project.id == id)
    }

    /// Sets the section and project of a thread, as far as they exist.
    pub fn label(&self, thread: &mut Thread, place: Option<&SectionPlace>, project_id: Option<&str>) {
        let section = place.and_then(|place| self.section(&place.section_id));
        thread.section_entered_at = place.filter(|_| section.is_some()).map(|place| place.entered_at);
        thread.section = section;
        thread.project_id = project_id.filter(|id| self.project(id).is_some()).map(str::to_owned);
    }
}

/// The file of an [`Organization`], read again when it has changed.
#[derive(Default)]
pub(crate) struct OrganizationFile {
    known: Mutex<Option<(FileStamp, Arc<Organization>)>>,
}

impl Store {
    /// Returns the sections and projects.
    pub async fn organization(&self) -> Result<Arc<Organization>> {
        if let Some(shared) = &self.shared {
            return shared.organization().await;
        }
        self.run(WorkLane::Load, |inner| inner.organization.read(&inner.layout)).await
    }

    /// Changes the sections and projects, unless `change` refuses. Changes of several processes follow each other.
    pub async fn change_organization<T, E, F>(&self, change: F) -> Result<Result<T, E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Fn(&mut Organization) -> Result<T, E> + Send + Sync + 'static,
    {
        if let Some(shared) = &self.shared {
            return shared.change_organization(change).await;
        }
        let inner = self.inner.clone();
        let write = move || inner.organization.change(&inner.layout, &change);
        self.inner.pool.run_locking(WorkLane::Append, write).await
    }

    /// Sets the section and project of a loaded thread.
    pub async fn label(
        &self,
        thread: &mut Thread,
        place: Option<&SectionPlace>,
        project_id: Option<&str>,
    ) -> Result<()> {
        if place.is_some() || project_id.is_some() {
            self.organization().await?.label(thread, place, project_id);
        }
        Ok(())
    }
}

impl StoreInner {
    /// Sets the section and project of a thread. Threads are shown without them if their file cannot be read.
    pub(crate) fn label(&self, thread: &mut Thread, place: Option<&SectionPlace>, project_id: Option<&str>) {
        if place.is_none() && project_id.is_none() {
            return;
        }
        match self.organization.read(&self.layout) {
            Ok(organization) => organization.label(thread, place, project_id),
            Err(error) => tracing::warn!("cannot read sections and projects: {error}"),
        }
    }
}

impl OrganizationFile {
    pub fn read(&self, layout: &HomeLayout) -> Result<Arc<Organization>> {
        let path = layout.organization();
        let Some(stamp) = FileStamp::read(&path) else { return Ok(Arc::default()) };
        let mut known = self.known.lock();
        if let Some((read, organization)) = &*known
            && *read == stamp
        {
            return Ok(organization.clone());
        }
        let organization = Arc::new(load(&path)?);
        *known = Some((stamp, organization.clone()));
        Ok(organization)
    }

    fn change<T, E>(
        &self,
        layout: &HomeLayout,
        change: impl Fn(&mut Organization) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        let path = layout.organization();
        layout::make_dir(layout.home())?;
        let lock = lock(&path.with_extension("lock"))?;
        let before = load(&path)?;
        let mut organization = before.clone();
        let changed = change(&mut organization);
        if changed.is_ok() && organization != before {
            replace(&path, &serde_json::to_vec_pretty(&organization)?)?;
            *self.known.lock() = None;
        }
        drop(lock);
        Ok(changed)
    }
}

fn load(path: &Path) -> Result<Organization> {
    match layout::read_regular(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Organization::default()),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Locks a file until it is closed.
fn lock(path: &Path) -> Result<File> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = open.map_err(StoreError::io("open", path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(error)) if error.kind() != io::ErrorKind::Unsupported => {
            Err(StoreError::io("lock", path)(error))
        }
        _ => Ok(file),
    }
}

/// Replaces a file durably. The caller holds its lock, so the temporary name is free.
fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let failed = || StoreError::io("write", path);
    let mut options = OpenOptions::new();
    let mut file =
        options.create(true).truncate(true).write(true).mode(0o600).open(&temporary).map_err(failed())?;
    file.write_all(content).and_then(|()| file.sync_all()).map_err(failed())?;
    fs::rename(&temporary, path).map_err(failed())?;
    layout::sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Returns a rank between two others, which are `None` at the ends of the section. A rank consists of lowercase letters and
/// does not end with `a`, so there is always room before it.
pub fn rank_between(before: Option<&str>, after: Option<&str>) -> String {
    let digit = |text: Option<&str>, place: usize| text.and_then(|text| text.as_bytes().get(place)).copied();
    let mut after = after;
    let mut rank = String::new();
    for place in 0.. {
        let low = digit(before, place).map_or(0, |letter| letter.saturating_sub(b'a'));
        let high = match after {
            Some(_) => digit(after, place).map_or(0, |letter| letter.saturating_sub(b'a')),
            None => 26,
        };
        if high > low + 1 {
            rank.push(char::from(b'a' + (low + high) / 2));
            break;
        }
        rank.push(char::from(b'a' + low.min(25)));
        // From here on, everything that begins like the rank so far is before the upper end.
        if high > low {
            after = None;
        }
        // Ranks that contradict each other, as two processes could write them, end somewhere after the first.
        if place > 255 {
            rank.push('n');
            break;
        }
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_always_a_rank_between_two_others() {
        let check = |before: Option<&str>, after: Option<&str>| {
            let rank = rank_between(before, after);
            assert!(before.is_none_or(|before| before < rank.as_str()), "{before:?} {rank} {after:?}");
            assert!(after.is_none_or(|after| rank.as_str() < after), "{before:?} {rank} {after:?}");
            assert!(!rank.ends_with('a'), "{rank}");
            rank
        };
        let first = check(None, None);
        let (mut low, mut high) = (first.clone(), first.clone());
        for _ in 0..200 {
            low = check(None, Some(&low));
            high = check(Some(&high), None);
        }
        let mut next = high.clone();
        for _ in 0..200 {
            next = check(Some(&first), Some(&next));
        }
        check(Some("b"), Some("bb"));
        check(Some("an"), Some("b"));
        check(Some("z"), None);
    }
}
