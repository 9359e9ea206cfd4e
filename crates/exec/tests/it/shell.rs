//! The user's shell runs command lines.

use codicil_exec::{ProcessExit, ProcessSpec, ShellStart, UserShell, display};

use crate::support::{environment, run};

#[tokio::test]
async fn the_users_shell_runs_lines_with_and_without_the_profile() {
    let shell = tokio::task::spawn_blocking(UserShell::of_user).await.unwrap();
    assert!(shell.path().is_absolute() && shell.path().exists(), "{shell:?}");

    // The profile of the user who runs the tests must not matter.
    let home = tempfile::tempdir().unwrap();
    let mut env = environment();
    env.insert("HOME".into(), home.path().into());
    for start in [ShellStart::Login, ShellStart::Plain] {
        let argv = shell.argv("echo one && exit 3", start);
        let done = run(ProcessSpec::new(&argv, "/", env.clone())).await;
        assert_eq!(done.exit, ProcessExit::Code(3), "{}", display(&argv));
        assert!(done.stdout.into_bytes().ends_with(b"one\n"));
    }
}

#[tokio::test]
async fn a_displayed_command_can_be_run() {
    for line in ["echo it's", "printf 'a\\nb'", "echo \"$0\" !x ^y", "echo $((1+1)) `echo z`; echo ä"] {
        let argv = UserShell::at("/bin/sh").argv(line, ShellStart::Plain);
        let direct = run(ProcessSpec::new(&argv, "/", environment())).await;
        let shown = run(ProcessSpec::new(["/bin/sh", "-c", &display(&argv)], "/", environment())).await;
        assert_eq!(direct.stdout.into_bytes(), shown.stdout.into_bytes(), "{line}");
        assert_eq!(direct.exit, shown.exit, "{line}");
    }
}
