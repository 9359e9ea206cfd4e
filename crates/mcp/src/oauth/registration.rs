//! The client of a login: configured, or registered dynamically (RFC 7591). Without a configured client each login
//! registers a new one, because its redirect URI has a new port.

use codicil_protocol::Secret;
use serde::Deserialize;
use serde_json::json;

use super::{discovery::OauthMetadata, error::OauthError, exchange::ClientAuth, web};
use crate::text::cut;

/// A client of an authorization server.
#[derive(Debug)]
pub(super) struct OauthClient {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
    pub(super) auth: ClientAuth,
}

#[derive(Deserialize)]
struct RegisteredClient {
    client_id: String,
    #[serde(default)]
    client_secret: Option<String>,
    #[serde(default)]
    token_endpoint_auth_method: Option<String>,
}

pub(super) async fn register(
    metadata: &OauthMetadata,
    name: &str,
    redirect: &str,
    scopes: &[String],
) -> Result<OauthClient, OauthError> {
    let endpoint = metadata.registration_endpoint.as_ref().ok_or(OauthError::NoRegistration)?;
    let requested = metadata.client_auth.first().copied().unwrap_or(ClientAuth::None);
    let mut request = json!({
        "client_name": name,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": requested.name(),
        "application_type": "native",
    });
    if !scopes.is_empty()
        && let Some(members) = request.as_object_mut()
    {
        members.insert("scope".to_owned(), json!(scopes.join(" ")));
    }
    let (status, answer) = web::post_json(endpoint, &request).await?;
    if !(200..300).contains(&status) {
        let text = |name: &str| answer.as_ref()?.get(name)?.as_str().map(|text| cut(text, 200));
        let reason = text("error_description")
            .or_else(|| text("error"))
            .unwrap_or_else(|| format!("HTTP status {status}"));
        return Err(OauthError::Unreadable(format!("the client registration failed: {reason}")));
    }
    let registered: RegisteredClient = serde_json::from_value(answer.unwrap_or_default()).map_err(|_| {
        OauthError::Unreadable("the response to the client registration has no client id".to_owned())
    })?;
    // Some servers return an empty secret instead of none.
    let secret = registered.client_secret.filter(|secret| !secret.is_empty()).map(Secret::from);
    // Some servers issue a secret to clients that asked for none, and then require it.
    let named = registered.token_endpoint_auth_method.as_deref().and_then(ClientAuth::from_name);
    let is_public = metadata.client_auth == [ClientAuth::None];
    let auth = match named {
        Some(auth) => auth,
        None if is_public => ClientAuth::None,
        None => ClientAuth::for_secret(secret.as_ref(), &metadata.client_auth),
    };
    Ok(OauthClient { id: registered.client_id, secret, auth })
}
