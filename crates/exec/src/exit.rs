//! How a process ended, and the number that is told about it.

/// How a process ended. A command that fails is a result, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// It ended by itself with this code.
    Code(i32),
    /// A signal ended it; after [`crate::ProcessHandle::terminate`] this is `Signal(9)`.
    Signal(i32),
    /// It was ended because [`crate::ProcessSpec::timeout`] was over.
    TimedOut,
    /// Another part of the program waited for the process first and took its status.
    Unknown,
}

impl ProcessExit {
    /// The exit code a shell would tell: 128 + n for signal n (137 for `SIGKILL`), 124 after a timeout.
    pub fn code(self) -> i32 {
        match self {
            ProcessExit::Code(code) => code,
            ProcessExit::Signal(signal) => 128_i32.saturating_add(signal),
            ProcessExit::TimedOut => 124,
            ProcessExit::Unknown => -1,
        }
    }

    /// True for an exit with code 0 and nothing else.
    pub fn success(self) -> bool {
        self == ProcessExit::Code(0)
    }

    /// From what `waitpid` says.
    pub(crate) fn from_wait_status(status: i32) -> ProcessExit {
        match libc::WIFSIGNALED(status) {
            true => ProcessExit::Signal(libc::WTERMSIG(status)),
            false => ProcessExit::Code(libc::WEXITSTATUS(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        let check = |exit: ProcessExit, code: i32| assert_eq!(exit.code(), code, "{exit:?}");
        check(ProcessExit::Code(0), 0);
        check(ProcessExit::Code(7), 7);
        check(ProcessExit::Signal(9), 137);
        check(ProcessExit::Signal(15), 143);
        check(ProcessExit::TimedOut, 124);
        check(ProcessExit::Unknown, -1);
    }
}
