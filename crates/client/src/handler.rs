//! What the server asks of its client, and who answers.
//!
//! Implement [`RequestHandler`] for what you want to decide; everything else keeps its safe default: nothing is
//! approved. Ready-made ones are in [`Decline`](crate::Decline), [`ApproveAll`](crate::ApproveAll),
//! [`FailTurn`](crate::FailTurn) and [`ask`](crate::ask).

use std::{future::ready, pin::Pin};

use codicil_protocol::{
    ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse, CommandExecutionApprovalDecision,
    CommandExecutionRequestApprovalParams, CommandExecutionRequestApprovalResponse, DynamicToolCallParams,
    DynamicToolCallResponse, FileChangeApprovalDecision, FileChangeRequestApprovalParams,
    FileChangeRequestApprovalResponse, GrantedPermissionProfile, McpServerElicitationAction,
    McpServerElicitationRequestParams, McpServerElicitationRequestResponse, PermissionGrantScope,
    PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ServerRequest,
    ToolRequestUserInputParams, ToolRequestUserInputResponse,
    rpc::{self, ErrorObject, codes},
};
use serde::Serialize;
use serde_json::Value;

use crate::{legacy, policies, tools};

/// An answer, or why there is none.
pub type HandlerAnswer<T> = Result<T, NoAnswer>;

/// Why a question of the server gets no ordinary answer.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    /// The server is told this error. What it does then depends on the question; a turn usually goes on.
    Error(ErrorObject),
    /// The turn that asks is stopped. Whoever runs it with [`Client::run_turn`](crate::Client::run_turn)
    /// gets [`ApprovalRequired`](crate::ClientError::ApprovalRequired) or
    /// [`TurnInputRequired`](crate::ClientError::TurnInputRequired).
    EndTurn,
}

impl NoAnswer {
    /// An error in words.
    pub fn because(message: impl Into<String>) -> Self {
        Self::Error(ErrorObject { code: codes::INVALID_REQUEST, message: message.into(), data: None })
    }
}

/// Answers what the server asks.
///
/// Each question runs in a task of its own, so an answer may take its time: messages go on being read meanwhile.
/// When the server settles a question otherwise (another client answered, the turn ended), the future
/// that works on it is dropped. A panic is an error for the server and nothing more.
///
/// Older servers ask with `execCommandApproval` and `applyPatchApproval`. They are put to the same
/// methods, without a turn id, and answered in their own dialect.
///
/// ```
/// use codicil_client::{HandlerAnswer, RequestHandler, protocol::*};
///
/// struct OnlyGit;
///
/// impl RequestHandler for OnlyGit {
///     async fn approve_command(
///         &self,
///         asked: CommandExecutionRequestApprovalParams,
///     ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
///         let is_git = asked.command.is_some_and(|command| command.starts_with("git "));
///         Ok(if is_git {
///             CommandExecutionApprovalDecision::Accept
///         } else {
///             CommandExecutionApprovalDecision::Decline
///         })
///     }
/// }
/// ```
pub trait RequestHandler: Send + Sync + 'static {
    /// May this command run, or reach this host? Declined by default.
    fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> impl Future<Output = HandlerAnswer<CommandExecutionApprovalDecision>> + Send {
        let _ = asked;
        ready(Ok(CommandExecutionApprovalDecision::Decline))
    }

    /// May these edits be made? Declined by default.
    fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> impl Future<Output = HandlerAnswer<FileChangeApprovalDecision>> + Send {
        let _ = asked;
        ready(Ok(FileChangeApprovalDecision::Decline))
    }

    /// Which of these permissions may the agent have? None by default.
    fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> impl Future<Output = HandlerAnswer<PermissionsRequestApprovalResponse>> + Send {
        let _ = asked;
        ready(Ok(PermissionsRequestApprovalResponse {
            permissions: GrantedPermissionProfile::default(),
            scope: PermissionGrantScope::Turn,
        }))
    }

    /// Questions of the agent to the person. By default the option that says no, or else a sentence that
    /// nobody is there.
    fn user_input(
        &self,
        asked: ToolRequestUserInputParams,
    ) -> impl Future<Output = HandlerAnswer<ToolRequestUserInputResponse>> + Send {
        ready(Ok(policies::decline_input(&asked)))
    }

    /// Input that an MCP server wants, or the approval of an MCP tool call. Declined by default.
    fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> impl Future<Output = HandlerAnswer<McpServerElicitationRequestResponse>> + Send {
        let _ = asked;
        let action = McpServerElicitationAction::Decline;
        ready(Ok(McpServerElicitationRequestResponse { action, content: None, meta: None }))
    }

    /// A call of a client-side tool that is not among the builder's [`ClientTools`](crate::ClientTools). By default the
    /// model is told that there is no such tool.
    fn call_tool(
        &self,
        asked: DynamicToolCallParams,
    ) -> impl Future<Output = HandlerAnswer<DynamicToolCallResponse>> + Send {
        ready(Ok(tools::unsupported(&asked.tool)))
    }

    /// Fresh tokens for the account. By default an error: this client has none.
    fn refresh_tokens(
        &self,
        asked: ChatgptAuthTokensRefreshParams,
    ) -> impl Future<Output = HandlerAnswer<ChatgptAuthTokensRefreshResponse>> + Send {
        let _ = asked;
        ready(Err(NoAnswer::because("this client does not manage tokens")))
    }

    /// A request that this version of the protocol does not know. By default an error.
    fn other(&self, asked: rpc::Notification) -> impl Future<Output = HandlerAnswer<Value>> + Send {
        let message = format!("{} is not supported by this client", asked.method);
        ready(Err(NoAnswer::Error(ErrorObject { code: METHOD_NOT_FOUND, message, data: None })))
    }
}

/// JSON-RPC's own code.
const METHOD_NOT_FOUND: i64 = -32601;

/// A handler as the connection holds it.
pub(crate) trait AnyHandler: Send + Sync {
    fn answer(
        &self,
        request: ServerRequest,
    ) -> Pin<Box<dyn Future<Output = HandlerAnswer<Value>> + Send + '_>>;
}

impl<H: RequestHandler> AnyHandler for H {
    fn answer(
        &self,
        request: ServerRequest,
    ) -> Pin<Box<dyn Future<Output = HandlerAnswer<Value>> + Send + '_>> {
        use ServerRequest as R;
        Box::pin(async move {
            match request {
                R::CommandExecutionApproval(asked) => {
                    let decision = self.approve_command(asked).await?;
                    encode(&CommandExecutionRequestApprovalResponse { decision })
                }
                R::FileChangeApproval(asked) => {
                    let decision = self.approve_file_change(asked).await?;
                    encode(&FileChangeRequestApprovalResponse { decision })
                }
                R::PermissionsApproval(asked) => encode(&self.approve_permissions(asked).await?),
                R::ToolUserInput(asked) => encode(&self.user_input(asked).await?),
                R::McpServerElicitation(asked) => encode(&self.elicitation(asked).await?),
                R::DynamicToolCall(asked) => encode(&self.call_tool(asked).await?),
                R::ChatgptAuthTokensRefresh(asked) => encode(&self.refresh_tokens(asked).await?),
                R::LegacyExecApproval(asked) => {
                    let decision = self.approve_command(legacy::command(asked)).await?;
                    encode(&legacy::command_answer(decision))
                }
                R::LegacyPatchApproval(asked) => {
                    let decision = self.approve_file_change(legacy::file_change(asked)).await?;
                    encode(&legacy::file_change_answer(decision))
                }
                R::Unknown(asked) => self.other(asked).await,
            }
        })
    }
}

fn encode(answer: &impl Serialize) -> HandlerAnswer<Value> {
    serde_json::to_value(answer).map_err(|error| NoAnswer::because(error.to_string()))
}
