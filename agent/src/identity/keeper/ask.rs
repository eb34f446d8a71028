//! One step of asking a hub for a credential.

use super::{JITTER, Keeper, State};
use crate::delay::spread;
use crate::error::{CallError, Fault};
use crate::identity::certificate::{digest, new_request};
use crate::identity::error::IdentityError;
use crate::identity::request::{Refusal, Seen, request, seen};
use crate::identity::stored::{Credential, Identity, Pending, Stored, Voucher};
use crate::member::{found, within};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};
use roundhouse_api::names::{AGENT_FIELD_MANAGER, AGENT_ROLE, AgentName, CLIENT_SIGNER};
use std::time::Duration;

/// A call that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a refusal stands before it is asked anew: what was in the way may have passed.
const PATIENCE: Duration = Duration::from_secs(600);
/// Signers that are there need seconds.
const SIGNING: SignedDuration = SignedDuration::from_secs(60);
/// What a hub says of a key that it has signed already: the agent was away when it could have fetched the certificate.
const SIGNED_BEFORE: &str = "a certificate was issued for the key of this request before";

/// What a step came to.
pub(super) enum Progress {
    /// The credential is there; it is not stored yet.
    Given(Box<Identity>),
    /// The next step is due.
    Again,
    /// A request that was in the way, for this reason, was cleared away: the next step is due.
    Cleared(&'static str),
    /// The hub, or somebody there, has to act.
    Waits { words: String, is_trouble: bool },
}

impl Keeper {
    pub(super) async fn ask(
        &self,
        state: &mut State,
        voucher: Voucher<'_>,
        now: Timestamp,
    ) -> Result<Progress, IdentityError> {
        let stored = &mut state.stored;
        let hub = (self.dial)(voucher.kubeconfig()?).await?;
        if voucher.is_for_token() {
            return self.token(&hub, voucher, now).await;
        }
        let pending = match &stored.pending {
            Some(pending) if pending.serial == voucher.serial() => pending.clone(),
            _ => self.new_key(stored, voucher).await?,
        };
        let name = AgentName::request(voucher.cluster());
        let api: Api<CertificateSigningRequest> = Api::all(hub);
        let live = found(within(TIMEOUT, api.get(&name)).await)
            .map_err(|error| IdentityError::call("reading the request for a certificate", &error))?;
        match seen(live.as_ref(), &pending, now) {
            Seen::Missing => self.make_request(&api, &name, stored, voucher, &pending).await,
            Seen::Waiting => waits(voucher, &pending),
            Seen::Unsigned(uid) => Ok(self.unsigned(&name, state.since.known(&uid, "approved", now))),
            Seen::Refused(refusal) => {
                let lasted = state.since.known(&refusal.uid, "refused", now);
                let is_over = lasted.unsigned_abs() >= spread(PATIENCE, JITTER, state.draw);
                if needs_invitation(voucher, &refusal) || !is_over {
                    return Ok(self.stands(&name, voucher, &refusal));
                }
                tracing::warn!(
                    request = name,
                    why = refusal.why,
                    "the request that was refused is made anew"
                );
                // The hub lets in one key by an invitation, and it may have taken this one.
                if matches!(voucher, Voucher::Identity(_)) {
                    self.forget_key(stored).await?;
                }
                clear(&api, &name, refusal.uid).await?;
                Ok(Progress::Again)
            }
            Seen::InTheWay(uid, why) => {
                tracing::info!(request = name, why, "the request for a certificate is made anew");
                // A key that has a certificate already is not used again.
                if live.is_some_and(|live| live.spec.request.0 == pending.request.as_bytes()) {
                    self.forget_key(stored).await?;
                }
                clear(&api, &name, uid).await?;
                Ok(Progress::Cleared(why))
            }
            Seen::Issued {
                certificate,
                from,
                until,
            } => Ok(Progress::Given(Box::new(Identity {
                cluster: voucher.cluster().clone(),
                serial: voucher.serial(),
                hub: voucher.hub().clone(),
                credential: Credential::Certificate {
                    key: pending.key,
                    certificate,
                },
                from,
                until,
            }))),
        }
    }

    /// A new key, which is stored before anybody hears of it.
    async fn new_key(&self, stored: &mut Stored, voucher: Voucher<'_>) -> Result<Pending, IdentityError> {
        let serial = voucher.serial();
        let (key, request) = new_request(&AgentName::new(voucher.cluster().clone(), serial))?;
        let pending = Pending { serial, key, request };
        let with_key = Stored {
            identity: stored.identity.clone(),
            pending: Some(pending.clone()),
        };
        self.place.store(&with_key).await?;
        *stored = with_key;
        Ok(pending)
    }

    async fn forget_key(&self, stored: &mut Stored) -> Result<(), IdentityError> {
        let without = Stored {
            identity: stored.identity.clone(),
            pending: None,
        };
        self.place.store(&without).await?;
        *stored = without;
        Ok(())
    }

    async fn make_request(
        &self,
        api: &Api<CertificateSigningRequest>,
        name: &str,
        stored: &mut Stored,
        voucher: Voucher<'_>,
        pending: &Pending,
    ) -> Result<Progress, IdentityError> {
        let params = PostParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let made = within(
            TIMEOUT,
            api.create(&params, &request(name, pending, self.lifetime)),
        )
        .await;
        let Err(error) = made else {
            return Ok(Progress::Again);
        };
        // The one before ours, or ours whose answer was lost: the next look tells.
        if error.fault() == Fault::Conflict {
            return Ok(Progress::Again);
        }
        if is_of_the_key(&error, voucher) {
            self.forget_key(stored).await?;
        }
        Err(IdentityError::call("asking the hub for a certificate", &error))
    }

    /// What is said of a request that was decided against.
    fn stands(&self, name: &str, voucher: Voucher<'_>, refusal: &Refusal) -> Progress {
        let then = if needs_invitation(voucher, refusal) {
            self.invite()
        } else {
            let minutes = spread(PATIENCE, JITTER, 1.0).as_secs() / 60;
            format!(
                "it asks again after {minutes} minutes at the latest, and at once if the CertificateSigningRequest {name} \
                 is deleted there"
            )
        };
        Progress::Waits {
            words: format!(
                "the hub gives this agent no certificate, its request {name} says {}; {then}",
                refusal.why
            ),
            is_trouble: true,
        }
    }

    /// What is said of a request that was approved so long ago, and has no certificate.
    fn unsigned(&self, name: &str, lasted: SignedDuration) -> Progress {
        let is_trouble = lasted >= SIGNING;
        let words = if is_trouble {
            format!(
                "the request {name} of this agent is approved, and signer {CLIENT_SIGNER} has signed nothing for it on this \
                 hub: start that signer there (it is part of kube-controller-manager), or run the hub with \
                 `--agent-identity token` and invite this agent anew with `roundhouse join {}`",
                self.cluster
            )
        } else {
            format!("the request {name} is approved, and this agent waits for its certificate")
        };
        Progress::Waits { words, is_trouble }
    }

    async fn token(
        &self,
        hub: &Client,
        voucher: Voucher<'_>,
        now: Timestamp,
    ) -> Result<Progress, IdentityError> {
        const WHAT: &str = "asking the hub for a token";
        let cluster = voucher.cluster();
        let api: Api<ServiceAccount> = Api::namespaced(hub.clone(), &cluster.namespace());
        let asked = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: i64::try_from(self.lifetime.as_secs()).ok(),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let given = within(
            TIMEOUT,
            api.create_token_request(AGENT_ROLE, &PostParams::default(), &asked),
        )
        .await;
        let given = match given {
            // Until the cluster is accepted there is no such account, or no right to its tokens.
            Err(error) if matches!(voucher, Voucher::Invitation(_)) && is_not_given_yet(&error) => {
                return Ok(Progress::Waits {
                    words: format!(
                        "this agent waits to be let in: run `roundhouse accept {cluster}` on the hub ({})",
                        error.message()
                    ),
                    is_trouble: false,
                });
            }
            given => given.map_err(|error| IdentityError::call(WHAT, &error))?,
        };
        let status = given.status.unwrap_or_default();
        let until = status.expiration_timestamp.map(|until| until.0);
        let (Some(token), Some(until)) = (status.token, until.filter(|until| *until > now)) else {
            return Err(IdentityError::Call {
                what: WHAT,
                why: format!("the answer has no token that is good after {now}"),
                unknown_caller: false,
            });
        };
        Ok(Progress::Given(Box::new(Identity {
            cluster: cluster.clone(),
            serial: voucher.serial(),
            hub: voucher.hub().clone(),
            credential: Credential::Token(token),
            from: now,
            until,
        })))
    }
}

/// Whether who is invited may get what they ask for later.
fn is_not_given_yet(error: &CallError) -> bool {
    matches!(error.fault(), Fault::NotFound | Fault::Lasting("Forbidden"))
}

/// Whether asking again with the same voucher is of no use.
fn needs_invitation(voucher: Voucher<'_>, refusal: &Refusal) -> bool {
    matches!(voucher, Voucher::Invitation(_)) && refusal.ends_invitation()
}

/// Whether it may be the key that the hub does not take. Who is invited keeps theirs when it may be anything else: somebody may
/// have accepted it.
fn is_of_the_key(error: &CallError, voucher: Voucher<'_>) -> bool {
    match error.fault() {
        Fault::Lasting("Invalid") => true,
        Fault::Lasting("Forbidden") => {
            matches!(voucher, Voucher::Identity(_)) || error.message().contains(SIGNED_BEFORE)
        }
        _ => false,
    }
}

fn waits(voucher: Voucher<'_>, pending: &Pending) -> Result<Progress, IdentityError> {
    let cluster = voucher.cluster();
    let words = match voucher {
        Voucher::Invitation(_) => {
            let key = digest(&pending.key)?;
            format!("this agent waits to be let in: run `roundhouse accept {cluster} --key {key}` on the hub")
        }
        Voucher::Identity(_) => "this agent waits for its renewed certificate".to_owned(),
    };
    Ok(Progress::Waits {
        words,
        is_trouble: false,
    })
}

/// Takes away the request of this uid and no later one.
async fn clear(api: &Api<CertificateSigningRequest>, name: &str, uid: String) -> Result<(), IdentityError> {
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: Some(uid),
        resource_version: None,
    });
    match within(TIMEOUT, api.delete(name, &params)).await {
        Err(error) if !matches!(error.fault(), Fault::NotFound | Fault::Conflict) => Err(
            IdentityError::call("taking the old request for a certificate away", &error),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::invitation::{Method, tests::invitation};
    use crate::identity::tests::identity;

    #[test]
    fn a_key_is_forgotten_where_it_may_be_what_is_refused() {
        let (invited, held) = (invitation(1, Method::Certificate), identity());
        let used = format!("roundhouse-agent-c1 is forbidden: {SIGNED_BEFORE}; make a new key");
        for (code, message, by_invitation, by_identity) in [
            (403, used.as_str(), true, true),
            (403, "may not create certificatesigningrequests", false, true),
            (422, "spec.request is no request", true, true),
            (401, "Unauthorized", false, false),
            (429, "too many requests", false, false),
            (500, used.as_str(), false, false),
        ] {
            let status = serde_json::json!({"code": code, "message": message});
            let status = serde_json::from_value(status).unwrap();
            let error = CallError::Kube(kube::Error::Api(Box::new(status)));
            let of_the_key = |voucher| is_of_the_key(&error, voucher);
            assert_eq!(
                of_the_key(Voucher::Invitation(&invited)),
                by_invitation,
                "{code} {message}"
            );
            assert_eq!(
                of_the_key(Voucher::Identity(&held)),
                by_identity,
                "{code} {message}"
            );
        }
    }
}
