//! Every request the server may send to a client.

use serde_json::value::RawValue;

use crate::{methods::requests, *};

requests! {
    /// Every request the server may send.
    SERVER_REQUESTS;

    /// May this command run?
    stable CommandExecutionApproval = "item/commandExecution/requestApproval" (CommandExecutionRequestApprovalParams) -> CommandExecutionRequestApprovalResponse;
    /// May these edits be made?
    stable FileChangeApproval = "item/fileChange/requestApproval" (FileChangeRequestApprovalParams) -> FileChangeRequestApprovalResponse;
    /// Questions the agent has for the person.
    stable ToolUserInput = "item/tool/requestUserInput" (ToolRequestUserInputParams) -> ToolRequestUserInputResponse;
    /// Input an MCP server asks for.
    stable McpServerElicitation = "mcpServer/elicitation/request" (McpServerElicitationRequestParams) -> McpServerElicitationRequestResponse;
    /// May the agent have these permissions?
    stable PermissionsApproval = "item/permissions/requestApproval" (PermissionsRequestApprovalParams) -> PermissionsRequestApprovalResponse;
    /// Runs one of the client's own tools.
    stable DynamicToolCall = "item/tool/call" (DynamicToolCallParams) -> DynamicToolCallResponse;
    /// Fresh tokens, from a client that manages them itself.
    stable ChatgptAuthTokensRefresh = "account/chatgptAuthTokens/refresh" (ChatgptAuthTokensRefreshParams) -> ChatgptAuthTokensRefreshResponse;
    /// [`FileChangeApproval`] of the older dialect; read by the client, never sent by the server.
    stable LegacyPatchApproval = "applyPatchApproval" (ApplyPatchApprovalParams) -> ApplyPatchApprovalResponse;
    /// [`CommandExecutionApproval`] of the older dialect; read by the client, never sent by the server.
    stable LegacyExecApproval = "execCommandApproval" (ExecCommandApprovalParams) -> ExecCommandApprovalResponse;
}

/// Makes the enum of all server requests, for clients to match on.
macro_rules! server_request_enum {
    ($($name:ident,)*) => {
        /// A request of the server as a client receives it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum ServerRequest {
            $($name(<$name as Method>::Params),)*
            /// One that this version does not know, or cannot read.
            Unknown(rpc::Notification),
        }

        impl ServerRequest {
            /// Never fails: what cannot be read as its type is kept as it came.
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
    LegacyPatchApproval,
    LegacyExecApproval,
}
