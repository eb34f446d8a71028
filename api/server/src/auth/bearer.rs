//! Bearer tokens: who is behind them.

use http::{HeaderMap, header};
use serde_json::Value;

use super::{
    Identity,
    token::{Claims, ISSUER, LEEWAY, Named, TokenError},
};
use crate::{
    object::{meta, text},
    server::Core,
};

/// Key of the extra that tells which token it was.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The token a request carries.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.split(' ').next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Core {
    /// Whom tokens are for if they say nothing else.
    pub(crate) fn audiences() -> Vec<String> {
        vec![ISSUER.to_owned()]
    }

    /// The service account behind a token for one of `audiences`, and which of them the token is for.
    ///
    /// # Errors
    /// Why it is nobody's.
    pub(crate) fn account(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(Identity, Vec<String>), TokenError> {
        let key = self.tokens.as_ref().ok_or(TokenError::Invalid)?;
        let claims = key.read(token, audiences, (self.clock)())?;
        let private = &claims.kubernetes;
        let (namespace, name) = (&private.namespace, &private.serviceaccount.name);
        let user = format!("system:serviceaccount:{namespace}:{name}");
        if claims.sub != user {
            return Err(TokenError::Invalid);
        }
        let account = self.lives("ServiceAccount", namespace, name).ok_or_else(|| {
            TokenError::Gone(format!("service account {namespace}/{name} has been deleted"))
        })?;
        let uid = meta(&account, "uid");
        if uid != private.serviceaccount.uid {
            return Err(TokenError::Gone(format!(
                "service account UID ({uid}) does not match claim ({})",
                private.serviceaccount.uid
            )));
        }
        for (kind, bound) in [("Pod", &private.pod), ("Secret", &private.secret)] {
            let Some(Named { name, uid }) = bound else {
                continue;
            };
            let object = self.lives(kind, namespace, name).ok_or(TokenError::Invalidated)?;
            if meta(&object, "uid") != uid {
                return Err(TokenError::Invalidated);
            }
        }
        let mut identity = Identity::new(
            user,
            [
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ],
        );
        identity.uid = uid.to_owned();
        identity.extra = extra(&claims);
        let meant = audiences.iter().filter(|a| claims.aud.contains(a));
        Ok((identity.with_everybody(), meant.cloned().collect()))
    }

    /// An object that is there and was not deleted a while ago.
    fn lives(&self, kind: &str, namespace: &str, name: &str) -> Option<Value> {
        let object = self.read("v1", kind, namespace, name)?;
        let now = (self.clock)().as_second();
        let deleted = text(&object, &["metadata", "deletionTimestamp"])
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
            .is_some_and(|at| at.as_second() < now.saturating_sub(LEEWAY));
        (!deleted).then_some(object)
    }
}

fn extra(claims: &Claims) -> std::collections::BTreeMap<String, Vec<String>> {
    let mut extra: std::collections::BTreeMap<_, _> =
        [(CREDENTIAL.to_owned(), vec![format!("JTI={}", claims.jti)])].into();
    if let Some(pod) = &claims.kubernetes.pod {
        let key = |word: &str| format!("authentication.kubernetes.io/pod-{word}");
        extra.insert(key("name"), vec![pod.name.clone()]);
        extra.insert(key("uid"), vec![pod.uid.clone()]);
    }
    extra
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn where_a_token_is_found() {
        for (value, want) in [
            ("Bearer abc", Some("abc")),
            ("bearer abc more", Some("abc")),
            ("  BEARER abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("Bearerabc", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            assert_eq!(bearer(&headers), want, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
