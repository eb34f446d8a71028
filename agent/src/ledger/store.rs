//! The stored ledger.

use crate::error::{CallError, Fault};
use crate::install;
use crate::ledger::size::trim;
use crate::member::{found, within};
use crate::object::ObjectKey;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use roundhouse_api::ledger::{AppliedBundle, AppliedBundleSpec, LedgerEntry};
use roundhouse_api::names::{AGENT_FIELD_MANAGER, LEDGER_FINALIZER, ledger_name};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ledgers that one page of a list holds: they may be large.
const PAGE: u32 = 50;
/// How often a write is tried against a ledger that changes meanwhile.
const TRIES: usize = 4;

/// Reads the ledgers of one hub, by name of the bundle.
pub(crate) async fn list(
    client: &Client,
    hub_id: &str,
    timeout: Duration,
) -> Result<BTreeMap<String, AppliedBundle>, CallError> {
    let api: Api<AppliedBundle> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut ledgers = BTreeMap::new();
    loop {
        let page = within(timeout, api.list(&params)).await?;
        let ours = page
            .items
            .into_iter()
            .filter(|ledger| ledger.spec.hub_id == hub_id);
        ledgers.extend(ours.map(|ledger| (ledger.spec.bundle.clone(), ledger)));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(ledgers),
        }
    }
}

/// Reads what is stored of one bundle; empty without a ledger.
pub(crate) async fn entries(
    client: &Client,
    hub_id: &str,
    bundle: &str,
    timeout: Duration,
) -> Result<Vec<LedgerEntry>, CallError> {
    let api: Api<AppliedBundle> = Api::all(client.clone());
    let stored = found(within(timeout, api.get(&ledger_name(hub_id, bundle))).await)?;
    Ok(stored.map(|ledger| ledger.spec.objects).unwrap_or_default())
}

/// The ledger of one bundle. The agent is its only writer: what is remembered here goes before what is stored, so that a
/// ledger that somebody deletes or edits is as before within moments. Only objects that somebody else added (another
/// agent of this cluster, while one takes over from the other) are taken in: an inventory only grows by accident.
pub(crate) struct Ledger {
    api: Api<AppliedBundle>,
    timeout: Duration,
    name: String,
    spec: AppliedBundleSpec,
    /// The stored object's metadata; `None` while none is stored.
    stored: Option<ObjectMeta>,
    /// What was sent last, until it is answered: it may be what is stored.
    sent: Option<AppliedBundleSpec>,
    /// Somebody may have touched what is stored, and no look at it has come to its end since.
    doubtful: bool,
}

impl Ledger {
    pub(crate) fn new(
        client: Client,
        hub_id: &str,
        bundle: &str,
        stored: Option<AppliedBundle>,
        timeout: Duration,
    ) -> Self {
        let (spec, stored) = match stored {
            Some(ledger) => (ledger.spec, Some(ledger.metadata)),
            None => (empty(hub_id, bundle), None),
        };
        Ledger {
            api: Api::all(client),
            timeout,
            name: ledger_name(hub_id, bundle),
            spec,
            stored,
            sent: None,
            doubtful: false,
        }
    }

    /// What it says; for a bundle without a ledger, nothing.
    pub(crate) fn spec(&self) -> &AppliedBundleSpec {
        &self.spec
    }

    /// Whether it is stored.
    pub(crate) fn exists(&self) -> bool {
        self.stored.is_some()
    }

    /// Whether it has to be looked at: the last look was not answered, or what it found could not be put right.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// The stored object's version; `None` while none is stored.
    pub(crate) fn version(&self) -> Option<&str> {
        self.stored.as_ref()?.resource_version.as_deref()
    }

    /// The entry of an object.
    pub(crate) fn entry(&self, key: &ObjectKey) -> Option<&LedgerEntry> {
        let objects = &self.spec.objects;
        match objects.binary_search_by(|entry| key.order_of(entry)) {
            Ok(index) => objects.get(index),
            // Nobody sorts what was edited by hand.
            Err(_) => objects.iter().find(|entry| key.is_of(entry)),
        }
    }

    /// Looks at the stored object, and makes it again what it was if somebody deleted or changed it or took its finalizer
    /// off. A bundle without a ledger takes in what is stored.
    ///
    /// # Errors
    /// It could not be looked at, or not be put right: it stays [doubtful](Self::is_doubtful).
    pub(crate) async fn refresh(&mut self) -> Result<(), CallError> {
        self.doubtful = true;
        self.look().await?;
        self.doubtful = false;
        Ok(())
    }

    async fn look(&mut self) -> Result<(), CallError> {
        let had_one = self.stored.is_some();
        for _ in 0..TRIES {
            let mut spec = self.spec.clone();
            let known = had_one || !spec.objects.is_empty();
            let live = match found(within(self.timeout, self.api.get(&self.name)).await) {
                Err(error) if error.fault() == Fault::NotServed => {
                    self.define().await?;
                    continue;
                }
                live => live?,
            };
            let Some(live) = live else {
                self.stored = None;
                if !known {
                    return Ok(());
                }
                match self.create(spec).await {
                    Err(error) if error.fault() == Fault::Conflict => continue,
                    done => return done,
                }
            };
            if is_whole(&live.metadata) && self.sent.as_ref() == Some(&live.spec) {
                // The write that was not answered was made: to undo it would put the generation back.
                self.took(live);
                return Ok(());
            }
            if known {
                take_in(&mut spec, &self.spec, &live.spec);
            } else {
                spec.clone_from(&live.spec);
            }
            if live.metadata.deletion_timestamp.is_some() {
                self.spec = spec;
                self.let_go(&live.metadata).await?;
                continue;
            }
            let as_it_was = live.spec == spec && has_finalizer(&live.metadata);
            self.stored = Some(live.metadata);
            if as_it_was {
                self.spec = spec;
                return Ok(());
            }
            match self.replace(spec).await {
                Err(error) if matches!(error.fault(), Fault::Conflict | Fault::NotFound) => {}
                done => return done,
            }
        }
        Err(CallError::Timeout(self.timeout))
    }

    /// Writes it, unless it already says so.
    pub(crate) async fn write(&mut self, spec: AppliedBundleSpec) -> Result<(), CallError> {
        let mut spec = spec;
        for _ in 0..TRIES {
            let dropped = trim(&mut spec);
            if dropped > 0 && self.spec != spec {
                tracing::warn!(
                    ledger = self.name,
                    dropped,
                    "last-applied copies do not fit: what the next content leaves out of these objects stays on them"
                );
            }
            let is_settled = self.sent.is_none() && (self.stored.is_some() || spec.objects.is_empty());
            if is_settled && self.spec == spec {
                return Ok(());
            }
            self.obeys(&spec);
            let written = match self.stored {
                Some(_) => self.replace(spec.clone()).await,
                None => self.create(spec.clone()).await,
            };
            match written {
                Err(error) if error.fault() == Fault::NotServed => {
                    self.define().await?;
                    self.stored = None;
                }
                Err(error) if matches!(error.fault(), Fault::Conflict | Fault::NotFound) => {
                    let live = found(within(self.timeout, self.api.get(&self.name)).await)?;
                    if let Some(live) = &live {
                        take_in(&mut spec, &self.spec, &live.spec);
                    }
                    let is_written = |live: &AppliedBundle| live.spec == spec && is_whole(&live.metadata);
                    if let Some(live) = live.as_ref().filter(|live| is_written(live)) {
                        self.took(live.clone());
                        return Ok(());
                    }
                    let going = |live: &AppliedBundle| live.metadata.deletion_timestamp.is_some();
                    if let Some(live) = live.as_ref().filter(|live| going(live)) {
                        self.let_go(&live.metadata).await?;
                        self.stored = None;
                    } else {
                        self.stored = live.map(|live| live.metadata);
                    }
                }
                done => return done,
            }
        }
        Err(CallError::Timeout(self.timeout))
    }

    /// Removes it: nothing of the bundle is left. Whenever the requests arrive, they remove no other ledger of its name, nor this one
    /// where it says something else by then: a member that was put back has objects again, and the ledger that tells of them.
    ///
    /// # Errors
    /// It is not removed, or not known to be, or there is another one: it has become [doubtful](Self::is_doubtful).
    pub(crate) async fn remove(&mut self) -> Result<(), CallError> {
        if let Some(stored) = &self.stored {
            self.doubtful = true;
            if let Some(left) = self.let_go(stored).await? {
                let params = DeleteParams::default().preconditions(Preconditions {
                    uid: left.uid,
                    resource_version: left.resource_version,
                });
                found(within(self.timeout, self.api.delete(&self.name, &params)).await)?;
            }
            self.doubtful = false;
        }
        self.stored = None;
        self.spec = empty(&self.spec.hub_id, &self.spec.bundle);
        Ok(())
    }

    /// Makes the definition of ledgers again, if somebody has deleted it, and with it all of them: what is remembered here is written
    /// anew.
    async fn define(&self) -> Result<(), CallError> {
        install::definitions(&self.api.clone().into_client(), self.timeout).await
    }

    /// Takes the finalizer off this version of it; any other one, and another ledger of its name, keeps it. What is there afterwards.
    async fn let_go(&self, stored: &ObjectMeta) -> Result<Option<ObjectMeta>, CallError> {
        let patch = json!({"metadata": {
            "uid": stored.uid,
            "resourceVersion": stored.resource_version,
            "finalizers": null,
        }});
        let params = PatchParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = within(
            self.timeout,
            self.api.patch(&self.name, &params, &Patch::Merge(&patch)),
        )
        .await;
        Ok(found(patched)?.map(|left| left.metadata))
    }

    /// What is obeyed from here on, whether or not the write that says so is answered: what is written next does not go
    /// back behind it.
    fn obeys(&mut self, spec: &AppliedBundleSpec) {
        self.spec.bundle_uid.clone_from(&spec.bundle_uid);
        self.spec.bundle_version.clone_from(&spec.bundle_version);
        (self.spec.epoch, self.spec.generation) = (spec.epoch, spec.generation);
    }

    async fn create(&mut self, spec: AppliedBundleSpec) -> Result<(), CallError> {
        self.sent = Some(spec.clone());
        let mut ledger = AppliedBundle::new(&self.name, spec);
        ledger.metadata.finalizers = Some(vec![LEDGER_FINALIZER.to_owned()]);
        let written = within(self.timeout, self.api.create(&write_params(), &ledger)).await?;
        self.took(written);
        Ok(())
    }

    /// Replaces the stored object, at the version that is known.
    async fn replace(&mut self, spec: AppliedBundleSpec) -> Result<(), CallError> {
        self.sent = Some(spec.clone());
        let mut ledger = AppliedBundle::new(&self.name, spec);
        ledger.metadata = self.stored.clone().unwrap_or_default();
        if !has_finalizer(&ledger.metadata) {
            let finalizers = ledger.metadata.finalizers.get_or_insert_default();
            finalizers.push(LEDGER_FINALIZER.to_owned());
        }
        let params = write_params();
        let written = within(self.timeout, self.api.replace(&self.name, &params, &ledger)).await?;
        self.took(written);
        Ok(())
    }

    fn took(&mut self, written: AppliedBundle) {
        self.spec = written.spec;
        self.stored = Some(written.metadata);
        self.sent = None;
    }
}

fn empty(hub_id: &str, bundle: &str) -> AppliedBundleSpec {
    AppliedBundleSpec {
        hub_id: hub_id.to_owned(),
        bundle: bundle.to_owned(),
        ..AppliedBundleSpec::default()
    }
}

/// Whether it stays as it is: nobody deletes it, and nobody could without our knowing.
fn is_whole(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_none() && has_finalizer(metadata)
}

fn has_finalizer(metadata: &ObjectMeta) -> bool {
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    finalizers.iter().any(|finalizer| finalizer == LEDGER_FINALIZER)
}

/// Takes in what somebody else knows of and we do not: neither now nor `before`. What we knew and leave out is left out;
/// it may be stored by a write of ours that was not answered.
fn take_in(spec: &mut AppliedBundleSpec, before: &AppliedBundleSpec, theirs: &AppliedBundleSpec) {
    let ours = spec.objects.iter().chain(&before.objects);
    let known: BTreeSet<ObjectKey> = ours.map(ObjectKey::of_entry).collect();
    let missing = theirs
        .objects
        .iter()
        .filter(|entry| !known.contains(&ObjectKey::of_entry(entry)));
    spec.objects.extend(missing.cloned());
    spec.objects.sort_by_cached_key(ObjectKey::of_entry);
}

fn write_params() -> PostParams {
    PostParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Intentions, intend, is_leaving, remove_all};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use parking_lot::Mutex;
    use roundhouse_apiserver::Server;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// What becomes of writes while a connection is bad.
    #[derive(Clone, Copy)]
    enum Lost {
        Request,
        Answer,
    }

    /// A member, by a line on which the next so many writes go wrong.
    async fn member(lost: Lost) -> (Server, Client, Arc<AtomicUsize>) {
        let server = Server::builder().build();
        let direct = Client::new(server.service(), "default");
        for definition in roundhouse_api::crds::member() {
            Api::all(direct.clone())
                .create(&PostParams::default(), &definition)
                .await
                .unwrap();
        }
        let bad = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&bad);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let (direct, left) = (direct.clone(), Arc::clone(&left));
            async move {
                let strikes = *request.method() != http::Method::GET
                    && left
                        .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(1))
                        .is_ok();
                let broken = || {
                    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    kube::Error::Service(Box::new(reset))
                };
                match lost {
                    Lost::Request if strikes => Err(broken()),
                    Lost::Answer if strikes => direct.send(request).await.and(Err(broken())),
                    _ => direct.send(request).await,
                }
            }
        });
        (server, Client::new(service, "default"), bad)
    }

    fn of(client: &Client) -> Ledger {
        Ledger::new(client.clone(), "hub", "default.app", None, Duration::from_secs(5))
    }

    fn at(ledger: &Ledger, generation: i64) -> AppliedBundleSpec {
        let key = ObjectKey {
            kind: "ConfigMap".into(),
            namespace: "default".into(),
            name: "a".into(),
            ..ObjectKey::default()
        };
        let intentions = Intentions {
            bundle_uid: "u",
            bundle_version: "17",
            generation,
            epoch: Some(1),
            revision: None,
            dispatched: true,
            executor: None,
            delete_option: None,
            elsewhere: BTreeMap::new(),
            wanted: BTreeMap::from([(&key, "v1")]),
            surplus: BTreeSet::new(),
            guarded: false,
            forgotten: BTreeSet::new(),
        };
        intend(ledger.spec(), &intentions)
    }

    async fn stored(server: &Server) -> AppliedBundle {
        let api: Api<AppliedBundle> = Api::all(Client::new(server.service(), "default"));
        api.get(&ledger_name("hub", "default.app")).await.unwrap()
    }

    #[tokio::test]
    async fn what_was_obeyed_by_a_write_that_was_not_answered_is_not_gone_back_behind() {
        for lost in [Lost::Request, Lost::Answer] {
            for unanswered in [1, 2, 3] {
                let (server, client, bad) = member(lost).await;
                let mut ledger = of(&client);
                ledger.write(at(&ledger, 1)).await.unwrap();
                bad.store(unanswered, Ordering::Release);
                for _ in 0..unanswered {
                    ledger.write(at(&ledger, 2)).await.unwrap_err();
                }
                // The Bundle goes before anybody looks at the ledger again.
                let removed = remove_all(ledger.spec(), false, None, None);
                ledger.write(removed).await.unwrap();
                let spec = stored(&server).await.spec;
                assert_eq!((spec.epoch, spec.generation), (Some(1), 2));
                assert!(spec.objects.iter().all(|entry| is_leaving(entry.outcome)));
                assert_eq!(&spec, ledger.spec());
            }
        }
    }

    /// What a removal asks for, whenever it arrives and whether it is tried again, is about the ledger that was to go, as it was
    /// then: one that is put back tells of objects that are there again.
    #[tokio::test]
    async fn what_removes_a_ledger_and_comes_late_removes_no_other_one_of_its_name_nor_one_that_was_put_back()
    {
        let (server, direct, _) = member(Lost::Request).await;
        let mut first = of(&direct);
        first.write(at(&first, 1)).await.unwrap();
        // Everything that it sends is on its way for long.
        let held: Arc<Mutex<Vec<http::Request<Vec<u8>>>>> = Arc::default();
        let sent = Arc::clone(&held);
        let text = serde_json::to_vec(&stored(&server).await).unwrap();
        let late = tower::service_fn(move |request: http::Request<Body>| {
            let (sent, text) = (Arc::clone(&sent), text.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                sent.lock().push(http::Request::from_parts(parts, body.to_vec()));
                let answer = http::Response::builder().body(Body::from(text)).unwrap();
                Ok::<_, kube::Error>(answer)
            }
        });
        let mut going = Ledger::new(
            Client::new(late, "default"),
            "hub",
            "default.app",
            Some(stored(&server).await),
            Duration::from_secs(5),
        );
        going.remove().await.unwrap();
        let sent: Vec<_> = held.lock().drain(..).collect();
        assert_eq!(sent.len(), 2, "{sent:?}");
        // First it is the same one, and says something else; then it is another one.
        first.write(at(&first, 2)).await.unwrap();
        for is_another in [false, true] {
            if is_another {
                first.remove().await.unwrap();
                let mut second = of(&direct);
                second.write(at(&second, 2)).await.unwrap();
            }
            let before = stored(&server).await;
            for request in sent.clone() {
                let answer = direct.send(request.map(Body::from)).await.unwrap();
                assert!(answer.status().is_client_error(), "{}", answer.status());
            }
            assert_eq!(stored(&server).await, before);
        }
        let before = stored(&server).await;
        // Who meant the other one looks at what there is, and then it may go.
        let mut mistaken = Ledger::new(
            direct.clone(),
            "hub",
            "default.app",
            Some(stale(&before)),
            first.timeout,
        );
        mistaken.remove().await.unwrap_err();
        assert!(mistaken.is_doubtful());
        mistaken.refresh().await.unwrap();
        mistaken.remove().await.unwrap();
        let api: Api<AppliedBundle> = Api::all(direct);
        assert_eq!(api.get_opt(&before.metadata.name.unwrap()).await.unwrap(), None);
    }

    /// The same ledger as it would be if it were another one.
    fn stale(ledger: &AppliedBundle) -> AppliedBundle {
        let mut stale = ledger.clone();
        stale.metadata.uid = Some("another".to_owned());
        stale
    }

    #[tokio::test]
    async fn a_write_that_was_made_and_not_answered_is_not_made_again_and_one_that_was_lost_is() {
        for (lost, is_made) in [(Lost::Request, false), (Lost::Answer, true)] {
            let (server, client, bad) = member(lost).await;
            let mut ledger = of(&client);
            ledger.write(at(&ledger, 1)).await.unwrap();
            bad.store(1, Ordering::Release);
            ledger.write(at(&ledger, 2)).await.unwrap_err();
            let before = stored(&server).await;
            assert_eq!(before.spec.generation == 2, is_made);
            ledger.write(at(&ledger, 2)).await.unwrap();
            let after = stored(&server).await;
            assert_eq!(after.spec.generation, 2);
            assert_eq!(
                after.metadata.resource_version == before.metadata.resource_version,
                is_made
            );
            assert_eq!(ledger.version(), after.metadata.resource_version.as_deref());
        }
    }
}
