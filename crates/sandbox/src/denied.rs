//! Guesses whether a command failed because of its sandbox.

/// What programs print when the system refuses a request. Lower case.
const SIGNS: &[&str] = &[
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "network is unreachable",
    "could not resolve host",
    "temporary failure in name resolution",
    "name or service not known",
    "bwrap:",
    "seccomp",
    "landlock",
    "sandbox-exec",
];

/// The exit code of a shell that did not find the program. Its "permission denied" is 126 and may be the sandbox.
const NOT_FOUND: i32 = 127;

/// The exit code that a shell reports for `SIGSYS`: a system call of a foreign architecture.
const BAD_SYSTEM_CALL: i32 = 128 + 31;

/// Returns whether the sandbox probably made a command fail, so that the user may be asked to run it again without. A
/// guess from the exit code and the end of standard error, which can be wrong in both directions.
pub fn looks_denied(exit_code: i32, stderr_tail: &str) -> bool {
    match exit_code {
        0 | NOT_FOUND => false,
        BAD_SYSTEM_CALL => true,
        _ => {
            let text = stderr_tail.to_lowercase();
            SIGNS.iter().any(|sign| text.contains(sign))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_and_error_text_decide() {
        let check = |code, text, expected| assert_eq!(looks_denied(code, text), expected, "{code} {text}");
        check(1, "touch: cannot touch '/etc/x': Read-only file system", true);
        check(1, "sh: 1: cannot create /etc/x: Permission denied", true);
        check(126, "bash: ./tool: Permission denied", true);
        check(6, "curl: (6) Could not resolve host: example.org", true);
        check(101, "Os { code: 1, kind: PermissionDenied, message: \"Operation not permitted\" }", true);
        check(1, "Error: EROFS: read-only file system, open '/x'", true);
        check(159, "", true);
        check(0, "warning: permission denied", false);
        check(127, "sandbox-tool: command not found", false);
        check(1, "error: test failed", false);
        check(-1, "", false);
    }
}
