//! Whoever is at the other end.

use std::sync::Arc;

use http::HeaderMap;

use super::{Identity, Presented, bearer};
use crate::{serve::Link, server::Core};

/// The sender of a request, as far as the connection tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Caller {
    /// Who it is; `None` for strangers.
    pub(crate) identity: Option<Identity>,
    /// The client certificate, if that is where the identity is from.
    pub(crate) certificate: Option<Arc<Presented>>,
    /// The connection; `None` in process.
    pub(crate) link: Option<Arc<Link>>,
}

impl Caller {
    /// Somebody in this process.
    pub(crate) fn inside(identity: Option<Identity>) -> Self {
        Self {
            identity,
            ..Self::default()
        }
    }

    /// Somebody with (or without) a certificate.
    pub(crate) fn outside(certificate: Option<Presented>, link: Arc<Link>) -> Self {
        Self {
            identity: certificate.as_ref().map(|c| c.identity.clone()),
            certificate: certificate.map(Arc::new),
            link: Some(link),
        }
    }

    /// Somebody in this process who has a certificate.
    pub(crate) fn inside_with(certificate: Presented) -> Self {
        Self {
            identity: Some(certificate.identity.clone()),
            certificate: Some(Arc::new(certificate)),
            link: None,
        }
    }

    /// Whether there is a certificate that has neither ended nor been revoked.
    pub(crate) fn has_good_certificate(&self, core: &Core) -> bool {
        let Some(certificate) = &self.certificate else {
            return false;
        };
        let over = certificate.not_after < (core.clock)();
        if over || core.revoked.read().has(certificate) {
            tracing::debug!(user = %certificate.identity.user, over, "a client certificate is not taken any longer");
            return false;
        }
        true
    }

    /// The same at the time of one request: a certificate that has ended or been revoked since the connection began is none.
    /// As in Kubernetes the certificate is asked first, a bearer token where it names nobody.
    #[must_use]
    pub(crate) fn authenticated(mut self, core: &Core, headers: &HeaderMap) -> Self {
        if self.certificate.is_some() && !self.has_good_certificate(core) {
            self.identity = None;
        }
        if self.identity.is_none()
            && let Some(token) = bearer(headers)
        {
            match core.account(token, &Core::audiences()) {
                Ok((identity, _)) => {
                    self.identity = Some(identity);
                    self.certificate = None;
                }
                Err(error) => tracing::debug!(%error, "a bearer token was refused"),
            }
        }
        self.identity = self.identity.map(Identity::with_everybody);
        self
    }
}
