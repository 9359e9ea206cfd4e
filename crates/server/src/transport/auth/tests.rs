use serde_json::{Value, json};

use super::*;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW: f64 = 1_800_000_000.0;

fn signed(issuer: Option<&str>, audience: Option<&str>) -> SignedTokenRules {
    SignedTokenRules {
        secret: TokenSecret(SECRET.to_vec()),
        issuer: issuer.map(str::to_owned),
        audience: audience.map(str::to_owned),
        max_clock_skew_seconds: 5,
    }
}

fn part(value: &Value) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(value.to_string())
}

fn token_with(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let body = format!("{}.{}", part(header), part(claims));
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(body.as_bytes());
    format!("{body}.{}", BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()))
}

fn token(claims: Value) -> String {
    token_with(&json!({ "alg": "HS256", "typ": "JWT" }), &claims, SECRET)
}

fn good() -> Value {
    json!({ "exp": NOW + 600.0 })
}

#[test]
fn times_are_checked_with_the_clock_skew() {
    let check = |claims: Value, expected: bool| {
        let verified = signed(None, None).accepts_token(&token(claims.clone()), NOW);
        assert_eq!(verified, expected, "{claims}");
    };
    check(good(), true);
    check(json!({ "exp": 1_800_000_600_i64 }), true);
    check(json!({ "exp": 1_800_000_000.25 }), true);
    check(json!({ "exp": NOW - 4.5 }), true);
    check(json!({ "exp": NOW - 5.5 }), false);
    check(json!({ "exp": 0 }), false);
    check(json!({ "exp": -1e300 }), false);
    check(json!({ "exp": "1800000600" }), false);
    check(json!({ "exp": null }), false);
    check(json!({}), false);
    check(json!({ "exp": NOW + 600.0, "nbf": NOW - 1.0 }), true);
    check(json!({ "exp": NOW + 600.0, "nbf": NOW + 4.5 }), true);
    check(json!({ "exp": NOW + 600.0, "nbf": NOW + 5.5 }), false);
    check(json!({ "exp": NOW + 600.0, "nbf": "soon" }), false);
    check(json!({ "exp": NOW + 600.0, "nbf": null }), true);
}

#[test]
fn issuer_and_audience_must_match() {
    let check = |extra: Value, expected: bool| {
        let mut claims = good();
        claims.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let verified = signed(Some("iss-1"), Some("aud-1")).accepts_token(&token(claims.clone()), NOW);
        assert_eq!(verified, expected, "{claims}");
        assert!(signed(None, None).accepts_token(&token(claims.clone()), NOW), "without rules: {claims}");
    };
    check(json!({ "iss": "iss-1", "aud": "aud-1" }), true);
    check(json!({ "iss": "iss-1", "aud": ["x", "aud-1"] }), true);
    check(json!({ "iss": "iss-1", "aud": [] }), false);
    check(json!({ "iss": "iss-1", "aud": "aud-2" }), false);
    check(json!({ "iss": "iss-1", "aud": "aud-1 " }), false);
    check(json!({ "iss": "iss-2", "aud": "aud-1" }), false);
    check(json!({ "iss": "iss-1" }), false);
    check(json!({ "aud": "aud-1" }), false);
}

#[test]
fn only_tokens_signed_with_the_secret_and_hs256_are_accepted() {
    let check = |what: &str, token: &str, expected: bool| {
        assert_eq!(signed(None, None).accepts_token(token, NOW), expected, "{what}: {token}");
    };
    let hs256 = json!({ "alg": "HS256" });
    let right = token_with(&hs256, &good(), SECRET);
    check("right", &right, true);
    check("another secret", &token_with(&hs256, &good(), b"another-secret-another-secret-32"), false);
    for algorithm in ["none", "None", "HS512", "hs256", "RS256", ""] {
        check("algorithm", &token_with(&json!({ "alg": algorithm }), &good(), SECRET), false);
    }
    check("no algorithm", &token_with(&json!({}), &good(), SECRET), false);
    let unsigned = format!("{}.{}.", part(&json!({ "alg": "none" })), part(&good()));
    check("none, unsigned", &unsigned, false);
    check("HS256, unsigned", &format!("{}.{}.", part(&hs256), part(&good())), false);

    let (body, signature) = right.rsplit_once('.').unwrap();
    let longer = format!("{}.{}", part(&hs256), part(&json!({ "exp": NOW + 1e6 })));
    check("other claims, same signature", &format!("{longer}.{signature}"), false);
    check("cut signature", &format!("{body}.{}", &signature[..signature.len() - 4]), false);
    check("no signature", body, false);
    for garbage in ["", ".", "..", "...", "abc", "a.b.c", "€.€.€"] {
        check("garbage", garbage, false);
    }
}

#[test]
fn a_token_with_critical_extensions_is_refused() {
    for critical in [json!(["b64"]), json!(["exp"]), json!(["alg"]), json!([]), json!(null), json!("b64")] {
        let header = json!({ "alg": "HS256", "crit": critical, "b64": true });
        let token = token_with(&header, &good(), SECRET);
        assert!(!signed(None, None).accepts_token(&token, NOW), "{header}");
    }
    let harmless = token_with(&json!({ "alg": "HS256", "b64": true, "kid": "1" }), &good(), SECRET);
    assert!(signed(None, None).accepts_token(&harmless, NOW), "other members are ignored");
}

#[test]
fn the_authorization_header_carries_the_token() {
    let auth = WsAuth::Capability(TokenSecret(b"s3cret".to_vec()));
    let check = |header: Option<&str>, expected: bool| {
        assert_eq!(auth.allows(header), expected, "{header:?}");
        assert!(WsAuth::None.allows(header));
    };
    check(Some("Bearer s3cret"), true);
    check(Some("bearer s3cret"), true);
    check(Some("Bearer  s3cret "), true);
    check(Some("Bearer s3cre"), false);
    check(Some("Bearer s3cret2"), false);
    check(Some("Bearer S3CRET"), false);
    check(Some("Basic s3cret"), false);
    check(Some("s3cret"), false);
    check(Some("Bearer"), false);
    check(Some("Bearer "), false);
    check(Some(""), false);
    check(None, false);
}

#[test]
fn secrets_are_read_from_files_and_trimmed() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    assert!(WsAuth::capability(&file("token", "s3cret\n")).unwrap().allows(Some("Bearer s3cret")));
    let refused = |auth: Result<WsAuth, AuthError>, reason: &str| {
        let error = auth.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    };
    refused(WsAuth::capability(&file("empty", " \n")), "is empty");
    refused(WsAuth::capability(&folder.path().join("missing")), "cannot read the token file");
    let short = file("short", &"x".repeat(31));
    refused(WsAuth::signed(&short, None, None, 30), "is too short: it needs at least 32 bytes");
    assert!(WsAuth::signed(&file("long", &"x".repeat(32)), None, None, 30).is_ok());
}

#[test]
fn secrets_are_not_printed() {
    let shown = format!("{:?}", WsAuth::Signed(signed(None, None)));
    assert!(shown.contains("***") && !shown.contains("0123"), "{shown}");
    assert!(!format!("{:?}", WsAuth::Capability(TokenSecret(b"0123".to_vec()))).contains("0123"));
}

#[test]
fn the_token_of_a_server_is_accepted_by_servers_with_the_same_authentication() {
    for rules in [signed(None, None), signed(Some("cluster"), Some("nodes"))] {
        let own = rules.sign_token(NOW).unwrap();
        assert!(rules.accepts_token(&own, NOW) && !rules.accepts_token(&own, NOW + 120.0));
        assert!(!signed(Some("other"), None).accepts_token(&own, NOW));
    }
    let auth = WsAuth::Capability(TokenSecret(b"the token".to_vec()));
    assert!(auth.allows(Some(&format!("Bearer {}", auth.own_token().unwrap()))));
    assert_eq!(WsAuth::None.own_token(), None);
}
