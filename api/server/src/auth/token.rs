//! Tokens of service accounts: JSON web tokens signed with ES256 (RFC 7519, RFC 7518 3.4).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use jiff::Timestamp;
use rcgen::KeyPair;
use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
        UnparsedPublicKey,
    },
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::AuthorityError;

/// Who tokens are from, and whom they are for unless they say otherwise: what a cluster calls its own API server.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How far clocks may be apart, in seconds.
pub(crate) const LEEWAY: i64 = 60;

/// Longest token that is looked at, in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// The key that tokens of service accounts are signed with. Whoever has it can be any service account.
pub struct TokenKey {
    pair: EcdsaKeyPair,
    pem: String,
    id: String,
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenKey")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// An object a token names: what has another uid is another object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// What a token says of the cluster it is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Private {
    pub(crate) namespace: String,
    pub(crate) serviceaccount: Named,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<Named>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<Named>,
}

/// What a token says. Times are seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) aud: Vec<String>,
    pub(crate) exp: i64,
    pub(crate) iat: i64,
    pub(crate) iss: String,
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io")]
    pub(crate) kubernetes: Private,
    pub(crate) nbf: i64,
    pub(crate) sub: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// Why a token says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("invalid bearer token")]
    Invalid,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    TooEarly,
    #[error("token audiences {have} is invalid for the target audiences {want}")]
    Audience { have: String, want: String },
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("{0}")]
    Gone(String),
}

fn unusable(error: impl std::fmt::Display) -> AuthorityError {
    AuthorityError::TokenKey(error.to_string())
}

impl TokenKey {
    /// A new key.
    ///
    /// # Errors
    /// If the system gives no randomness for it.
    pub fn generate() -> Result<Self, AuthorityError> {
        let pair = KeyPair::generate().map_err(unusable)?;
        Self::from_pem(&pair.serialize_pem())
    }

    /// The key of an earlier start, from what [`TokenKey::pem`] gave.
    ///
    /// # Errors
    /// If it is damaged or no P-256 key.
    pub fn from_pem(pem: &str) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(pem).map_err(unusable)?;
        let der = key.serialize_der();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new())
            .map_err(unusable)?;
        Ok(Self {
            id: BASE64.encode(Sha256::digest(pair.public_key().as_ref())),
            pair,
            pem: pem.to_owned(),
        })
    }

    /// The private key, PEM. Keep it: with another one all tokens end.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A token that says this. `None` if the system gives no randomness.
    pub(crate) fn sign(&self, claims: &Claims) -> Option<String> {
        let header = Header {
            alg: "ES256".to_owned(),
            kid: self.id.clone(),
        };
        let encode = |bytes: Vec<u8>| BASE64.encode(bytes);
        let header = encode(serde_json::to_vec(&header).ok()?);
        let signed = format!("{header}.{}", encode(serde_json::to_vec(claims).ok()?));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).ok()?;
        Some(format!("{signed}.{}", BASE64.encode(signature)))
    }

    /// What a token says, if this key signed it, it is of its time, and it is for one of `audiences`. Whether what it names
    /// is still there is for the caller to see.
    ///
    /// # Errors
    /// Why it says nothing.
    pub(crate) fn read(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<Claims, TokenError> {
        let claims = self.signed(token).ok_or(TokenError::Invalid)?;
        let now = now.as_second();
        if claims.iss != ISSUER {
            return Err(TokenError::Invalid);
        }
        if !claims.aud.iter().any(|a| audiences.contains(a)) {
            return Err(TokenError::Audience {
                have: super::quoted(&claims.aud),
                want: super::quoted(audiences),
            });
        }
        if now.saturating_sub(LEEWAY) > claims.exp {
            return Err(TokenError::Expired);
        }
        if now.saturating_add(LEEWAY) < claims.nbf {
            return Err(TokenError::TooEarly);
        }
        Ok(claims)
    }

    fn signed(&self, token: &str) -> Option<Claims> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Header = serde_json::from_slice(&BASE64.decode(header).ok()?).ok()?;
        // The key decides on the algorithm, never the token.
        if header.alg != "ES256" || header.kid != self.id {
            return None;
        }
        let signature = BASE64.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        serde_json::from_slice(&BASE64.decode(claims).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> Claims {
        Claims {
            aud: vec![ISSUER.to_owned()],
            exp: 2_000,
            iat: 1_000,
            iss: ISSUER.to_owned(),
            jti: "j".to_owned(),
            kubernetes: Private {
                namespace: "team".to_owned(),
                serviceaccount: Named {
                    name: "web".to_owned(),
                    uid: "u".to_owned(),
                },
                pod: None,
                secret: None,
            },
            nbf: 1_000,
            sub: "system:serviceaccount:team:web".to_owned(),
        }
    }

    fn read(key: &TokenKey, token: &str, audience: &str, now: i64) -> Result<Claims, TokenError> {
        key.read(
            token,
            &[audience.to_owned()],
            Timestamp::from_second(now).unwrap(),
        )
    }

    #[test]
    fn tokens_are_of_their_time_and_for_somebody() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&claims()).unwrap();
        let after = TokenKey::from_pem(key.pem()).unwrap();
        assert_eq!(read(&after, &token, ISSUER, 1_500), Ok(claims()));
        assert_eq!(read(&key, &token, ISSUER, 2_060), Ok(claims()));
        assert_eq!(read(&key, &token, ISSUER, 2_061), Err(TokenError::Expired));
        assert_eq!(read(&key, &token, ISSUER, 939), Err(TokenError::TooEarly));
        assert_eq!(
            read(&key, &token, "vault", 1_500).unwrap_err().to_string(),
            r#"token audiences ["https://kubernetes.default.svc.cluster.local"] is invalid for the target audiences ["vault"]"#
        );
        let other = TokenKey::generate().unwrap();
        assert_eq!(read(&other, &token, ISSUER, 1_500), Err(TokenError::Invalid));
        let elsewhere = Claims {
            iss: "https://example.org".to_owned(),
            ..claims()
        };
        let token = key.sign(&elsewhere).unwrap();
        assert_eq!(read(&key, &token, ISSUER, 1_500), Err(TokenError::Invalid));
    }

    #[test]
    fn tokens_of_other_algorithms_are_none() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&claims()).unwrap();
        let parts: Vec<&str> = token.split('.').collect();
        for alg in ["none", "HS256", "RS256", "es256"] {
            let header = BASE64.encode(format!(r#"{{"alg":"{alg}","kid":"{}"}}"#, key.id));
            for signature in ["", parts[2]] {
                let forged = format!("{header}.{}.{signature}", parts[1]);
                assert_eq!(
                    read(&key, &forged, ISSUER, 1_500),
                    Err(TokenError::Invalid),
                    "{alg}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_changed_token_is_none(at in 0_usize..400, to in "[A-Za-z0-9_.-]") {
            let key = TokenKey::generate().unwrap();
            let token = key.sign(&claims()).unwrap();
            let at = at % token.len();
            let mut changed = token.clone();
            changed.replace_range(at..=at, &to);
            prop_assume!(changed != token);
            prop_assert!(read(&key, &changed, ISSUER, 1_500).is_err());
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,60}|([A-Za-z0-9_-]{0,20}\\.){2}[A-Za-z0-9_-]{0,20}") {
            let key = TokenKey::generate().unwrap();
            prop_assert_eq!(read(&key, &text, ISSUER, 1_500), Err(TokenError::Invalid));
        }
    }
}
