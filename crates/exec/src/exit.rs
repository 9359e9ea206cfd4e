//! How a process ended, and the exit code that clients see.

/// How a process ended. A command that fails is a result, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it. After [`crate::ProcessHandle::terminate`] this is `Signal(9)`.
    Signal(i32),
    /// It was killed because [`crate::ProcessSpec::timeout`] expired.
    TimedOut,
    /// Its status could not be read.
    Unknown,
}

impl ProcessExit {
    /// Returns the exit code that a shell would report: 128 + n for signal n (137 for `SIGKILL`), 124 after a timeout.
    pub fn code(self) -> i32 {
        match self {
            ProcessExit::Code(code) => code,
            ProcessExit::Signal(signal) => 128_i32.saturating_add(signal),
            ProcessExit::TimedOut => 124,
            ProcessExit::Unknown => -1,
        }
    }

    /// Converts a status from `waitpid`.
    pub(crate) fn from_wait_status(status: i32) -> ProcessExit {
        if libc::WIFSIGNALED(status) {
            ProcessExit::Signal(libc::WTERMSIG(status))
        } else {
            ProcessExit::Code(libc::WEXITSTATUS(status))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_shell_convention() {
        let check = |exit: ProcessExit, code: i32| assert_eq!(exit.code(), code, "{exit:?}");
        check(ProcessExit::Code(0), 0);
        check(ProcessExit::Code(7), 7);
        check(ProcessExit::Signal(9), 137);
        check(ProcessExit::Signal(15), 143);
        check(ProcessExit::TimedOut, 124);
        check(ProcessExit::Unknown, -1);
    }
}
