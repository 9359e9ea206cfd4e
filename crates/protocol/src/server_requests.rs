//! The requests that the server can send to a client.

use serde_json::value::RawValue;

use crate::{methods::requests, *};

requests! {
    /// The requests that the server can send.
    SERVER_REQUESTS;

    /// Asks whether a command may run.
    both stable CommandExecutionApproval = "item/commandExecution/requestApproval" (CommandExecutionRequestApprovalParams) -> CommandExecutionRequestApprovalResponse;
    /// Asks whether file changes may be applied.
    both stable FileChangeApproval = "item/fileChange/requestApproval" (FileChangeRequestApprovalParams) -> FileChangeRequestApprovalResponse;
    /// Asks the user questions of the agent.
    both stable ToolUserInput = "item/tool/requestUserInput" (ToolRequestUserInputParams) -> ToolRequestUserInputResponse;
    /// Asks the user for input that an MCP server requested.
    both stable McpServerElicitation = "mcpServer/elicitation/request" (McpServerElicitationRequestParams) -> McpServerElicitationRequestResponse;
    /// Asks whether the agent is granted more permissions.
    both stable PermissionsApproval = "item/permissions/requestApproval" (PermissionsRequestApprovalParams) -> PermissionsRequestApprovalResponse;
    /// Calls a tool that the client offers.
    both stable DynamicToolCall = "item/tool/call" (DynamicToolCallParams) -> DynamicToolCallResponse;
    /// Asks a client that manages its own tokens for new ones.
    both stable ChatgptAuthTokensRefresh = "account/chatgptAuthTokens/refresh" (ChatgptAuthTokensRefreshParams) -> ChatgptAuthTokensRefreshResponse;
    /// Asks the client to attest itself to the provider.
    v166 stable AttestationGenerate = "attestation/generate" (AttestationGenerateParams) -> AttestationGenerateResponse;
    /// Asks for the time of the client's clock.
    v166 stable CurrentTimeRead = "currentTime/read" (CurrentTimeReadParams) -> CurrentTimeReadResponse;
    /// The version 1 form of [`FileChangeApproval`]. Clients can decode it; this server does not send it.
    both stable LegacyPatchApproval = "applyPatchApproval" (ApplyPatchApprovalParams) -> ApplyPatchApprovalResponse;
    /// The version 1 form of [`CommandExecutionApproval`]. Clients can decode it; this server does not send it.
    both stable LegacyExecApproval = "execCommandApproval" (ExecCommandApprovalParams) -> ExecCommandApprovalResponse;
}

/// Defines the enum of all server requests, for clients to match on.
macro_rules! server_request_enum {
    ($($name:ident,)*) => {
        /// A server request as a client receives it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ServerRequest {
            $($name(<$name as Method>::Params),)*
            /// A request that this version does not know or cannot decode.
            Unknown(rpc::Notification),
        }

        impl ServerRequest {
            /// Decodes a request. Never fails: what cannot be decoded is kept as `Unknown`.
            pub fn decode(method: &str, params: Option<&RawValue>) -> Self {
                let known = match method {
                    $($name::NAME => decode_params(params).map(Self::$name).ok(),)*
                    _ => None,
                };
                known.unwrap_or_else(|| Self::Unknown(rpc::Notification {
                    method: method.to_owned(),
                    params: params.and_then(|params| serde_json::from_str(params.get()).ok()),
                }))
            }
        }
    };
}

server_request_enum! {
    CommandExecutionApproval,
    FileChangeApproval,
    ToolUserInput,
    McpServerElicitation,
    PermissionsApproval,
    DynamicToolCall,
    ChatgptAuthTokensRefresh,
    AttestationGenerate,
    CurrentTimeRead,
    LegacyPatchApproval,
    LegacyExecApproval,
}
