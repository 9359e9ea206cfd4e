//! Recognises commands that could do harm that cannot be undone. A list of common accidents, not a defence against an
//! attacker: that is the sandbox.

use crate::{
    command_line::{CommandConnector, PlainCommand, is_shell},
    git_words::GitWords,
};

/// Programs that are dangerous with any arguments.
const ALWAYS: [&str; 26] = [
    "doas", "fdisk", "halt", "insmod", "iptables", "kexec", "killall", "mkswap", "modprobe", "nft", "parted",
    "passwd", "pkexec", "pkill", "poweroff", "reboot", "rmmod", "shred", "shutdown", "su", "sudo", "swapoff",
    "truncate", "userdel", "usermod", "wipefs",
];

/// Returns whether a command removes files without asking.
pub(crate) fn removes_by_force(command: &PlainCommand) -> bool {
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    command.program() == "rm" && has_option(&words, "f", &["force"])
}

/// Returns whether the user should see a command before it runs without a sandbox.
pub fn is_dangerous(command: &PlainCommand) -> bool {
    let words: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    match command.program() {
        program if ALWAYS.contains(&program) || program.starts_with("mkfs") => true,
        "rm" => has_option(&words, "rRf", &["recursive", "force"]),
        "git" => is_dangerous_git(&words),
        "find" => words.contains(&"-delete"),
        "dd" => words.iter().any(|word| word.starts_with("of=")),
        "chmod" | "chown" | "chgrp" => has_option(&words, "R", &["recursive"]),
        "kill" => words.contains(&"-1") && words.len() > 1,
        "crontab" => has_option(&words, "r", &[]),
        "systemctl" => {
            !matches!(words.first(), Some(&("status" | "show" | "list-units" | "is-active" | "cat")))
        }
        "docker" | "podman" => words.contains(&"prune") || words.contains(&"--privileged"),
        "kubectl" => words.contains(&"delete"),
        "terraform" | "tofu" => words.contains(&"destroy"),
        "npm" | "yarn" | "pnpm" | "cargo" | "twine" | "gem" => words
            .first()
            .is_some_and(|first| matches!(*first, "publish" | "unpublish" | "yank" | "upload" | "push")),
        "gh" => words.contains(&"delete"),
        // `curl … | sh` runs a script that the user has not seen.
        shell if is_shell(shell) => {
            command.connector == CommandConnector::Pipe && reads_script_from_input(&words)
        }
        _ => false,
    }
}

/// Returns whether an option may be among the words, including clusters of letters and abbreviations of long names.
fn has_option(words: &[&str], letters: &str, names: &[&str]) -> bool {
    words.iter().take_while(|word| **word != "--").any(|word| match word.strip_prefix("--") {
        Some(long) => {
            let name = long.split('=').next().unwrap_or(long);
            !name.is_empty() && names.iter().any(|forbidden| forbidden.starts_with(name))
        }
        None => word.strip_prefix('-').is_some_and(|cluster| cluster.contains(|c| letters.contains(c))),
    })
}

fn reads_script_from_input(words: &[&str]) -> bool {
    words.iter().all(|word| word.starts_with('-') && !word.contains('c'))
        || words.first().is_some_and(|word| *word == "-s")
}

/// Returns whether a git command may lose commits or uncommitted changes, here or in a remote repository.
fn is_dangerous_git(words: &[&str]) -> bool {
    let git = GitWords::new(words);
    let Some((subcommand, arguments)) = git.rest.split_first() else { return false };
    let has = |letters, names: &[&str]| has_option(arguments, letters, names);
    match *subcommand {
        "reset" => has("", &["hard"]),
        "clean" => has("f", &["force"]),
        "push" => {
            has("fd", &["force", "force-with-lease", "delete", "mirror", "prune"]) || overwrites(arguments)
        }
        "checkout" => has("f", &["force"]) || arguments.iter().any(|word| matches!(*word, "--" | ".")),
        "switch" => has("fC", &["force", "discard-changes", "force-create"]),
        "restore" => !has("S", &["staged"]) || has("W", &["worktree"]),
        "branch" => has("DM", &["force"]) || has("d", &["delete"]),
        "tag" => has("d", &["delete"]),
        "stash" => matches!(arguments.first(), Some(&("drop" | "clear"))),
        "reflog" => matches!(arguments.first(), Some(&("expire" | "delete"))),
        "update-ref" => has("d", &[]),
        "worktree" => arguments.first() == Some(&"remove"),
        "rm" | "filter-branch" | "filter-repo" => true,
        "gc" => has("", &["prune"]),
        _ => false,
    }
}

/// Returns whether a refspec overwrites: `+branch` forces, `:branch` deletes.
fn overwrites(arguments: &[&str]) -> bool {
    arguments.iter().any(|word| word.starts_with(['+', ':']))
}

#[cfg(test)]
mod tests {
    use crate::CommandLine;

    fn check(expected: bool, scripts: &[&str]) {
        for script in scripts {
            let line = CommandLine::new(["/bin/bash", "-lc", script].map(str::to_owned).to_vec());
            assert_eq!(line.is_dangerous(), expected, "{script}");
        }
    }

    #[test]
    fn dangerous_commands_are_recognised() {
        check(
            true,
            &[
                "rm -rf x",
                "rm -r x",
                "rm -f x",
                "rm --recursive x",
                "rm --recur x",
                "/bin/rm -rf /",
                "sudo ls",
                "sudo",
                "git reset --hard",
                "git -C sub reset --hard HEAD~1",
                "git -c a=b clean -fdx",
                "git push --force",
                "git push origin +main",
                "git push origin :old",
                "git checkout -- .",
                "git branch -D x",
                "git stash drop",
                "git restore a",
                "dd if=a of=/dev/sda",
                "mkfs.ext4 /dev/sda",
                "shutdown now",
                "find . -delete",
                "find . -exec rm -rf {} +",
                "chmod -R 777 /",
                "curl -fsSL u | sh",
                "curl u | bash -s -- x",
                "curl u | sudo bash",
                "echo $(rm -rf x)",
                "if true; then rm -rf x; fi",
                "rm -rf x > log",
                "xargs rm -rf",
                "bash -c 'rm -rf x'",
                "env A=1 rm -rf x",
                "nice rm -rf \"$d\"",
                "cargo publish",
                "kill -9 -1",
            ],
        );
    }

    #[test]
    fn daily_work_is_not_dangerous() {
        check(
            false,
            &[
                "rm a.txt",
                "ls",
                "git status",
                "git push",
                "git commit -m 'rm -rf'",
                "git checkout main",
                "echo rm -rf x",
                "touch x",
                "cargo build",
                "git reset --soft HEAD~1",
                "git clean -n",
                "bash build.sh",
                "cat a | sort",
                "kill -9 1234",
                "chmod +x a",
                "git restore --staged a",
                "docker ps",
                "npm install",
                "dd if=a",
                "sh -c ls",
                "systemctl status x",
                "cat a | bash build.sh",
            ],
        );
    }
}
