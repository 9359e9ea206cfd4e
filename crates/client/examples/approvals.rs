//! Decides with a rule which commands and edits the agent may carry out. Runs offline with the scripted model:
//!
//! ```sh
//! cargo build && cargo run -p codicil-client --example approvals -- target/debug/codicil
//! ```

use codicil_client::{
    ApprovalDecision, ApprovalRequest, Client, ServerLaunch, ask,
    protocol::{AskForApproval, ThreadStartParams},
    turn,
};

/// Approves listing the directory and all edits; declines everything else.
async fn decide(approval: ApprovalRequest) -> ApprovalDecision {
    let (action, decision) = match &approval {
        ApprovalRequest::Command(params) => {
            let command = params.command.as_deref().unwrap_or("something on the network");
            let is_listing = command.contains("ls -A");
            let decision = if is_listing { ApprovalDecision::Accept } else { ApprovalDecision::Decline };
            (format!("run {command}"), decision)
        }
        ApprovalRequest::FileChange(edits) => {
            let paths: Vec<_> = edits.changes.iter().map(|change| change.path.as_str()).collect();
            (format!("edit {}", paths.join(", ")), ApprovalDecision::Accept)
        }
        ApprovalRequest::Permissions(_) => ("have more permissions".to_owned(), ApprovalDecision::Decline),
        ApprovalRequest::Elicitation(_) => ("answer an MCP server".to_owned(), ApprovalDecision::Decline),
    };
    println!("The agent wants to {action}: {decision:?}");
    decision
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = std::env::args().nth(1).unwrap_or_else(|| "codicil".to_owned());
    let work = tempfile::tempdir()?;
    let server = ServerLaunch::new(program).config("model_provider", "scripted");
    let client = Client::builder().name("approvals", "1.0").handler(ask(decide)).connect(server).await?;

    let thread = client
        .start_thread(ThreadStartParams {
            cwd: Some(work.path().to_string_lossy().into_owned()),
            approval_policy: Some(AskForApproval::Untrusted),
            ..Default::default()
        })
        .await?;
    let done = client.run_turn(turn(&thread.id, "Leave a note")).await?;
    println!("{}", done.agent_message);
    for file in std::fs::read_dir(work.path())? {
        println!("There is a file {}", file?.file_name().display());
    }
    client.close().await;
    Ok(())
}
