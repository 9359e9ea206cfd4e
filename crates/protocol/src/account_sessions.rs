//! Several signed-in accounts: `accountSession/*`. This server has one.

use crate::wire;

/// Lists the accounts that are signed in.
#[wire]
#[derive(Default)]
pub struct AccountSessionsListParams {
    /// Fetches the names and images of workspaces first.
    #[serde(default)]
    pub refresh_workspace_metadata: bool,
}

/// The accounts that are signed in.
#[wire]
pub struct AccountSessionsResponse {
    pub sessions: Vec<AccountSession>,
    pub active_session_id: Option<String>,
}

/// An account that is signed in.
#[wire]
pub struct AccountSession {
    pub session_id: String,
    pub is_active: bool,
    /// Unix seconds.
    pub last_used_at: i64,
    pub workspaces: Vec<AccountSessionWorkspace>,
    pub display_name: Option<String>,
    pub email: Option<String>,
    pub image_url: Option<String>,
    pub selected_workspace_account_id: Option<String>,
    pub user_id: Option<String>,
}

/// A workspace of an account.
#[wire]
pub struct AccountSessionWorkspace {
    pub account_id: String,
    pub image_url: Option<String>,
    pub kind: Option<AccountSessionWorkspaceKind>,
    pub name: Option<String>,
}

/// The kind of a workspace.
#[wire(open)]
#[derive(Eq)]
pub enum AccountSessionWorkspaceKind {
    Personal,
    Workspace,
}

/// Changes the active account.
#[wire]
pub struct AccountSessionsSwitchParams {
    pub session_id: String,
    pub account_id: String,
    /// Starts a sign-in if the account needs one.
    #[serde(default)]
    pub allow_browser_login: bool,
}

/// The accounts after the change, or the sign-in that is needed first.
#[wire(untagged)]
pub enum AccountSessionsSwitchResponse {
    Sessions(AccountSessionsResponse),
    /// The account needs a sign-in in a browser. Snake case on the wire.
    #[serde(rename_all = "snake_case")]
    Login {
        auth_url: String,
        login_id: String,
    },
}
