//! Sections of the list of threads: `threadSection/*` and `thread/section/move`.

use codicil_protocol::{
    Patch, ThreadId, ThreadSection, ThreadSectionAppearance, ThreadSectionListParams,
    ThreadSectionListResponse, ThreadSectionMoveParams,
};
use codicil_store::{
    FactChange, Organization, PINNED_SECTION, Record, SectionPlace, StoreError, rank_between,
};
use uuid::Uuid;

use super::{Threads, ids::canonical, pages::page};
use crate::{
    clock::unix_now,
    error::{SectionError, ThreadError},
};

impl Threads {
    pub async fn sections(
        &self,
        params: &ThreadSectionListParams,
    ) -> Result<ThreadSectionListResponse, ThreadError> {
        let sections = self.0.engine.store.organization().await?.all_sections();
        let page = page(sections, params.cursor.as_deref(), params.limit);
        // A cursor of another list has nothing after it.
        let (data, next_cursor) = page.unwrap_or_default();
        Ok(ThreadSectionListResponse { data, next_cursor })
    }

    pub async fn create_section(
        &self,
        name: &str,
        appearance: Option<ThreadSectionAppearance>,
    ) -> Result<ThreadSection, ThreadError> {
        let name = checked_name(name)?;
        let section = ThreadSection { id: Uuid::now_v7().to_string(), name, appearance };
        let create = move |organization: &mut Organization| {
            organization.sections.push(section.clone());
            Ok::<_, SectionError>(section.clone())
        };
        Ok(self.0.engine.store.change_organization(create).await??)
    }

    /// Renames a section and changes its appearance.
    pub async fn update_section(
        &self,
        id: String,
        name: &str,
        appearance: Patch<ThreadSectionAppearance>,
    ) -> Result<ThreadSection, ThreadError> {
        if id == PINNED_SECTION {
            return Err(SectionError::Pinned("renamed").into());
        }
        let name = checked_name(name)?;
        let update = move |organization: &mut Organization| {
            let section = find(organization, &id)?;
            section.name.clone_from(&name);
            section.appearance = appearance.clone().apply(section.appearance.take());
            Ok::<_, SectionError>(section.clone())
        };
        Ok(self.0.engine.store.change_organization(update).await??)
    }

    /// Deletes a section. Its threads are in none afterwards, because they name one that does not exist.
    pub async fn delete_section(&self, id: String) -> Result<(), ThreadError> {
        if id == PINNED_SECTION {
            return Err(SectionError::Pinned("deleted").into());
        }
        let delete = move |organization: &mut Organization| {
            find(organization, &id)?;
            organization.sections.retain(|section| section.id != id);
            Ok::<_, SectionError>(())
        };
        Ok(self.0.engine.store.change_organization(delete).await??)
    }

    /// Moves a thread to a place in a section, or out of its section.
    pub async fn move_to_section(&self, params: ThreadSectionMoveParams) -> Result<(), ThreadError> {
        let id = canonical(&params.thread_id)?;
        let store = &self.0.engine.store;
        let not_found = |error| match error {
            StoreError::NotFound(id) => ThreadError::NotFound(id),
            other => other.into(),
        };
        if let Ok(handle) = self.get(&id)
            && handle.snapshot().await?.thread.ephemeral
        {
            return Err(SectionError::Ephemeral(id).into());
        }
        store.find(&id).await.map_err(not_found)?;
        let before = params.before_thread_id.as_ref().map(canonical).transpose()?;
        let place = match (params.section_id, before) {
            (None, Some(_)) => return Err(SectionError::BeforeWithoutSection.into()),
            (Some(_), Some(before)) if before == id => return Err(SectionError::BeforeItself(id).into()),
            (Some(section_id), before) => Some(self.section_place(&id, section_id, before).await?),
            (None, None) => None,
        };
        store.append_beside(&id, Record::fact(&FactChange::Section { place })).await.map_err(not_found)?;
        Ok(())
    }

    async fn section_place(
        &self,
        id: &ThreadId,
        section_id: String,
        before: Option<ThreadId>,
    ) -> Result<SectionPlace, ThreadError> {
        let store = &self.0.engine.store;
        if store.organization().await?.section(&section_id).is_none() {
            return Err(SectionError::Unknown(section_id).into());
        }
        let members = store.section_members(&section_id).await?;
        let entered_at = members
            .iter()
            .find(|(member, _)| member == id)
            .map_or_else(unix_now, |(_, place)| place.entered_at);
        let others: Vec<_> = members.iter().filter(|(member, _)| member != id).collect();
        let at = match before {
            Some(before) => others
                .iter()
                .position(|(member, _)| *member == before)
                .ok_or(SectionError::NotInSection { thread: before, section: section_id.clone() })?,
            None => others.len(),
        };
        let rank = |at: Option<usize>| Some(others.get(at?)?.1.rank.as_str());
        let rank = rank_between(rank(at.checked_sub(1)), rank(Some(at)));
        Ok(SectionPlace { section_id, rank, entered_at })
    }
}

fn checked_name(name: &str) -> Result<String, SectionError> {
    match name.trim() {
        "" => Err(SectionError::EmptyName),
        name => Ok(name.to_owned()),
    }
}

fn find<'a>(organization: &'a mut Organization, id: &str) -> Result<&'a mut ThreadSection, SectionError> {
    let found = organization.sections.iter_mut().find(|section| section.id == id);
    found.ok_or_else(|| SectionError::NotFound(id.to_owned()))
}
