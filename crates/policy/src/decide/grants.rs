//! What people have agreed to for the rest of a thread.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use codicil_protocol::PermissionGrantScope;

use crate::{
    decide::{Access, CommandRequest, Destination, Question, SandboxPermissions},
    network::Host,
    rules::protocol_name,
};

/// Commands, files and permissions that need not be asked about again. Lives as long as its thread.
#[derive(Clone, Debug, Default)]
pub struct Grants {
    commands: BTreeSet<Command>,
    files: BTreeSet<PathBuf>,
    /// Hosts that may be reached, and hosts that may not.
    allowed_hosts: BTreeSet<Port>,
    denied_hosts: BTreeSet<Port>,
    /// Permissions for the rest of the thread.
    session: Access,
    /// Permissions for the rest of the turn.
    turn: Access,
}

/// The same words elsewhere are another command, and so are the same words without a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Command {
    argv: Vec<String>,
    cwd: PathBuf,
    sandboxed: bool,
}

/// Another port of a host is another matter, and so is another protocol.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Port {
    host: Host,
    port: u16,
    protocol: &'static str,
}

impl Grants {
    /// Takes note that a command was accepted for the session.
    pub fn accept_command(&mut self, request: &CommandRequest<'_>, question: &Question) {
        if let SandboxPermissions::WithAdditional(access) = request.permissions {
            self.session.extend(access);
        }
        self.commands.insert(Command::new(request, question.sandboxed));
    }

    /// Takes note of permissions that were granted, cut to what was asked for.
    pub fn accept_access(&mut self, granted: &Access, scope: PermissionGrantScope) {
        match scope {
            PermissionGrantScope::Turn => self.turn.extend(granted),
            PermissionGrantScope::Session => self.session.extend(granted),
        }
    }

    /// The permissions that every sandboxed command and every patch has for now, without asking for them.
    pub fn access(&self) -> Access {
        let mut access = self.session.clone();
        access.extend(&self.turn);
        access
    }

    /// Forgets what was granted for the turn.
    pub fn end_turn(&mut self) {
        self.turn = Access::default();
    }

    /// Takes note that changes to files were accepted for the session.
    pub fn accept_files<'a>(&mut self, places: impl IntoIterator<Item = &'a Path>) {
        self.files.extend(places.into_iter().map(Path::to_path_buf));
    }

    /// Takes note that a host may be reached.
    pub(super) fn allow_host(&mut self, to: &Destination) {
        self.denied_hosts.remove(&Port::new(to));
        self.allowed_hosts.insert(Port::new(to));
    }

    /// Takes note that it may not.
    pub(super) fn deny_host(&mut self, to: &Destination) {
        self.allowed_hosts.remove(&Port::new(to));
        self.denied_hosts.insert(Port::new(to));
    }

    pub(super) fn allows_host(&self, to: &Destination) -> bool {
        self.allowed_hosts.contains(&Port::new(to))
    }

    pub(super) fn denies_host(&self, to: &Destination) -> bool {
        self.denied_hosts.contains(&Port::new(to))
    }

    /// Whether the command may run like this. Who may do without the sandbox may also run in it.
    pub(super) fn covers(&self, request: &CommandRequest<'_>, sandboxed: bool) -> bool {
        let has = |sandboxed| self.commands.contains(&Command::new(request, sandboxed));
        let is_granted = has(false) || (sandboxed && has(true));
        // Permissions are remembered apart from the command: another time it may ask for more.
        let access = match request.permissions {
            SandboxPermissions::WithAdditional(access) => self.access().covers(access),
            SandboxPermissions::UseDefault | SandboxPermissions::RequireEscalated => true,
        };
        is_granted && access
    }

    pub(super) fn covers_file(&self, place: &Path) -> bool {
        self.files.contains(place)
    }
}

impl Port {
    fn new(to: &Destination) -> Self {
        Self { host: to.host.clone(), port: to.port, protocol: protocol_name(&to.protocol) }
    }
}

impl Command {
    fn new(request: &CommandRequest<'_>, sandboxed: bool) -> Self {
        Self { argv: request.line.argv().to_vec(), cwd: request.cwd.to_owned(), sandboxed }
    }
}
