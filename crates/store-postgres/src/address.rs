//! The address of a database, and TLS for it.

use std::{fmt, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, pem::PemObject},
};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::{
    Config,
    config::{SslMode, TargetSessionAttrs},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::form_urlencoded;

use crate::error::{PostgresError, Result};

/// The maximum time to connect, unless the address says otherwise.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The address of a database: `postgres://user:password@host/database?sslmode=require`.
///
/// Where TLS is used, the certificate is always verified: `require`, `verify-ca` and `verify-full` are the same. The
/// authorities are those of the system, or those in the file that `sslrootcert` names.
#[derive(Clone)]
pub struct DatabaseAddress {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
}

impl fmt::Debug for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = self.config.get_hosts();
        f.debug_struct("DatabaseAddress").field("hosts", &hosts).finish_non_exhaustive()
    }
}

impl DatabaseAddress {
    pub fn parse(url: &str) -> Result<Self> {
        let AddressParts { url, root_certificates } = AddressParts::of(url);
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            PostgresError::InvalidAddress(cause.unwrap_or_else(|| error.to_string()))
        })?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(PostgresError::InvalidAddress("it has no host".to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        if config.get_application_name().is_none() {
            config.application_name("codicil");
        }
        // Of several hosts, the one that accepts writes is used: after a failover that is another one.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.tcp_user_timeout(CONNECT_TIME);
        let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let tls = match (config.get_ssl_mode(), root_certificates) {
            (_, Some(path)) => tls.with_root_certificates(read_certificates(&path)?),
            // Without TLS, nothing is verified, and the certificates of the system need not be there.
            (SslMode::Disable, None) => tls.with_root_certificates(RootCertStore::empty()),
            (_, None) => tls.with_platform_verifier()?,
        };
        Ok(Self { config, tls: MakeRustlsConnect::new(tls.with_no_client_auth()) })
    }
}

/// An address without the parameters that `tokio_postgres` does not know.
#[derive(Debug, PartialEq, Eq)]
struct AddressParts {
    url: String,
    /// The path of `sslrootcert`.
    root_certificates: Option<String>,
}

impl AddressParts {
    fn of(address: &str) -> Self {
        let is_url = address.starts_with("postgres://") || address.starts_with("postgresql://");
        let Some((base, query)) = address.split_once('?').filter(|_| is_url) else {
            return Self { url: address.to_owned(), root_certificates: None };
        };
        let mut root_certificates = None;
        let mut kept = Vec::new();
        for parameter in query.split('&') {
            // Unlike in forms, a plus sign is no space here.
            let plain = parameter.replace('+', "%2B");
            match form_urlencoded::parse(plain.as_bytes()).next() {
                Some((name, path)) if name == "sslrootcert" => root_certificates = Some(path.into_owned()),
                Some((name, mode)) if name == "sslmode" && mode.starts_with("verify-") => {
                    kept.push("sslmode=require");
                }
                _ => kept.push(parameter),
            }
        }
        Self { url: format!("{base}?{}", kept.join("&")), root_certificates }
    }
}

fn read_certificates(path: &str) -> Result<RootCertStore> {
    let failed = |reason: String| {
        PostgresError::InvalidAddress(format!("cannot read the certificates in {path}: {reason}"))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))? {
        roots.add(certificate.map_err(|error| failed(error.to_string()))?)?;
    }
    if roots.is_empty() {
        return Err(failed("it has none".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_tls_are_understood() {
        let check = |address: &str, url: &str, root_certificates: Option<&str>| {
            let root_certificates = root_certificates.map(str::to_owned);
            assert_eq!(AddressParts::of(address), AddressParts { url: url.to_owned(), root_certificates });
        };
        check("postgres://a/b", "postgres://a/b", None);
        check("postgres://a/b?sslmode=verify-full", "postgres://a/b?sslmode=require", None);
        check(
            "postgres://a/b?sslrootcert=%2Fx+y.pem&sslmode=prefer",
            "postgres://a/b?sslmode=prefer",
            Some("/x+y.pem"),
        );
        check("host=a sslmode=require", "host=a sslmode=require", None);
    }

    #[test]
    fn an_address_without_a_host_or_with_unknown_parameters_is_refused() {
        for address in
            ["", "postgres://", "dbname=x", "postgres://a/b?colour=red", "postgres://a/b?sslrootcert=/none"]
        {
            let error = DatabaseAddress::parse(address).unwrap_err();
            assert!(matches!(error, PostgresError::InvalidAddress(_)), "{address}: {error}");
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let address = DatabaseAddress::parse("postgres://me:secret@host/db?sslmode=disable").unwrap();
        assert!(!format!("{address:?}").contains("secret"));
    }
}
