//! Both kinds of websocket authentication, from the flags to the handshake.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::websocket::{handshake, listener};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn token(claims: &Value, secret: &str) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let body = format!("{}.{}", part(&json!({ "alg": "HS256" })), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

async fn attempt(address: &str, token: &str) -> u16 {
    handshake(address, Some(("authorization", &format!("Bearer {token}")))).await
}

#[tokio::test]
async fn a_capability_token_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    fs::write(&file, "s3cret-token-value\n").unwrap();
    let (mut process, address, _home) =
        listener(&["--ws-auth", "capability-token", "--ws-token-file", file.to_str().unwrap()]).await;
    assert_eq!(handshake(&address, None).await, 401);
    assert_eq!(attempt(&address, "nope").await, 401);
    assert_eq!(handshake(&address, Some(("authorization", "Basic s3cret-token-value"))).await, 401);
    assert_eq!(attempt(&address, "s3cret-token-value").await, 101);
    // A proxy in front of the server may have any name.
    assert_eq!(handshake(&address, Some(("host", "codicil.example"))).await, 401, "not 403");
    process.terminate();
    process.expect_success().await;
    assert!(!process.whole_stderr().await.contains("s3cret"), "secrets are not logged");
}

#[tokio::test]
async fn a_valid_signed_token_is_required() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, SECRET).unwrap();
    let file = file.to_str().unwrap();
    let mut flags = vec!["--ws-auth", "signed-bearer-token", "--ws-shared-secret-file", file];
    flags.extend(["--ws-issuer", "iss-1", "--ws-audience", "aud-1", "--ws-max-clock-skew-seconds", "60"]);
    let (mut process, address, _home) = listener(&flags).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (claims, expected) in [
        (json!({ "iss": "iss-1", "aud": "aud-1", "exp": now + 600 }), 101),
        (json!({ "iss": "iss-1", "aud": ["x", "aud-1"], "exp": now + 600 }), 101),
        (json!({ "iss": "iss-1", "aud": "aud-1", "exp": now - 30 }), 101),
        (json!({ "iss": "iss-1", "aud": "aud-1", "exp": now - 120 }), 401),
        (json!({ "iss": "iss-1", "aud": "aud-1", "exp": now + 600, "nbf": now + 300 }), 401),
        (json!({ "iss": "iss-2", "aud": "aud-1", "exp": now + 600 }), 401),
        (json!({ "iss": "iss-1", "aud": "aud-2", "exp": now + 600 }), 401),
        (json!({ "iss": "iss-1", "aud": "aud-1" }), 401),
    ] {
        assert_eq!(attempt(&address, &token(&claims, SECRET)).await, expected, "{claims}");
    }
    let claims = json!({ "iss": "iss-1", "aud": "aud-1", "exp": now + 600 });
    assert_eq!(attempt(&address, &token(&claims, "another-secret-another-secret-32")).await, 401);
    assert_eq!(handshake(&address, None).await, 401);
    process.terminate();
    process.expect_success().await;
}
