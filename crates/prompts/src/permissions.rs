//! The `<permissions instructions>` block.
//!
//! The sandbox enforces the permissions. The text only helps the model to avoid failing commands and needless approval
//! requests. It does not name the working directory, so that it does not change with it.

use std::path::PathBuf;

use codicil_protocol::{AbsolutePathBuf, AskForApproval, NetworkAccess, ReadOnlyAccess, SandboxPolicy};

use crate::{context_snapshot::ContextSnapshot, context_tags};

pub(crate) fn permissions_text(snapshot: &ContextSnapshot) -> String {
    let sandbox = &snapshot.sandbox_policy;
    let is_proxied = snapshot.hosts_by_proxy && !is_open(sandbox);
    let network = if is_proxied { BY_PROXY } else { network(sandbox) };
    let parts = [files(sandbox), network.to_owned(), approval(&snapshot.approval_policy, sandbox)];
    context_tags::wrap(context_tags::PERMISSIONS, &parts.join("\n\n"))
}

/// Returns whether commands run without a sandbox of this server.
fn is_open(sandbox: &SandboxPolicy) -> bool {
    matches!(sandbox, SandboxPolicy::DangerFullAccess | SandboxPolicy::ExternalSandbox { .. })
}

fn files(sandbox: &SandboxPolicy) -> String {
    match sandbox {
        SandboxPolicy::DangerFullAccess => {
            "Files: no sandbox. You can read and write wherever this account can, so take care that \
             only what the task needs is touched."
                .to_owned()
        }
        SandboxPolicy::ExternalSandbox { .. } => {
            "Files: the whole environment is a sandbox made for you. You can read and write everything in it."
                .to_owned()
        }
        SandboxPolicy::ReadOnly { access, .. } => {
            format!("Files: read-only sandbox. {} Commands cannot write anywhere.", readable(access))
        }
        SandboxPolicy::WorkspaceWrite { read_only_access, .. } => format!(
            "Files: workspace-write sandbox. {} You can write in {}, and nowhere else.",
            readable(read_only_access),
            writable(sandbox)
        ),
        SandboxPolicy::Unrecognized(_) => {
            "Files: a sandbox of an unknown kind. Expect that you can read but not write.".to_owned()
        }
    }
}

fn readable(access: &ReadOnlyAccess) -> String {
    match access {
        ReadOnlyAccess::FullAccess => "You can read all files.".to_owned(),
        ReadOnlyAccess::Restricted { include_platform_defaults, readable_roots } => {
            let mut places = vec!["the working directory".to_owned()];
            places.extend(readable_roots.iter().map(shown));
            if *include_platform_defaults {
                places.push("the system's own programs and libraries".to_owned());
            }
            format!("You can read {}, and nothing else.", list(&places))
        }
        ReadOnlyAccess::Unrecognized(_) => "You may not be able to read all files.".to_owned(),
    }
}

fn writable(sandbox: &SandboxPolicy) -> String {
    let mut places = vec!["the working directory".to_owned()];
    if let SandboxPolicy::WorkspaceWrite {
        writable_roots, exclude_slash_tmp, exclude_tmpdir_env_var, ..
    } = sandbox
    {
        places.extend(writable_roots.iter().map(shown));
        places.extend((!exclude_slash_tmp).then(|| "/tmp".to_owned()));
        places.extend((!exclude_tmpdir_env_var).then(|| "$TMPDIR".to_owned()));
    }
    list(&places)
}

fn shown(path: &AbsolutePathBuf) -> String {
    format!("`{}`", context_tags::escape(&PathBuf::from(&**path).to_string_lossy()))
}

fn list(places: &[String]) -> String {
    match places {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        _ => places.concat(),
    }
}

const BY_PROXY: &str = "Network: commands reach hosts through a proxy that the environment names (`HTTP_PROXY` and \
    the like), and by no other way. Hosts that nobody has allowed yet are decided about when a command wants to \
    reach them; just run it. One that was refused stays refused: do not look for a way around.";

fn network(sandbox: &SandboxPolicy) -> &'static str {
    let is_open = match sandbox {
        SandboxPolicy::DangerFullAccess => true,
        SandboxPolicy::ReadOnly { network_access, .. }
        | SandboxPolicy::WorkspaceWrite { network_access, .. } => *network_access,
        SandboxPolicy::ExternalSandbox { network_access } => *network_access == NetworkAccess::Enabled,
        SandboxPolicy::Unrecognized(_) => false,
    };
    if is_open {
        "Network: commands can use it."
    } else {
        "Network: commands cannot use it. Downloads, package installs and remote calls will fail."
    }
}

fn approval(policy: &AskForApproval, sandbox: &SandboxPolicy) -> String {
    match policy {
        AskForApproval::Never => format!("{NEVER} {NO_ANSWER}"),
        AskForApproval::OnFailure if is_open(sandbox) => OPEN.to_owned(),
        AskForApproval::OnFailure => format!("{ON_FAILURE} {DECLINED}"),
        AskForApproval::Untrusted if is_open(sandbox) => format!("{UNTRUSTED} {DECLINED}"),
        AskForApproval::Untrusted => format!("{UNTRUSTED} {DECLINED}\n\n{HOW_TO_ASK}"),
        AskForApproval::OnRequest if is_open(sandbox) => OPEN.to_owned(),
        AskForApproval::OnRequest => format!("{ON_REQUEST} {DECLINED}\n\n{HOW_TO_ASK}"),
        AskForApproval::Granular {
            sandbox_approval,
            rules,
            skill_approval,
            request_permissions,
            mcp_elicitations,
        } => {
            let kinds = [
                ("commands that want to leave the sandbox", *sandbox_approval),
                ("commands that a rule says to ask about", *rules),
                ("scripts of skills", *skill_approval),
                ("requests for more permissions", *request_permissions),
                ("questions of MCP servers", *mcp_elicitations),
            ];
            granular(&kinds, *sandbox_approval && !is_open(sandbox))
        }
        AskForApproval::Unrecognized(_) => {
            format!("Approval: a policy of an unknown kind. Commands may be refused. {NO_ANSWER}")
        }
    }
}

fn granular(kinds: &[(&str, bool)], can_leave: bool) -> String {
    let named = |wanted: bool| {
        let names: Vec<_> =
            kinds.iter().filter(|(_, asked)| *asked == wanted).map(|(name, _)| (*name).to_owned()).collect();
        list(&names)
    };
    let mut text = "Approval: it depends on what is asked.".to_owned();
    for (names, verdict) in
        [(named(true), "The person decides on"), (named(false), "Refused without asking:")]
    {
        if !names.is_empty() {
            text.push_str(&format!("\n- {verdict} {names}."));
        }
    }
    if can_leave {
        text.push_str(&format!("\n\n{HOW_TO_ASK}"));
    }
    text
}

const NEVER: &str =
    "Approval: nobody can be asked. Do not set `sandbox_permissions`; such calls are refused.";

const NO_ANSWER: &str = "\
    Get as far as you can within these limits: find another way where one is barred, check your work all the \
    same, and say in your answer what could not be done and what it would take.";

const OPEN: &str = "\
    Approval: commands run without a question, so there is nothing to ask for. Do not set \
    `sandbox_permissions`.";

const ON_FAILURE: &str = "\
    Approval: commands run in the sandbox. When it stops one, the person is asked whether to run it again \
    without, so do not ask in advance.";

const UNTRUSTED: &str = "\
    Approval: commands known to only read run at once. The person sees every other one first and decides. So \
    keep commands simple and self-explanatory, and do not hide several acts in one line.";

const ON_REQUEST: &str = "\
    Approval: commands run in the sandbox without a question. A command that has to leave it needs the \
    person's consent, and you ask for that with the call itself.";

const DECLINED: &str =
    "A refusal is an answer: do not repeat the command in another guise, go another way or stop.";

const HOW_TO_ASK: &str = "\
    To ask, call the command tool with `sandbox_permissions` set to `require_escalated` and `justification` \
    set to one short question to the person, such as \"May I download the dependencies of this project?\". \
    Do not ask in a message first.\n\
    - Ask when the task needs a write elsewhere, the network or a display, or when a command you need failed \
    and the sandbox is the likely cause.\n\
    - Ask before anything destructive that was not requested.\n\
    - Do not ask for what works inside, and do not bend the task to avoid asking.\n\
    - `apply_patch` needs none of this: a patch that reaches beyond these limits is shown to the person as \
    it is.\n\
    - `prefix_rule` may name the beginning of a command that the person can allow for good, such as \
    [\"cargo\", \"test\"]. Keep it narrow: never a shell or an interpreter alone, and none for destructive \
    commands.";
