//! `configRequirements/*`.

use codicil_protocol::{
    ConfigRequirementsReadResponse, NetworkUnixSocketPermission, NoParams, ProtocolGeneration,
};

use crate::{background::blocking, cx::Cx, error::RpcError, generation::shown_reviewer};

pub async fn read(cx: Cx, _params: NoParams) -> Result<ConfigRequirementsReadResponse, RpcError> {
    let config = cx.config().clone();
    let mut read = blocking(move || config.read_requirements()).await?;
    let reviewers = (read.requirements.as_mut()).and_then(|it| it.allowed_approvals_reviewers.as_mut());
    for reviewer in reviewers.into_iter().flatten() {
        *reviewer = shown_reviewer(cx.generation(), reviewer.clone());
    }
    let network = read.requirements.as_mut().and_then(|requirements| requirements.network.as_mut());
    for permission in
        network.into_iter().filter_map(|it| it.unix_sockets.as_mut()).flat_map(|it| it.values_mut())
    {
        show_permission(cx.generation(), permission);
    }
    Ok(read)
}

/// Shows the permission of a socket under the name that it has in a generation.
fn show_permission(generation: ProtocolGeneration, permission: &mut NetworkUnixSocketPermission) {
    use NetworkUnixSocketPermission::{Deny, None};
    *permission = match (generation, &*permission) {
        (ProtocolGeneration::V118, Deny) => None,
        (ProtocolGeneration::V166, None) => Deny,
        (_, other) => other.clone(),
    };
}
