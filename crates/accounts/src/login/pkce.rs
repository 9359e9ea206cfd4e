//! Proof that who exchanges a code is who asked for it (RFC 7636), and other random words.

use std::io;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use codicil_protocol::Secret;
use sha2::{Digest, Sha256};

/// A secret and what may be shown of it.
#[derive(Debug)]
pub(crate) struct Pkce {
    pub verifier: Secret,
    pub challenge: String,
}

impl Pkce {
    pub fn new() -> io::Result<Self> {
        let verifier = random_word::<64>()?;
        let challenge = challenge(&verifier);
        Ok(Self { verifier: verifier.into(), challenge })
    }
}

/// What anybody can make of the verifier, and nobody back from it.
fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(verifier))
}

/// A word that nobody can guess.
pub(crate) fn random_word<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        let (one, other) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_ne!(one.challenge, other.challenge);
        assert!((43..=128).contains(&one.verifier.reveal().len()));
        assert!(!format!("{one:?}").contains(one.verifier.reveal()));
    }
}
