//! Connections with TLS, to a server whose certificate was made for the test.

use std::{fs, net::TcpListener, process::Command};

use codicil_store_postgres::{DatabaseAddress, PostgresError, PostgresStore};

use crate::database::{TestPostgres, skipped};

#[tokio::test]
async fn a_certificate_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &path("key"), "-out", &path("certificate")])
        .output();
    if !made.is_ok_and(|made| made.status.success()) {
        return skipped("openssl is missing");
    }
    let read = |name: &str| fs::read_to_string(path(name)).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(_server) = TestPostgres::start_tls(port, &read("certificate"), &read("key")) else { return };
    let open = async |parameters: String| {
        let url = format!("postgres://postgres@localhost:{port}/postgres?hostaddr=127.0.0.1&{parameters}");
        PostgresStore::open(DatabaseAddress::parse(&url).unwrap()).await
    };

    let trusted = format!("sslmode=verify-full&sslrootcert={}", path("certificate"));
    assert!(open(trusted).await.is_ok());
    // The system does not know the authority.
    let error = open("sslmode=require".to_owned()).await.err().unwrap();
    assert!(matches!(&error, PostgresError::Unavailable(reason) if reason.contains("ertificate")), "{error}");
}
