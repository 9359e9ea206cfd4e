//! Which confinement is to be had on this machine.

use std::sync::OnceLock;

use crate::Kind;
#[cfg(target_os = "linux")]
use crate::linux::Machine;

/// What the machine offers, tried out once. It belongs to the user and the privileges it was made with.
#[derive(Clone, Debug)]
pub struct Probe {
    #[cfg(target_os = "linux")]
    pub(crate) machine: Machine,
}

impl Probe {
    /// Tries everything. Starts a few processes and takes some milliseconds; blocks for so long.
    pub fn run() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            machine: Machine::probe(),
        }
    }

    /// The findings of the first call, for the life of the process.
    pub fn cached() -> &'static Self {
        static FOUND: OnceLock<Probe> = OnceLock::new();
        FOUND.get_or_init(Self::run)
    }

    /// How commands are confined, or why they cannot be.
    #[cfg(target_os = "linux")]
    pub fn kind(&self) -> Result<Kind, String> {
        self.machine.means(&[]).map(|means| means.kind())
    }

    /// How commands are confined, or why they cannot be.
    #[cfg(target_os = "macos")]
    pub fn kind(&self) -> Result<Kind, String> {
        match std::path::Path::new(crate::seatbelt::PROGRAM).is_file() {
            true => Ok(Kind::Seatbelt),
            false => Err(format!("{} is missing", crate::seatbelt::PROGRAM)),
        }
    }

    /// How commands are confined, or why they cannot be.
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    pub fn kind(&self) -> Result<Kind, String> {
        Err("this operating system is not supported".to_owned())
    }

    /// Which confinement is used and why not a better one, for people to read.
    pub fn report(&self) -> String {
        let chosen = match self.kind() {
            Ok(kind) => format!("confinement: {kind}"),
            Err(reason) => format!("confinement: none, commands are refused: {reason}"),
        };
        let mut lines = vec![chosen];
        #[cfg(target_os = "linux")]
        {
            lines.extend(self.machine.lines());
            let gaps = self.machine.means(&[]).map(|means| means.gaps(false)).unwrap_or_default();
            lines.extend(gaps.iter().map(|gap| format!("not stopped: {gap}")));
        }
        lines.join("\n")
    }

    /// Without bubblewrap, even if it works: the built-in confinement starts faster, with fewer namespaces.
    #[must_use]
    pub fn without_bubblewrap(self, reason: &str) -> Self {
        #[cfg(target_os = "linux")]
        let machine = Machine { bubblewrap: Err(reason.to_owned()), ..self.machine };
        #[cfg(not(target_os = "linux"))]
        let _ = reason;
        Self {
            #[cfg(target_os = "linux")]
            machine,
        }
    }

    /// Without a mount namespace of our own: what is left of the built-in confinement is Landlock and seccomp.
    #[must_use]
    pub fn without_namespaces(self, reason: &str) -> Self {
        #[cfg(target_os = "linux")]
        let machine = Machine { namespaces: Err(reason.to_owned()), ..self.machine };
        #[cfg(not(target_os = "linux"))]
        let _ = reason;
        Self {
            #[cfg(target_os = "linux")]
            machine,
        }
    }
}
