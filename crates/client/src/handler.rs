//! The trait that answers server requests, and the mapping from the wire to its methods.
//!
//! Implement [`RequestHandler`] for the requests that you want to decide. Every other method has a safe default:
//! nothing is approved. Ready-made handlers are [`DeclineAll`](crate::DeclineAll), [`ApproveAll`](crate::ApproveAll),
//! [`FailTurn`](crate::FailTurn) and [`ask`](crate::ask).

use std::{future::ready, pin::Pin};

use codicil_protocol::{
    AttestationGenerate, ChatgptAuthTokensRefreshParams, ChatgptAuthTokensRefreshResponse,
    CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams,
    CommandExecutionRequestApprovalResponse, CurrentTimeRead, DynamicToolCallParams, DynamicToolCallResponse,
    FileChangeApprovalDecision, FileChangeRequestApprovalResponse, FileUpdateChange,
    GrantedPermissionProfile, McpServerElicitationAction, McpServerElicitationRequestParams,
    McpServerElicitationRequestResponse, Method, PermissionGrantScope, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, ServerRequest, ToolRequestUserInputParams,
    ToolRequestUserInputResponse,
    rpc::{self, ErrorObject, codes},
};
use serde::Serialize;
use serde_json::Value;

use crate::{approvals::FileChangeApproval, legacy, policies, tools};

/// The answer to a server request, or the reason why there is none.
pub type HandlerAnswer<T> = Result<T, NoAnswer>;

/// The reason why a server request gets no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    /// Responds with this error. Its effect depends on the request; a turn usually continues.
    Error(ErrorObject),
    /// Stops the turn that sent the request. [`Client::run_turn`](crate::Client::run_turn) then returns
    /// [`ApprovalRequired`](crate::ClientError::ApprovalRequired) or
    /// [`TurnInputRequired`](crate::ClientError::TurnInputRequired).
    EndTurn,
}

impl NoAnswer {
    /// Returns an error response with this message.
    pub fn error(message: impl Into<String>) -> Self {
        Self::Error(ErrorObject { code: codes::INVALID_REQUEST, message: message.into(), data: None })
    }
}

/// Answers server requests.
///
/// Each request runs in its own task, so an answer may take time while other messages are read. If the server resolves
/// the request otherwise (another client answered, or the turn ended), the future is dropped. A panic becomes an error
/// response.
///
/// Older servers send `execCommandApproval` and `applyPatchApproval`. These requests call the same methods, without a
/// turn id, and are answered in the older format.
///
/// ```
/// use codicil_client::{HandlerAnswer, RequestHandler, protocol::*};
///
/// struct OnlyGit;
///
/// impl RequestHandler for OnlyGit {
///     async fn approve_command(
///         &self,
///         params: CommandExecutionRequestApprovalParams,
///     ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
///         let is_git = params.command.is_some_and(|command| command.starts_with("git "));
///         Ok(if is_git {
///             CommandExecutionApprovalDecision::Accept
///         } else {
///             CommandExecutionApprovalDecision::Decline
///         })
///     }
/// }
/// ```
pub trait RequestHandler: Send + Sync + 'static {
    /// Decides whether a command may run or reach a host. Declines by default.
    fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> impl Future<Output = HandlerAnswer<CommandExecutionApprovalDecision>> + Send {
        let _ = params;
        ready(Ok(CommandExecutionApprovalDecision::Decline))
    }

    /// Decides whether edits may be applied. Declines by default.
    fn approve_file_change(
        &self,
        approval: FileChangeApproval,
    ) -> impl Future<Output = HandlerAnswer<FileChangeApprovalDecision>> + Send {
        let _ = approval;
        ready(Ok(FileChangeApprovalDecision::Decline))
    }

    /// Selects the permissions to grant. Grants none by default.
    fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> impl Future<Output = HandlerAnswer<PermissionsRequestApprovalResponse>> + Send {
        let _ = params;
        ready(Ok(PermissionsRequestApprovalResponse {
            permissions: GrantedPermissionProfile::default(),
            scope: PermissionGrantScope::Turn,
            strict_auto_review: None,
        }))
    }

    /// Answers the agent's questions to the user. By default picks an option that declines, or answers that no
    /// operator is available ([`NON_INTERACTIVE`](crate::NON_INTERACTIVE)).
    fn user_input(
        &self,
        params: ToolRequestUserInputParams,
    ) -> impl Future<Output = HandlerAnswer<ToolRequestUserInputResponse>> + Send {
        ready(Ok(policies::decline_input(&params)))
    }

    /// Answers an MCP server's request for input or for the approval of a tool call. Declines by default.
    fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> impl Future<Output = HandlerAnswer<McpServerElicitationRequestResponse>> + Send {
        let _ = params;
        let action = McpServerElicitationAction::Decline;
        ready(Ok(McpServerElicitationRequestResponse { action, content: None, meta: None }))
    }

    /// Runs a client-side tool that is not among the builder's [`ClientTools`](crate::ClientTools). By default the
    /// call fails as unsupported.
    fn call_tool(
        &self,
        params: DynamicToolCallParams,
    ) -> impl Future<Output = HandlerAnswer<DynamicToolCallResponse>> + Send {
        ready(Ok(tools::unsupported(&params.tool)))
    }

    /// Returns fresh account tokens. By default responds with an error.
    fn refresh_tokens(
        &self,
        params: ChatgptAuthTokensRefreshParams,
    ) -> impl Future<Output = HandlerAnswer<ChatgptAuthTokensRefreshResponse>> + Send {
        let _ = params;
        ready(Err(NoAnswer::error("this client does not manage tokens")))
    }

    /// Answers a request that has no method of this trait. By default responds with an error.
    fn other(&self, params: rpc::Notification) -> impl Future<Output = HandlerAnswer<Value>> + Send {
        let message = format!("{} is not supported by this client", params.method);
        ready(Err(NoAnswer::Error(ErrorObject { code: codes::METHOD_NOT_FOUND, message, data: None })))
    }
}

/// The object-safe form of [`RequestHandler`].
pub(crate) trait AnyHandler: Send + Sync {
    /// Answers a request. `changes` are the edits of the item that the request refers to.
    fn answer(
        &self,
        request: ServerRequest,
        changes: Vec<FileUpdateChange>,
    ) -> Pin<Box<dyn Future<Output = HandlerAnswer<Value>> + Send + '_>>;
}

impl<H: RequestHandler> AnyHandler for H {
    fn answer(
        &self,
        request: ServerRequest,
        changes: Vec<FileUpdateChange>,
    ) -> Pin<Box<dyn Future<Output = HandlerAnswer<Value>> + Send + '_>> {
        use ServerRequest as R;
        Box::pin(async move {
            match request {
                R::CommandExecutionApproval(params) => {
                    let decision = self.approve_command(params).await?;
                    encode(&CommandExecutionRequestApprovalResponse { decision })
                }
                R::FileChangeApproval(params) => {
                    let decision = self.approve_file_change(FileChangeApproval { params, changes }).await?;
                    encode(&FileChangeRequestApprovalResponse { decision })
                }
                R::PermissionsApproval(params) => encode(&self.approve_permissions(params).await?),
                R::ToolUserInput(params) => encode(&self.user_input(params).await?),
                R::McpServerElicitation(params) => encode(&self.elicitation(params).await?),
                R::DynamicToolCall(params) => encode(&self.call_tool(params).await?),
                R::ChatgptAuthTokensRefresh(params) => encode(&self.refresh_tokens(params).await?),
                R::LegacyExecApproval(params) => {
                    let decision = self.approve_command(legacy::command(params)).await?;
                    encode(&legacy::command_answer(decision))
                }
                R::LegacyPatchApproval(params) => {
                    let decision = self.approve_file_change(legacy::file_change(params)).await?;
                    encode(&legacy::file_change_answer(decision))
                }
                R::AttestationGenerate(params) => {
                    self.other(as_message::<AttestationGenerate>(&params)?).await
                }
                R::CurrentTimeRead(params) => self.other(as_message::<CurrentTimeRead>(&params)?).await,
                R::Unknown(params) => self.other(params).await,
            }
        })
    }
}

/// Returns a request as [`RequestHandler::other`] takes it.
fn as_message<M: Method>(params: &M::Params) -> HandlerAnswer<rpc::Notification> {
    Ok(rpc::Notification { method: M::NAME.to_owned(), params: Some(encode(params)?) })
}

fn encode(answer: &impl Serialize) -> HandlerAnswer<Value> {
    serde_json::to_value(answer).map_err(|error| NoAnswer::error(error.to_string()))
}
