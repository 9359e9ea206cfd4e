//! Everyday tools work in a confined workspace. One that is missing is skipped by name.

use std::process::Command;

use crate::{
    place::Place,
    with::{User, everywhere, run, skipped, succeeds},
};

/// Whether a program answers at all, as the user in question: one in root's home does not for others.
fn has(program: &str, user: User) -> bool {
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
    everywhere(|with, user| {
        if !has("git", user) {
            return;
        }
        let place = Place::new(user, &[]);
        place.write("workspace/file", "text");
        place.own();
        let git = |line: &str| {
            let mut command = Command::new("git");
            let settings = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"];
            user.become_in(command.args(settings).args(line.split(' ')).current_dir(place.workspace()));
            assert!(command.env("HOME", place.path("tmpdir")).output().unwrap().status.success(), "{line}");
        };
        git("init");
        git("add file");
        git("commit -m one");
        let home = format!("HOME={}", place.path("tmpdir").display());
        let status = run(&place, with, &[], &["env", &home, "git", "status", "--porcelain"]);
        assert!(status.status.success() && status.stdout.is_empty(), "{with:?} {status:?}");
        assert!(succeeds(&place, with, &[], &format!("{home} git log | grep -q one")), "{with:?}");
        assert!(succeeds(&place, with, &[], "echo changed > file"), "{with:?}");
        let status = run(&place, with, &[], &["env", &home, "git", "status", "--porcelain"]);
        assert_eq!(status.stdout, b" M file\n", "{with:?} {status:?}");
        for line in ["git add file", "git config user.name y", "git branch other", "git stash"] {
            assert!(!succeeds(&place, with, &[], &format!("{home} {line}")), "{with:?} {line}");
        }
    });
}

#[test]
fn a_c_program_is_compiled_and_run() {
    everywhere(|with, user| {
        if !has("cc", user) {
            return;
        }
        let place = Place::new(user, &[]);
        place.write(
            "workspace/hello.c",
            "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n",
        );
        place.own();
        let output = run(&place, with, &[], &["sh", "-c", "cc -o hello hello.c && ./hello"]);
        assert_eq!(output.stdout, b"hello\n", "{with:?} {output:?}");
        assert!(!succeeds(&place, with, &["--read-only"], "cc -o other hello.c"), "{with:?}");
    });
}

#[test]
fn make_and_tar_work() {
    everywhere(|with, user| {
        if !has("make", user) || !has("tar", user) {
            return;
        }
        let place = Place::new(user, &[]);
        place.write("workspace/Makefile", "all: a.tar\na.tar: a b\n\ttar cf $@ $^\na b:\n\techo $@ > $@\n");
        place.own();
        let script = "make -j2 -s && mkdir x && tar xf a.tar -C x && cat x/a x/b";
        let output = run(&place, with, &[], &["sh", "-c", script]);
        assert_eq!(output.stdout, b"a\nb\n", "{with:?} {output:?}");
    });
}
