//! `request_permissions`: the model asks for what its commands will need.

use std::path::{Path, PathBuf};

use codicil_command::Access;
use codicil_protocol::{
    AbsolutePathBuf, AdditionalFileSystemPermissions, AdditionalNetworkPermissions, AskForApproval,
    PermissionGrantScope, PermissionsApproval, PermissionsRequestApprovalParams,
    PermissionsRequestApprovalResponse, RequestPermissionProfile,
};
use serde::Deserialize;
use serde_json::json;

use super::{
    TurnTools,
    ask::{Kind, Reply},
    call::{Call, Cancelled, Output, say},
    command::Additional,
};

#[derive(Deserialize)]
struct Arguments {
    permissions: Additional,
    reason: Option<String>,
}

impl TurnTools {
    pub(super) async fn request_permissions(&self, call: &Call) -> Result<Output, Cancelled> {
        let arguments: Arguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let wanted = arguments.permissions.access(self);
        if wanted == Access::default() {
            return Ok(say("request_permissions requires at least one permission"));
        }
        if !self.may_ask_for_permissions() {
            return Ok(granted(&Access::default(), PermissionGrantScope::Turn));
        }
        let params = PermissionsRequestApprovalParams {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: call.item_id(),
            reason: arguments.reason,
            permissions: profile(&wanted),
        };
        let (access, scope) = match self.ask::<PermissionsApproval>(params, Kind::Approval).await? {
            Reply::Answer(response) => {
                let scope = response.scope;
                (cut(&response, &wanted), scope)
            }
            Reply::Nonsense | Reply::Error => (Access::default(), PermissionGrantScope::Turn),
        };
        match scope {
            PermissionGrantScope::Turn => self.turn_access().extend(&access),
            PermissionGrantScope::Session => self.kit.grants().access.extend(&access),
        }
        Ok(granted(&access, scope))
    }

    fn may_ask_for_permissions(&self) -> bool {
        match &self.settings.approval_policy {
            AskForApproval::Never => false,
            AskForApproval::Granular { request_permissions, .. } => *request_permissions,
            _ => true,
        }
    }
}

/// What was granted of what was asked for: nobody gives more than that.
fn cut(response: &PermissionsRequestApprovalResponse, wanted: &Access) -> Access {
    let files = response.permissions.file_system.as_ref();
    let network = response.permissions.network.as_ref().and_then(|network| network.enabled);
    let kept = |granted: Option<&Vec<AbsolutePathBuf>>, asked: &[PathBuf]| -> Vec<PathBuf> {
        let granted: Vec<&Path> = granted.into_iter().flatten().map(|path| Path::new(&**path)).collect();
        asked.iter().filter(|path| granted.contains(&path.as_path())).cloned().collect()
    };
    Access {
        network: wanted.network && network.unwrap_or(false),
        read: kept(files.and_then(|files| files.read.as_ref()), &wanted.read),
        write: kept(files.and_then(|files| files.write.as_ref()), &wanted.write),
    }
}

fn profile(access: &Access) -> RequestPermissionProfile {
    let paths = |paths: &[PathBuf]| {
        let paths: Vec<_> = paths.iter().filter_map(AbsolutePathBuf::new).collect();
        (!paths.is_empty()).then_some(paths)
    };
    let (read, write) = (paths(&access.read), paths(&access.write));
    let has_files = read.is_some() || write.is_some();
    RequestPermissionProfile {
        network: access.network.then_some(AdditionalNetworkPermissions { enabled: Some(true) }),
        file_system: has_files.then_some(AdditionalFileSystemPermissions { read, write }),
    }
}

fn granted(access: &Access, scope: PermissionGrantScope) -> Output {
    let RequestPermissionProfile { network, file_system } = profile(access);
    let permissions = json!({ "network": network, "file_system": file_system });
    say(json!({ "permissions": permissions, "scope": scope }).to_string())
}
