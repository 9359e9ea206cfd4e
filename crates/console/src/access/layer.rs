//! The session layer: sign-in and the checks of every request, around any routes.
//!
//! The console's own routes are behind it, and those of a product can be: `examples/desktop` of the crate `agents` puts the
//! windows of a pool behind it.

use std::{io, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{get, post},
};

use super::{
    AllowedHosts, EndedSessions, SessionKey, SignIn, SignInLinks, guard, sign_in, sign_in_page, sign_out,
};
use crate::assets;

/// Who may use the routes behind a [`SessionLayer`].
pub struct AccessControl {
    pub key: SessionKey,
    pub sign_in: SignIn,
    pub links: SignInLinks,
    pub ended: EndedSessions,
    pub hosts: AllowedHosts,
    /// The name of the session's cookie. It has the port, because cookies of a host do not.
    pub cookie: String,
    /// Whether browsers reach the routes over TLS.
    pub is_behind_tls: bool,
    address: SocketAddr,
}

/// Sign-in, sessions and the checks of every request.
///
/// Handlers behind it get the [`Session`](super::Session) and, of a changing request, the [`FormFields`](super::FormFields)
/// as extensions. Every changing request carries the session's token, as the field `csrf` or the header `x-csrf-token`.
#[derive(Clone)]
pub struct SessionLayer(Arc<AccessControl>);

impl SessionLayer {
    /// Creates the layer of a server that listens on this address.
    pub fn new(key: SessionKey, sign_in: SignIn, address: SocketAddr) -> Self {
        Self(Arc::new(AccessControl {
            key,
            sign_in,
            links: SignInLinks::default(),
            ended: EndedSessions::default(),
            hosts: AllowedHosts::default(),
            cookie: format!("codicil_console_{}", address.port()),
            is_behind_tls: false,
            address,
        }))
    }

    /// Answers also under these names, which a proxy uses, and restricts cookies to TLS if browsers reach the proxy so.
    #[must_use]
    pub fn behind_proxy(mut self, names: Vec<String>, is_behind_tls: bool) -> Self {
        if let Some(access) = Arc::get_mut(&mut self.0) {
            access.hosts.names = names;
            access.is_behind_tls = is_behind_tls;
        }
        self
    }

    /// Creates a link that signs in one browser, once. Fails if no random numbers are available.
    pub fn sign_in_link(&self) -> io::Result<String> {
        let token = self.0.links.create()?;
        let host = match self.0.address {
            address if address.ip().is_unspecified() => format!("localhost:{}", address.port()),
            address => address.to_string(),
        };
        Ok(format!("http://{host}/sign-in?token={token}"))
    }

    /// Returns routes that only signed-in browsers reach, with the sign-in page and its stylesheet.
    pub fn protect(&self, routes: Router) -> Router {
        let own = Router::new()
            .route("/sign-in", get(sign_in_page).post(sign_in))
            .route("/sign-out", post(sign_out))
            .route("/assets/{name}", get(assets::asset))
            .with_state(self.0.clone());
        routes.merge(own).layer(from_fn_with_state(self.0.clone(), guard))
    }

    pub(crate) fn access(&self) -> Arc<AccessControl> {
        self.0.clone()
    }
}
