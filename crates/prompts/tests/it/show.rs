//! Readable forms of messages, and the context that most tests start from.

use codicil_prompts::ContextSnapshot;
use codicil_protocol::{AskForApproval, ContentItem, ReadOnlyAccess, ResponseItem, SandboxPolicy};

pub fn snapshot() -> ContextSnapshot {
    ContextSnapshot {
        hosts_by_proxy: false,
        model: "gpt-5.1-codex".to_owned(),
        has_environment: true,
        cwd: "/home/ada/app".to_owned(),
        approval_policy: AskForApproval::OnRequest,
        sandbox_policy: SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false },
        personality: None,
        collaboration_mode: None,
        shell: "bash".to_owned(),
        current_date: "2026-11-15".to_owned(),
        timezone: "Europe/Berlin".to_owned(),
        agents_md: None,
        developer_instructions: None,
    }
}

/// Returns the role and the full text of each message.
pub fn full(items: &[ResponseItem]) -> String {
    show(items, |text| format!("{text}\n"))
}

/// Returns the role and the first line of each part of each message.
pub fn outline(items: &[ResponseItem]) -> String {
    show(items, |text| format!("  {}\n", text.lines().next().unwrap_or_default()))
}

fn show(items: &[ResponseItem], text: impl Fn(&str) -> String) -> String {
    let mut shown = String::new();
    for item in items {
        let ResponseItem::Message { role, content, .. } = item else { panic!("not a message") };
        shown.push_str(&format!("[{role}]\n"));
        for part in content {
            shown.push_str(&match part {
                ContentItem::InputText { text: part } => text(part),
                ContentItem::InputImage { source, .. } => {
                    format!("  (image {})\n", source.url().unwrap_or("by id"))
                }
                ContentItem::InputAudio { audio_url } => format!("  (audio {audio_url})\n"),
                other => format!("  {other:?}\n"),
            });
        }
    }
    shown
}
