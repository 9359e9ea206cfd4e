//! Permissions that the user has granted for the rest of a turn or thread.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use codicil_protocol::PermissionGrantScope;

use crate::{
    decide::{AccessGrant, CommandQuestion, CommandRequest, NetworkDestination, SandboxPermissions},
    network::HostName,
    rules::protocol_name,
};

/// Commands, files, hosts and permissions that need no further question. Lives as long as its thread.
#[derive(Clone, Debug, Default)]
pub struct ThreadGrants {
    commands: BTreeSet<GrantedCommand>,
    files: BTreeSet<PathBuf>,
    allowed_hosts: BTreeSet<GrantedPort>,
    denied_hosts: BTreeSet<GrantedPort>,
    /// Permissions for the rest of the thread.
    session: AccessGrant,
    /// Permissions for the rest of the turn.
    turn: AccessGrant,
}

/// An accepted command. The same words in another directory, or without a sandbox, are another command.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GrantedCommand {
    argv: Vec<String>,
    cwd: PathBuf,
    sandboxed: bool,
}

/// A host that was decided about, with port and protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GrantedPort {
    host: HostName,
    port: u16,
    protocol: &'static str,
}

impl ThreadGrants {
    /// Records that a command was accepted for the session.
    pub fn accept_command(&mut self, request: &CommandRequest<'_>, question: &CommandQuestion) {
        if let SandboxPermissions::WithAdditional(access) = request.permissions {
            self.session.extend(access);
        }
        self.commands.insert(GrantedCommand::new(request, question.sandboxed));
    }

    /// Records granted permissions, which the caller has limited to the requested ones.
    pub fn accept_access(&mut self, granted: &AccessGrant, scope: PermissionGrantScope) {
        match scope {
            PermissionGrantScope::Turn => self.turn.extend(granted),
            PermissionGrantScope::Session => self.session.extend(granted),
        }
    }

    /// Returns the permissions that every sandboxed command and every patch has now.
    pub fn access(&self) -> AccessGrant {
        let mut access = self.session.clone();
        access.extend(&self.turn);
        access
    }

    /// Removes the permissions that were granted for the turn.
    pub fn end_turn(&mut self) {
        self.turn = AccessGrant::default();
    }

    /// Records that changes to files were accepted for the session.
    pub fn accept_files<'a>(&mut self, paths: impl IntoIterator<Item = &'a Path>) {
        self.files.extend(paths.into_iter().map(Path::to_path_buf));
    }

    pub(super) fn allow_host(&mut self, to: &NetworkDestination) {
        self.denied_hosts.remove(&GrantedPort::new(to));
        self.allowed_hosts.insert(GrantedPort::new(to));
    }

    pub(super) fn deny_host(&mut self, to: &NetworkDestination) {
        self.allowed_hosts.remove(&GrantedPort::new(to));
        self.denied_hosts.insert(GrantedPort::new(to));
    }

    pub(super) fn allows_host(&self, to: &NetworkDestination) -> bool {
        self.allowed_hosts.contains(&GrantedPort::new(to))
    }

    pub(super) fn denies_host(&self, to: &NetworkDestination) -> bool {
        self.denied_hosts.contains(&GrantedPort::new(to))
    }

    /// Returns whether the user has accepted the command for the session. One accepted without a sandbox may also run in it.
    pub(super) fn covers(&self, request: &CommandRequest<'_>, sandboxed: bool) -> bool {
        let has = |sandboxed| self.commands.contains(&GrantedCommand::new(request, sandboxed));
        let is_granted = has(false) || (sandboxed && has(true));
        // Permissions are stored apart from the command, because it may request more the next time.
        let access = match request.permissions {
            SandboxPermissions::WithAdditional(access) => self.access().covers(access),
            SandboxPermissions::UseDefault | SandboxPermissions::RequireEscalated => true,
        };
        is_granted && access
    }

    pub(super) fn covers_file(&self, path: &Path) -> bool {
        self.files.contains(path)
    }
}

impl GrantedPort {
    fn new(to: &NetworkDestination) -> Self {
        Self { host: to.host.clone(), port: to.port, protocol: protocol_name(&to.protocol) }
    }
}

impl GrantedCommand {
    fn new(request: &CommandRequest<'_>, sandboxed: bool) -> Self {
        Self { argv: request.line.argv().to_vec(), cwd: request.cwd.to_owned(), sandboxed }
    }
}
