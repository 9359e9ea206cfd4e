//! Where another program does the confining: a command becomes its argument.

use std::{ffi::OsString, process::Command};

/// Replaces `command` by one that `launcher` runs, unless that is empty. What a command does not show of itself is
/// lost.
pub(crate) fn wrap(command: &mut Command, launcher: Vec<OsString>) {
    let Some((program, arguments)) = launcher.split_first() else { return };
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        outer.current_dir(directory);
    }
    *command = outer;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_a_command_shows_of_itself_is_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "true"]).current_dir("/usr").env("A", "1").env_remove("B");
        wrap(&mut command, vec!["/bin/outer".into(), "--".into()]);
        command.arg("last");
        assert_eq!(command.get_program(), "/bin/outer");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["--", "sh", "-c", "true", "last"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/usr")));
        let env: Vec<_> = command.get_envs().collect();
        assert_eq!(env, [("A".as_ref(), Some("1".as_ref())), ("B".as_ref(), None)]);
    }
}
