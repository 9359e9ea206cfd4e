//! How to sign in to a server: its protected resource metadata (RFC 9728) names an authorization server, whose
//! metadata (RFC 8414, or OpenID Connect's) names the endpoints. Servers of earlier protocol versions are their
//! own authorization servers and publish the latter only.

use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{challenge::AuthChallenge, error::OauthError, web};

/// How many authorization servers are tried of those that a server names.
const SERVERS: usize = 4;

/// What is needed to sign in.
#[derive(Clone, Debug)]
pub(crate) struct OauthMetadata {
    pub(super) issuer: Option<String>,
    pub(super) authorization_endpoint: Url,
    pub(super) token_endpoint: Url,
    pub(super) registration_endpoint: Option<Url>,
    /// The answer in the browser must say who it is from.
    pub(super) names_issuer: bool,
    /// The token endpoint takes a secret only in the body.
    pub(super) secret_in_body: bool,
    /// What the server says should be asked for.
    pub(crate) scopes: Vec<String>,
    /// What tokens are for, in the server's words.
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

/// Which issuer a document must name.
enum ExpectedIssuer<'a> {
    /// The one that led to it.
    Exactly(&'a Url),
    /// Any of that server, or none.
    Near(&'a Url),
}

/// What a server publishes about signing in; `None` when it publishes nothing.
pub(crate) async fn discover(server: &Url) -> Result<Option<OauthMetadata>, OauthError> {
    let challenge = AuthChallenge::of(&web::probe(server).await?, server);
    let Some(resource) = protected_resource(server, &challenge).await? else {
        return own_authorization_server(server, challenge.scopes).await;
    };
    let scopes = if challenge.scopes.is_empty() { resource.scopes_supported } else { challenge.scopes };
    if resource.authorization_servers.is_empty() {
        return own_authorization_server(server, scopes).await;
    }
    for issuer in
        resource.authorization_servers.iter().filter(|issuer| may_follow(server, issuer)).take(SERVERS)
    {
        for url in metadata_urls(issuer) {
            if let Some(mut metadata) = fetch(&url, ExpectedIssuer::Exactly(issuer), server).await? {
                metadata.resource = Some(resource.resource);
                if !scopes.is_empty() {
                    metadata.scopes = scopes;
                }
                return Ok(Some(metadata));
            }
        }
    }
    // Looking elsewhere would send the person to somebody the server has not named.
    Err(OauthError::Unreadable("none of the authorization servers that it names can be used".to_owned()))
}

async fn protected_resource(
    server: &Url,
    challenge: &AuthChallenge,
) -> Result<Option<ProtectedResource>, OauthError> {
    let advertised = challenge.resource_metadata.clone().filter(|url| may_follow(server, url));
    let guessed = well_known(server, "oauth-protected-resource");
    for url in advertised.into_iter().chain(guessed) {
        let Some(document) = document(&url).await? else { continue };
        let Ok(resource) = ProtectedResource::deserialize(document) else { continue };
        if is_part_of(server, &resource.resource) {
            return Ok(Some(resource));
        }
        tracing::debug!(resource = resource.resource, "metadata of another resource was ignored");
    }
    Ok(None)
}

async fn own_authorization_server(
    server: &Url,
    scopes: Vec<String>,
) -> Result<Option<OauthMetadata>, OauthError> {
    let mut urls = metadata_urls(server);
    urls.extend(well_known(server, "oauth-authorization-server"));
    urls.dedup();
    for url in urls {
        if let Some(mut metadata) = fetch(&url, ExpectedIssuer::Near(server), server).await? {
            if !scopes.is_empty() {
                metadata.scopes = scopes;
            }
            return Ok(Some(metadata));
        }
    }
    Ok(None)
}

async fn document(url: &Url) -> Result<Option<Value>, OauthError> {
    let (status, document) = web::get(url).await?;
    Ok(document.filter(|_| status == 200))
}

/// The metadata at an address, if it is usable.
async fn fetch(
    url: &Url,
    issuer: ExpectedIssuer<'_>,
    server: &Url,
) -> Result<Option<OauthMetadata>, OauthError> {
    let Some(document) = document(url).await? else { return Ok(None) };
    let Ok(found) = AuthorizationServer::deserialize(document) else { return Ok(None) };
    let endpoints = [
        Some(&found.authorization_endpoint),
        Some(&found.token_endpoint),
        found.registration_endpoint.as_ref(),
    ];
    if !issuer.fits(found.issuer.as_deref())
        || !endpoints.into_iter().flatten().all(|url| may_follow(server, url))
    {
        tracing::debug!("metadata that does not fit the server was ignored");
        return Ok(None);
    }
    if found
        .code_challenge_methods_supported
        .is_some_and(|methods| !methods.iter().any(|method| method == "S256"))
    {
        return Err(OauthError::NoPkce);
    }
    let methods = &found.token_endpoint_auth_methods_supported;
    let takes = |name: &str| methods.iter().any(|method| method == name);
    Ok(Some(OauthMetadata {
        secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
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
    fn fits(&self, named: Option<&str>) -> bool {
        let named = named.map(Url::parse);
        match (self, named) {
            (ExpectedIssuer::Exactly(expected), Some(Ok(named))) => same_address(expected, &named),
            (ExpectedIssuer::Near(server), Some(Ok(named))) => server.origin() == named.origin(),
            (ExpectedIssuer::Near(_), None) => true,
            _ => false,
        }
    }
}

fn same_address(one: &Url, two: &Url) -> bool {
    one.as_str().trim_end_matches('/') == two.as_str().trim_end_matches('/')
}

/// Whether the server's own words may lead there: never from an encrypted address to one that is not.
fn may_follow(server: &Url, url: &Url) -> bool {
    match url.scheme() {
        "https" => true,
        "http" => server.scheme() == "http",
        _ => false,
    }
}

/// Whether a resource is the server or a part of the address above it.
fn is_part_of(server: &Url, resource: &str) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (path, above) = (server.path(), resource.path().trim_end_matches('/'));
    let inside = path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    server.origin() == resource.origin() && inside
}

/// Where the metadata of an authorization server may be, the likeliest first.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at(issuer, path)).collect()
}

/// Where a document about an address may be: below the well-known path, below its own, at the root.
fn well_known(server: &Url, name: &str) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/{name}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/{name}"));
        paths.push(format!("/.well-known/{name}"));
    }
    paths.iter().map(|path| at(server, path)).collect()
}

fn at(server: &Url, path: &str) -> Url {
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
    fn documents_are_looked_for_where_they_may_be() {
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
            assert_eq!(is_part_of(&url("https://x/a/mcp"), resource), expected, "{resource}")
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
    fn issuers_must_fit() {
        let (issuer, server) = (url("https://as/t"), url("https://x/mcp"));
        assert!(ExpectedIssuer::Exactly(&issuer).fits(Some("https://as/t/")));
        assert!(!ExpectedIssuer::Exactly(&issuer).fits(Some("https://as")));
        assert!(!ExpectedIssuer::Exactly(&issuer).fits(None));
        assert!(ExpectedIssuer::Near(&server).fits(Some("https://x")));
        assert!(ExpectedIssuer::Near(&server).fits(None));
        assert!(!ExpectedIssuer::Near(&server).fits(Some("https://evil")));
    }

    #[test]
    fn encryption_is_not_given_up() {
        assert!(may_follow(&url("https://x"), &url("https://y")));
        assert!(!may_follow(&url("https://x"), &url("http://y")));
        assert!(may_follow(&url("http://127.0.0.1"), &url("http://127.0.0.1:7")));
        assert!(!may_follow(&url("http://x"), &url("file:///etc/passwd")));
    }
}
