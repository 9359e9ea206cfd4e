//! OAuth discovery: a server's protected resource metadata (RFC 9728) names an authorization server, whose metadata
//! (RFC 8414 or OpenID Connect) names the endpoints. Servers of earlier protocol versions are their own
//! authorization servers and publish only the latter, or nothing: then their endpoints have fixed paths.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{challenge::AuthChallenge, error::OauthError, exchange::ClientAuth, web};

/// Most authorization servers that are tried of those that a server names.
const MAX_AUTHORIZATION_SERVERS: usize = 4;

/// The endpoints and rules for a login.
#[derive(Clone, Debug)]
pub(crate) struct OauthMetadata {
    pub(super) issuer: Option<String>,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    /// The authorization response must name its issuer (RFC 9207).
    pub(super) names_issuer: bool,
    /// How clients authenticate at the token endpoint, best first. Empty if the server states nothing.
    pub(super) client_auth: Vec<ClientAuth>,
    /// Scopes that the server publishes.
    pub(crate) scopes: Vec<String>,
    /// Resource identifier that the server publishes.
    pub(super) resource: Option<String>,
}

#[derive(Deserialize)]
struct AuthorizationServer {
    #[serde(default)]
    issuer: Option<String>,
    authorization_endpoint: Url,
    token_endpoint: Url,
    #[serde(default)]
    registration_endpoint: Option<Url>,
    #[serde(default)]
    scopes_supported: Vec<String>,
    #[serde(default)]
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

#[derive(Default, Deserialize)]
struct ProtectedResource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<Url>,
    #[serde(default)]
    scopes_supported: Vec<String>,
}

/// The issuer that a document must name.
enum ExpectedIssuer<'a> {
    /// This issuer.
    Exactly(&'a Url),
    /// Any issuer of the same origin, or none.
    SameOrigin(&'a Url),
}

/// Finds the OAuth metadata of a server; `None` if it requires no login. `challenge` is what a connection to the server
/// has received.
pub(crate) async fn discover(
    server: &Url,
    challenge: Option<&AuthChallenge>,
) -> Result<Option<OauthMetadata>, OauthError> {
    let challenge = match challenge {
        Some(challenge) => Some(challenge.clone()),
        None => AuthChallenge::of(&web::probe(server).await?, server),
    };
    let Some(resource) = protected_resource(server, challenge.as_ref()).await? else {
        return own_authorization_server(server, challenge).await;
    };
    if resource.authorization_servers.is_empty() {
        return own_authorization_server(server, challenge).await;
    }
    let challenged = challenge.map(|challenge| challenge.scopes).unwrap_or_default();
    let scopes = if challenged.is_empty() { resource.scopes_supported } else { challenged };
    for issuer in resource
        .authorization_servers
        .iter()
        .filter(|issuer| may_follow(server, issuer))
        .take(MAX_AUTHORIZATION_SERVERS)
    {
        for url in metadata_urls(issuer) {
            if let Some(mut metadata) = fetch_metadata(&url, ExpectedIssuer::Exactly(issuer), server).await? {
                metadata.resource = Some(resource.resource);
                // The scopes of the authorization server may be those of other resources.
                metadata.scopes = scopes;
                return Ok(Some(metadata));
            }
        }
    }
    // Trying other addresses could send the user to an authorization server that the server has not named.
    Err(OauthError::Unreadable("none of the authorization servers that it names can be used".to_owned()))
}

async fn protected_resource(
    server: &Url,
    challenge: Option<&AuthChallenge>,
) -> Result<Option<ProtectedResource>, OauthError> {
    let advertised = challenge.and_then(|challenge| challenge.resource_metadata.clone());
    let advertised = advertised.filter(|url| may_follow(server, url));
    let guessed = well_known(server, "oauth-protected-resource");
    for url in advertised.into_iter().chain(guessed) {
        let Some(document) = fetch_document(&url).await? else { continue };
        let Ok(resource) = ProtectedResource::deserialize(document) else { continue };
        if is_resource_of(server, &resource.resource) {
            return Ok(Some(resource));
        }
        tracing::debug!(resource = resource.resource, "ignored the metadata of another resource");
    }
    Ok(None)
}

/// Returns the metadata of a server that is its own authorization server. One that publishes none but requires a
/// login has the paths of protocol version 2025-03-26.
async fn own_authorization_server(
    server: &Url,
    challenge: Option<AuthChallenge>,
) -> Result<Option<OauthMetadata>, OauthError> {
    let requires_login = challenge.is_some();
    let scopes = challenge.map(|challenge| challenge.scopes).unwrap_or_default();
    let mut urls = metadata_urls(server);
    let others = well_known(server, "oauth-authorization-server");
    urls.extend(others.into_iter().filter(|url| !urls.contains(url)).collect::<Vec<_>>());
    for url in urls {
        if let Some(mut metadata) = fetch_metadata(&url, ExpectedIssuer::SameOrigin(server), server).await? {
            if !scopes.is_empty() {
                metadata.scopes = scopes;
            }
            return Ok(Some(metadata));
        }
    }
    Ok(requires_login.then(|| OauthMetadata {
        issuer: None,
        authorization_endpoint: with_path(server, "/authorize"),
        token_endpoint: with_path(server, "/token"),
        registration_endpoint: Some(with_path(server, "/register")),
        names_issuer: false,
        client_auth: Vec::new(),
        scopes,
        resource: None,
    }))
}

async fn fetch_document(url: &Url) -> Result<Option<Value>, OauthError> {
    let (status, document) = web::get(url).await?;
    Ok(document.filter(|_| status == 200))
}

/// Fetches the metadata of an authorization server; `None` if it is missing or unusable.
async fn fetch_metadata(
    url: &Url,
    issuer: ExpectedIssuer<'_>,
    server: &Url,
) -> Result<Option<OauthMetadata>, OauthError> {
    let Some(document) = fetch_document(url).await? else { return Ok(None) };
    let Ok(found) = AuthorizationServer::deserialize(document) else { return Ok(None) };
    let endpoints = [
        Some(&found.authorization_endpoint),
        Some(&found.token_endpoint),
        found.registration_endpoint.as_ref(),
    ];
    if !issuer.matches(found.issuer.as_deref())
        || !endpoints.into_iter().flatten().all(|url| may_follow(server, url))
    {
        tracing::debug!("ignored metadata that does not belong to the server");
        return Ok(None);
    }
    if found
        .code_challenge_methods_supported
        .is_some_and(|methods| !methods.iter().any(|method| method == "S256"))
    {
        return Err(OauthError::NoPkce);
    }
    let methods = &found.token_endpoint_auth_methods_supported;
    Ok(Some(OauthMetadata {
        client_auth: ClientAuth::ALL
            .into_iter()
            .filter(|auth| methods.contains(&auth.name().to_owned()))
            .collect(),
        issuer: found.issuer,
        authorization_endpoint: found.authorization_endpoint,
        token_endpoint: found.token_endpoint,
        registration_endpoint: found.registration_endpoint,
        names_issuer: found.authorization_response_iss_parameter_supported,
        scopes: found.scopes_supported,
        resource: None,
    }))
}

impl ExpectedIssuer<'_> {
    fn matches(&self, named: Option<&str>) -> bool {
        let named = named.map(Url::parse);
        match (self, named) {
            (ExpectedIssuer::Exactly(expected), Some(Ok(named))) => is_same_address(expected, &named),
            (ExpectedIssuer::SameOrigin(server), Some(Ok(named))) => server.origin() == named.origin(),
            (ExpectedIssuer::SameOrigin(_), None) => true,
            _ => false,
        }
    }
}

fn is_same_address(left: &Url, right: &Url) -> bool {
    left.as_str().trim_end_matches('/') == right.as_str().trim_end_matches('/')
}

/// Returns whether a URL from the server's metadata may be used: never plain http from an https server.
fn may_follow(server: &Url, url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => server.scheme() == "http",
        _ => false,
    }
}

/// Returns whether a resource identifier is the server's URL or a parent of it.
fn is_resource_of(server: &Url, resource: &str) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let parent = resource.path().trim_end_matches('/');
    let is_inside =
        server.path().strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    server.origin() == resource.origin() && is_inside
}

/// Returns the possible addresses of an authorization server's metadata, most likely first.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| with_path(issuer, path)).collect()
}

/// Returns the possible addresses of a well-known document: with the server's path, below it, at the root.
fn well_known(server: &Url, name: &str) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/{name}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/{name}"));
        paths.push(format!("/.well-known/{name}"));
    }
    paths.iter().map(|path| with_path(server, path)).collect()
}

fn with_path(server: &Url, path: &str) -> Url {
    let mut url = server.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn all_usual_addresses_are_tried() {
        let paths = |urls: Vec<Url>| urls.iter().map(|url| url.path().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            paths(well_known(&url("http://x/a/mcp?k=1"), "doc")),
            ["/.well-known/doc/a/mcp", "/a/mcp/.well-known/doc", "/.well-known/doc"]
        );
        assert_eq!(paths(well_known(&url("http://x/"), "doc")), ["/.well-known/doc"]);
        assert_eq!(
            paths(metadata_urls(&url("http://x/tenant/"))),
            [
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration",
            ]
        );
    }

    #[test]
    fn a_resource_is_the_server_or_above_it() {
        let check = |resource: &str, expected| {
            assert_eq!(is_resource_of(&url("https://x/a/mcp"), resource), expected, "{resource}")
        };
        check("https://x/a/mcp", true);
        check("https://x/a", true);
        check("https://x", true);
        check("https://x/a/m", false);
        check("https://y/a/mcp", false);
        check("http://x/a/mcp", false);
        check("nonsense", false);
    }

    #[test]
    fn issuers_must_match() {
        let issuer = url("https://as/t");
        let server = url("https://x/mcp");
        assert!(ExpectedIssuer::Exactly(&issuer).matches(Some("https://as/t/")));
        assert!(!ExpectedIssuer::Exactly(&issuer).matches(Some("https://as")));
        assert!(!ExpectedIssuer::Exactly(&issuer).matches(None));
        assert!(ExpectedIssuer::SameOrigin(&server).matches(Some("https://x")));
        assert!(ExpectedIssuer::SameOrigin(&server).matches(None));
        assert!(!ExpectedIssuer::SameOrigin(&server).matches(Some("https://evil")));
    }

    #[test]
    fn https_servers_cannot_lead_to_http() {
        assert!(may_follow(&url("https://x"), &url("https://y")));
        assert!(!may_follow(&url("https://x"), &url("http://y")));
        assert!(may_follow(&url("http://127.0.0.1"), &url("http://127.0.0.1:7")));
        assert!(!may_follow(&url("http://x"), &url("file:///etc/passwd")));
    }
}
