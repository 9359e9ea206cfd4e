//! Data of clients that is attached to threads: `thread/attachment/*` and `thread/attachmentOwner/list`.

use codicil_protocol::{
    ThreadAttachment, ThreadAttachmentAddOutcome, ThreadAttachmentAddParams, ThreadAttachmentAddResponse,
    ThreadAttachmentListParams, ThreadAttachmentListResponse, ThreadAttachmentOperation,
    ThreadAttachmentOwner, ThreadAttachmentOwnerListParams, ThreadAttachmentOwnerListResponse,
    ThreadAttachmentRemoveParams, ThreadAttachmentUpdated, ThreadAttachmentUpdatedNotification, ThreadId,
};
use codicil_store::{AttachmentChange, AttachmentKey, FactChange, Record, StoreError};
use uuid::Uuid;

use super::{Threads, ids::canonical, pages::page};
use crate::{
    clock::unix_now,
    error::{AttachmentError, ThreadError},
};

/// The longest payload of an attachment, as JSON.
const MAX_PAYLOAD_BYTES: usize = 1 << 16;
/// The longest type and the longest key of an attachment.
const MAX_KEY_BYTES: usize = 256;
/// The number of attachments of one thread.
const MAX_ATTACHMENTS: usize = 1000;

impl Threads {
    pub async fn add_attachment(
        &self,
        params: ThreadAttachmentAddParams,
    ) -> Result<ThreadAttachmentAddResponse, ThreadError> {
        let ThreadAttachmentAddParams { thread_id, attachment_type, identity_key, payload } = params;
        let key = checked_key(attachment_type, identity_key)?;
        if payload.to_string().len() > MAX_PAYLOAD_BYTES {
            return Err(AttachmentError::TooLong(MAX_PAYLOAD_BYTES).into());
        }
        let id = owner(&thread_id)?;
        let attached = self.attachments(&id).await?;
        if let Some(existing) = attached.iter().find(|known| AttachmentKey::from(*known) == key) {
            let outcome = ThreadAttachmentAddOutcome::Existing;
            return Ok(ThreadAttachmentAddResponse { outcome, attachment: existing.clone() });
        }
        if attached.len() >= MAX_ATTACHMENTS {
            return Err(AttachmentError::TooMany(MAX_ATTACHMENTS).into());
        }
        let attachment = ThreadAttachment {
            id: Uuid::now_v7().to_string(),
            attachment_type: key.attachment_type,
            identity_key: key.identity_key,
            payload,
            created_at: unix_now(),
        };
        self.change_attachments(&id, AttachmentChange::Add(attachment.clone())).await?;
        self.announce_attachment(id, &attachment, ThreadAttachmentOperation::Created);
        Ok(ThreadAttachmentAddResponse { outcome: ThreadAttachmentAddOutcome::Created, attachment })
    }

    pub async fn list_attachments(
        &self,
        params: &ThreadAttachmentListParams,
    ) -> Result<ThreadAttachmentListResponse, ThreadError> {
        // A thread that is not stored has no attachments.
        let attached = match self.attachments(&owner(&params.thread_id)?).await {
            Err(ThreadError::Attachment(AttachmentError::NoThread(_))) => Vec::new(),
            attached => attached?,
        };
        let page = page(attached, params.cursor.as_deref(), params.limit);
        let (data, next_cursor) = page.map_err(|_| AttachmentError::Cursor)?;
        Ok(ThreadAttachmentListResponse { data, next_cursor })
    }

    /// Removes an attachment, if the thread has it.
    pub async fn remove_attachment(&self, params: ThreadAttachmentRemoveParams) -> Result<(), ThreadError> {
        let key = checked_key(params.attachment_type, params.identity_key)?;
        let id = owner(&params.thread_id)?;
        let attached = self.attachments(&id).await?;
        let Some(removed) = attached.iter().find(|known| AttachmentKey::from(*known) == key) else {
            return Ok(());
        };
        self.change_attachments(&id, AttachmentChange::Remove(key)).await?;
        self.announce_attachment(id, removed, ThreadAttachmentOperation::Deleted);
        Ok(())
    }

    pub async fn attachment_owners(
        &self,
        params: ThreadAttachmentOwnerListParams,
    ) -> Result<ThreadAttachmentOwnerListResponse, ThreadError> {
        let ThreadAttachmentOwnerListParams { attachment_type, identity_key, archived, cursor, limit } =
            params;
        let key = checked_key(attachment_type, identity_key)?;
        let owners = self.0.engine.store.attachment_owners(key).await?;
        let is_wanted = |owner: &(ThreadId, bool)| archived.is_none_or(|archived| owner.1 == archived);
        let owners = owners.into_iter().filter(is_wanted);
        let owners = owners.map(|(thread_id, archived)| ThreadAttachmentOwner { thread_id, archived });
        let page = page(owners.collect(), cursor.as_deref(), limit);
        let (data, next_cursor) = page.map_err(|_| AttachmentError::Cursor)?;
        Ok(ThreadAttachmentOwnerListResponse { data, next_cursor })
    }

    async fn attachments(&self, id: &ThreadId) -> Result<Vec<ThreadAttachment>, ThreadError> {
        Ok(self.0.engine.store.read(id).await.map_err(no_thread)?.facts.attachments)
    }

    async fn change_attachments(&self, id: &ThreadId, change: AttachmentChange) -> Result<(), ThreadError> {
        let record = Record::fact(&FactChange::Attachment(change));
        self.0.engine.store.append_beside(id, record).await.map_err(no_thread)?;
        Ok(())
    }

    fn announce_attachment(
        &self,
        thread_id: ThreadId,
        attachment: &ThreadAttachment,
        operation: ThreadAttachmentOperation,
    ) {
        let params = ThreadAttachmentUpdatedNotification {
            thread_id,
            attachment_type: attachment.attachment_type.clone(),
            identity_key: attachment.identity_key.clone(),
            attachment_id: attachment.id.clone(),
            operation,
        };
        self.0.engine.clients.broadcast::<ThreadAttachmentUpdated>(&params);
    }
}

fn checked_key(attachment_type: String, identity_key: String) -> Result<AttachmentKey, AttachmentError> {
    for (field, value) in [("attachmentType", &attachment_type), ("identityKey", &identity_key)] {
        if value.trim().is_empty() {
            return Err(AttachmentError::Empty(field));
        }
        if value.len() > MAX_KEY_BYTES {
            return Err(AttachmentError::LongKey { field, max: MAX_KEY_BYTES });
        }
    }
    Ok(AttachmentKey { attachment_type, identity_key })
}

/// Returns the canonical form of the id of a thread with attachments.
fn owner(id: &ThreadId) -> Result<ThreadId, AttachmentError> {
    canonical(id).map_err(|error| AttachmentError::ThreadId(error.to_string()))
}

fn no_thread(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => AttachmentError::NoThread(id).into(),
        other => other.into(),
    }
}
