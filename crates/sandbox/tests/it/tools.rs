//! Common tools work in a confined workspace. Prints which ones are skipped because they are missing.

use std::process::Command;

use crate::{
    backend::{User, for_each_backend, run, skipped, succeeds},
    test_tree::TestTree,
};

/// Returns whether the user can run a program. One in root's home cannot be run by others.
fn can_run(program: &str, user: User) -> bool {
    let mut command = Command::new(program);
    user.become_in(command.arg("--version").current_dir("/"));
    let found = command.output().is_ok_and(|output| output.status.success());
    if !found {
        skipped(format!("there is no {program} for {user:?}"));
    }
    found
}

#[test]
fn git_reads_a_repository_and_cannot_write_it() {
    for_each_backend(|backend, user| {
        if !can_run("git", user) {
            return;
        }
        let tree = TestTree::new(user, &[]);
        tree.write("workspace/file", "text");
        tree.own();
        let git = |line: &str| {
            let mut command = Command::new("git");
            let settings = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"];
            user.become_in(command.args(settings).args(line.split(' ')).current_dir(tree.workspace()));
            assert!(command.env("HOME", tree.path("tmpdir")).output().unwrap().status.success(), "{line}");
        };
        git("init");
        git("add file");
        git("commit -m one");
        let home = format!("HOME={}", tree.path("tmpdir").display());
        let status = run(&tree, backend, &[], &["env", &home, "git", "status", "--porcelain"]);
        assert!(status.status.success() && status.stdout.is_empty(), "{backend:?} {status:?}");
        assert!(succeeds(&tree, backend, &[], &format!("{home} git log | grep -q one")), "{backend:?}");
        assert!(succeeds(&tree, backend, &[], "echo changed > file"), "{backend:?}");
        let status = run(&tree, backend, &[], &["env", &home, "git", "status", "--porcelain"]);
        assert_eq!(status.stdout, b" M file\n", "{backend:?} {status:?}");
        for line in ["git add file", "git config user.name y", "git branch other", "git stash"] {
            assert!(!succeeds(&tree, backend, &[], &format!("{home} {line}")), "{backend:?} {line}");
        }
    });
}

#[test]
fn a_c_program_is_compiled_and_run() {
    for_each_backend(|backend, user| {
        if !can_run("cc", user) {
            return;
        }
        let tree = TestTree::new(user, &[]);
        tree.write(
            "workspace/hello.c",
            "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
        );
        tree.own();
        let output = run(&tree, backend, &[], &["sh", "-c", "cc -o hello hello.c && ./hello"]);
        assert_eq!(output.stdout, b"hello\n", "{backend:?} {output:?}");
        assert!(!succeeds(&tree, backend, &["--read-only"], "cc -o other hello.c"), "{backend:?}");
    });
}

#[test]
fn make_and_tar_work() {
    for_each_backend(|backend, user| {
        if !can_run("make", user) || !can_run("tar", user) {
            return;
        }
        let tree = TestTree::new(user, &[]);
        tree.write("workspace/Makefile", "all: a.tar\na.tar: a b\n\ttar cf $@ $^\na b:\n\techo $@ > $@\n");
        tree.own();
        let script = "make -j2 -s && mkdir x && tar xf a.tar -C x && cat x/a x/b";
        let output = run(&tree, backend, &[], &["sh", "-c", script]);
        assert_eq!(output.stdout, b"a\nb\n", "{backend:?} {output:?}");
    });
}
