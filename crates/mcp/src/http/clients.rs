//! The HTTP client of this crate: that of the whole program, which follows a server to another of its addresses.

use std::time::Duration;

use codicil_http::{RedirectPolicy, http_client_with};
use reqwest::{Client, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Who asks, where a request does not say otherwise.
pub(crate) const USER_AGENT: &str = concat!("codicil/", env!("CARGO_PKG_VERSION"));

/// The client for requests to an address, or why there is none.
pub(crate) async fn client_for(url: &Url) -> Result<Client, String> {
    let client = http_client_with(url, CONNECT_TIMEOUT, RedirectPolicy::WithinServer).await;
    client.map_err(|error| error.to_string())
}
