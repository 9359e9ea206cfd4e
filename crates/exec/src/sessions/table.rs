//! The table of sessions, and the eviction of old ones. Its lock is held for a few lines at a time.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{
    SessionEnding, SessionError, SessionId, SessionLimits, SessionOwner, SessionReport,
    pump::{SessionPump, SessionShared},
};

/// All sessions whose exit has not been reported yet.
#[derive(Default)]
pub(super) struct SessionTable {
    limits: SessionLimits,
    sessions: BTreeMap<SessionId, SessionEntry>,
    /// The number of slots reserved for commands that are being started.
    starting: HashMap<SessionOwner, usize>,
    last_id: u32,
    /// A counter of uses, by which the least recently used session is found.
    uses: u64,
    /// The tasks of all sessions. Dropping the table ends them and their commands.
    pumps: JoinSet<()>,
}

struct SessionEntry {
    owner: SessionOwner,
    session: Arc<SessionShared>,
    used: u64,
    visits: usize,
}

impl SessionTable {
    pub(super) fn new(limits: SessionLimits) -> SessionTable {
        SessionTable { limits, ..SessionTable::default() }
    }

    pub(super) fn remove(&mut self, owner: &SessionOwner, id: SessionId) -> Option<Arc<SessionShared>> {
        self.sessions.get(&id).filter(|entry| entry.owner == *owner)?;
        self.sessions.remove(&id).map(|entry| entry.session)
    }

    pub(super) fn remove_all(&mut self, owner: &SessionOwner) -> Vec<Arc<SessionShared>> {
        self.sessions
            .extract_if(.., |_, entry| entry.owner == *owner)
            .map(|(_, entry)| entry.session)
            .collect()
    }

    pub(super) fn running(&self, owner: &SessionOwner) -> Vec<SessionId> {
        let running =
            |entry: &SessionEntry| entry.owner == *owner && entry.session.process.try_exit().is_none();
        self.sessions.iter().filter(|(_, entry)| running(entry)).map(|(id, _)| *id).collect()
    }

    /// Evicts a session if there is no room for one more.
    fn make_room(&mut self, owner: &SessionOwner) -> Result<(), SessionError> {
        let starting = self.starting.get(owner).copied().unwrap_or_default();
        let open = self.sessions.values().filter(|entry| entry.owner == *owner).count();
        if open + starting < self.limits.per_owner {
            return Ok(());
        }
        let evicted = self.to_evict(owner).ok_or(SessionError::TooMany(self.limits.per_owner))?;
        if let Some(entry) = self.sessions.remove(&evicted) {
            entry.session.stop(SessionEnding::Evicted);
        }
        Ok(())
    }

    /// Returns the session to evict: the least recently used one that has ended, else one that no call waits for.
    fn to_evict(&self, owner: &SessionOwner) -> Option<SessionId> {
        self.sessions
            .iter()
            .filter(|(_, entry)| entry.owner == *owner && entry.visits == 0)
            .min_by_key(|(_, entry)| (entry.session.exit().is_none(), entry.used))
            .map(|(id, _)| *id)
    }

    pub(super) fn new_id(&mut self) -> SessionId {
        self.last_id = self.last_id.wrapping_add(1).max(1);
        SessionId(self.last_id)
    }

    fn insert(&mut self, id: SessionId, owner: SessionOwner, new: impl FnOnce(usize) -> SessionPump) {
        // Finished tasks are removed here, so that the set does not grow beyond the table.
        while self.pumps.try_join_next().is_some() {}
        let pump = new(self.limits.buffer);
        let session = pump.session.clone();
        self.pumps.spawn(pump.run());
        let used = self.use_now();
        self.sessions.insert(id, SessionEntry { owner, session, used, visits: 0 });
    }

    /// Returns the entry of a session, or `None` if it was removed. Its id may belong to a later session by now.
    fn entry_of(&mut self, session: &Arc<SessionShared>) -> Option<&mut SessionEntry> {
        self.sessions.get_mut(&session.id).filter(|entry| Arc::ptr_eq(&entry.session, session))
    }

    fn use_now(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }
}

/// A reserved slot for a command that is being started, released if the start fails.
pub(super) struct SessionSlot<'a> {
    table: &'a Mutex<SessionTable>,
    owner: SessionOwner,
}

impl<'a> SessionSlot<'a> {
    pub(super) fn take(
        table: &'a Mutex<SessionTable>,
        owner: &SessionOwner,
    ) -> Result<SessionSlot<'a>, SessionError> {
        let mut locked = table.lock();
        locked.make_room(owner)?;
        *locked.starting.entry(owner.clone()).or_default() += 1;
        Ok(SessionSlot { table, owner: owner.clone() })
    }

    pub(super) fn fill(self, id: SessionId, new: impl FnOnce(usize) -> SessionPump) {
        self.table.lock().insert(id, self.owner.clone(), new);
    }
}

impl Drop for SessionSlot<'_> {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if let Some(count) = table.starting.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                table.starting.remove(&self.owner);
            }
        }
    }
}

/// A call that uses a session. While it lasts, the session is not evicted.
pub(super) struct SessionVisit<'a> {
    table: &'a Mutex<SessionTable>,
    session: Arc<SessionShared>,
}

impl<'a> SessionVisit<'a> {
    pub(super) fn begin(
        table: &'a Mutex<SessionTable>,
        owner: &SessionOwner,
        id: SessionId,
    ) -> Result<SessionVisit<'a>, SessionError> {
        let mut locked = table.lock();
        let used = locked.use_now();
        let entry = locked.sessions.get_mut(&id).filter(|entry| entry.owner == *owner);
        let entry = entry.ok_or(SessionError::Unknown(id))?;
        entry.used = used;
        entry.visits += 1;
        Ok(SessionVisit { table, session: entry.session.clone() })
    }

    pub(super) fn session(&self) -> &SessionShared {
        &self.session
    }

    /// Reports what is new. Removes the session if the report has its exit.
    pub(super) fn report(self, waited: Duration) -> SessionReport {
        // The exit is read first: if it is set, all output is in the buffer.
        let exit = self.session.exit();
        let output = self.session.take_unread();
        let id = self.session.id;
        if exit.is_some() {
            let mut table = self.table.lock();
            if table.entry_of(&self.session).is_some() {
                table.sessions.remove(&id);
            }
        }
        SessionReport { id, output, exit, waited }
    }
}

impl Drop for SessionVisit<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.table.lock().entry_of(&self.session) {
            entry.visits -= 1;
        }
    }
}
