//! Registry: which bundle wants which object, so that an event about an object finds its bundle and the parts of one
//! application know of one another.

use crate::bundle::{Content, Held, Presence, part_number, without_part};
use crate::object::ObjectKey;
use crate::watch::inbox::{Inbox, LedgerSeen};
use parking_lot::Mutex;
use roundhouse_api::hash;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One bundle's place.
#[derive(Debug, Default)]
struct Seat {
    inbox: Arc<Inbox>,
    part: Option<Part>,
    /// The content whose objects are in the claims, and in the ledger.
    declared: Option<Content>,
    /// Version of its ledger that it knows; `None` while it has none.
    ledger: Option<Box<str>>,
    /// Whether it waits for other parts of its application to be read.
    waits: bool,
}

impl Seat {
    /// Whether the claims are those of the Bundle as it is now.
    fn is_read(&self) -> bool {
        let read = |part: &Part| self.declared.as_ref() == Some(&part.content);
        self.part.as_ref().is_some_and(read)
    }
}

/// A part of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    application: String,
    revision: Option<String>,
    /// Hash of its manifests, where the hub gives it.
    hash: Option<String>,
    /// All parts together, where the hub says so.
    parts: Option<String>,
    content: Content,
    deleting: bool,
    /// Its objects go.
    going: bool,
}

impl Part {
    /// Whether both were written as parts of the same whole. One revision is divided anew when replicas or overrides
    /// change, and an object may move from part to part then.
    fn is_of_one_division(&self, other: &Part) -> bool {
        let same = match (&self.parts, &other.parts) {
            (Some(mine), Some(theirs)) => mine == theirs,
            // Written by hand, or by an older hub.
            _ => true,
        };
        same && self.revision == other.revision
    }
}

/// A bundle's claim to an object, and the version of the object that it looked at last.
#[derive(Debug)]
struct Claim {
    bundle: Arc<str>,
    seen: Option<Box<str>>,
    /// Whether the bundle has it; if not, it waits for it to be gone.
    wanted: bool,
}

/// Who wants what, from either side: an event is about one object, a pass about one bundle.
#[derive(Debug, Default)]
struct Claims {
    of_objects: BTreeMap<Arc<ObjectKey>, Vec<Claim>>,
    of_bundles: BTreeMap<Arc<str>, BTreeSet<Arc<ObjectKey>>>,
}

impl Claims {
    /// The claim of a bundle to an object.
    fn get(&mut self, bundle: &str, key: &ObjectKey) -> Option<&mut Claim> {
        let claims = self.of_objects.get_mut(key)?;
        claims.iter_mut().find(|claim| *claim.bundle == *bundle)
    }

    /// The same, made if there is none.
    fn entry(
        &mut self,
        bundle: &str,
        key: &ObjectKey,
        new: impl FnOnce(Arc<str>) -> Claim,
    ) -> Option<&mut Claim> {
        if self.get(bundle, key).is_none() {
            let name = match self.of_bundles.get_key_value(bundle) {
                Some((name, _)) => Arc::clone(name),
                None => bundle.into(),
            };
            let key = match self.of_objects.get_key_value(key) {
                Some((key, _)) => Arc::clone(key),
                None => Arc::new(key.clone()),
            };
            let own = self.of_bundles.entry(Arc::clone(&name)).or_default();
            own.insert(Arc::clone(&key));
            self.of_objects.entry(key).or_default().push(new(name));
        }
        self.get(bundle, key)
    }

    /// What a bundle claims.
    fn of_bundle(&self, bundle: &str) -> Vec<Arc<ObjectKey>> {
        let own = self.of_bundles.get(bundle);
        own.into_iter().flatten().cloned().collect()
    }

    fn give_up(&mut self, bundle: &str, key: &ObjectKey) {
        if let Some(claims) = self.of_objects.get_mut(key) {
            claims.retain(|claim| *claim.bundle != *bundle);
            if claims.is_empty() {
                self.of_objects.remove(key);
            }
        }
        if let Some(own) = self.of_bundles.get_mut(bundle) {
            own.remove(key);
            if own.is_empty() {
                self.of_bundles.remove(bundle);
            }
        }
    }
}

/// What the other parts of an application have.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Siblings {
    /// Every part was read at the same revision and division; these objects are theirs.
    Read(BTreeSet<ObjectKey>),
    /// A part has another revision or division, or was not read yet: nothing may be pruned. Its name, if it is known.
    NotYet(Option<String>),
}

/// All bundles of one agent.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    seats: Mutex<BTreeMap<String, Seat>>,
    claims: Mutex<Claims>,
}

impl Registry {
    /// Tells a bundle's worker what is known of its Bundle. If there is no worker yet, answers the inbox of the one that
    /// the caller has to start.
    pub(crate) fn tell(&self, bundle: &str, presence: Presence) -> Option<Arc<Inbox>> {
        let mut seats = self.seats.lock();
        let new = !seats.contains_key(bundle);
        let seat = seats.entry(bundle.to_owned()).or_default();
        let part = match &presence {
            Presence::Present(held) => part(held),
            Presence::Deleted(_) | Presence::Missing => None,
        };
        let before = std::mem::replace(&mut seat.part, part);
        let changed = before != seat.part;
        seat.inbox.presence(presence);
        let inbox = new.then(|| Arc::clone(&seat.inbox));
        if changed {
            wake_parts(&seats, bundle, before.as_ref());
        }
        inbox
    }

    /// Tells the workers whose last report was not heard that the hub hears.
    pub(crate) fn hub_hears(&self) {
        for seat in self.seats.lock().values() {
            seat.inbox.hub_hears();
        }
    }

    /// Tells all workers that definitions changed.
    pub(crate) fn kinds_changed(&self) {
        for seat in self.seats.lock().values() {
            seat.inbox.kinds_changed();
        }
    }

    /// Records the version of its ledger that a bundle knows: events about it are no news.
    pub(crate) fn saw_ledger(&self, bundle: &str, version: Option<&str>) {
        if let Some(seat) = self.seats.lock().get_mut(bundle) {
            seat.ledger = version.map(Into::into);
            seat.inbox.saw_ledger(version);
        }
    }

    /// A ledger was seen: wakes its bundle if that is news; `false` if the bundle has no place.
    pub(crate) fn ledger_touched(&self, bundle: &str, seen: LedgerSeen) -> bool {
        let seats = self.seats.lock();
        let Some(seat) = seats.get(bundle) else {
            return false;
        };
        if seen.is_news_to(seat.ledger.as_deref()) {
            seat.inbox.ledger(seen);
        } else if seen.listed {
            seat.inbox.ledger_listed(seen);
        }
        true
    }

    /// Bundles that have a place.
    pub(crate) fn bundles(&self) -> BTreeSet<String> {
        self.seats.lock().keys().cloned().collect()
    }

    /// Gives up a bundle's place and claims; `false`, and nothing is given up, if there is news for it.
    pub(crate) fn leave(&self, bundle: &str) -> bool {
        {
            let mut seats = self.seats.lock();
            if seats.get(bundle).is_some_and(|seat| seat.inbox.has_news()) {
                return false;
            }
            seats.remove(bundle);
        }
        self.drop_claims(bundle, |_| false);
        true
    }

    /// Records which objects the bundle wants, as the manifests name them, before a pass looks at them. What it claimed before
    /// stays claimed until [`Registry::looked_at`]: what happens to it meanwhile is news.
    pub(crate) fn declare(&self, bundle: &str, keys: &BTreeSet<ObjectKey>) {
        {
            let mut claims = self.claims.lock();
            for key in claims.of_bundle(bundle) {
                if let Some(claim) = claims.get(bundle, &key).filter(|claim| claim.wanted) {
                    claim.wanted = is_wanted(&key, keys);
                }
            }
        }
        for key in keys {
            self.claim(bundle, key, None, true);
        }
    }

    /// Records that the bundle's ledger has what was declared of this content: from here on the other parts of its application
    /// may forget what they see there.
    pub(crate) fn answers_for(&self, bundle: &str, held: &Held) {
        let mut seats = self.seats.lock();
        if let Some(seat) = seats.get_mut(bundle)
            && seat.declared.replace(held.content()) != seat.declared
        {
            wake_parts(&seats, bundle, None);
        }
    }

    /// Records what a pass looked at, instead of what the bundle claimed before: the objects that it wants, as manifests
    /// name them, those of them that were found or are missing in these versions, and those whose end it waits for.
    pub(crate) fn looked_at(
        &self,
        bundle: &str,
        keys: &BTreeSet<ObjectKey>,
        found: &BTreeMap<&ObjectKey, Option<&str>>,
        awaited: &BTreeMap<&ObjectKey, Option<&str>>,
    ) {
        for key in keys.iter().chain(found.keys().copied()) {
            self.claim(bundle, key, None, true);
        }
        for (key, version) in found {
            self.saw(bundle, key, *version);
        }
        let has = |key: &ObjectKey| keys.contains(key) || found.contains_key(key);
        for (key, version) in awaited.iter().filter(|(key, _)| !has(key)) {
            self.await_end(bundle, key, *version);
        }
        self.drop_claims(bundle, |key| has(key) || awaited.contains_key(key));
    }

    /// Records that a bundle waits for an object to be gone, which it looked at in this version: events about it are news,
    /// but no other part of its application takes it for wanted. Forgotten with the next [`Registry::looked_at`] without it.
    pub(crate) fn await_end(&self, bundle: &str, key: &ObjectKey, version: Option<&str>) {
        self.claim(bundle, key, version, false);
        self.saw(bundle, key, version);
    }

    fn claim(&self, bundle: &str, key: &ObjectKey, seen: Option<&str>, wanted: bool) {
        let mut claims = self.claims.lock();
        let new = |bundle| Claim {
            bundle,
            seen: seen.map(Into::into),
            wanted,
        };
        if let Some(claim) = claims.entry(bundle, key, new) {
            claim.wanted = wanted;
            // Wanted again: it is what it was.
            if !wanted {
                claim.seen = seen.map(Into::into);
            }
        }
    }

    /// Records the version of an object that a bundle looked at: events about it are no news.
    pub(crate) fn saw(&self, bundle: &str, key: &ObjectKey, version: Option<&str>) {
        if let Some(claim) = self.claims.lock().get(bundle, key) {
            claim.seen = version.map(Into::into);
        }
        // The watch may have told of our own write before it was answered.
        if let (Some(version), Some(seat)) = (version, self.seats.lock().get(bundle)) {
            seat.inbox.saw(key, version);
        }
    }

    /// An object was seen at a version, or (`None`) gone: wakes the bundles to which that is news.
    pub(crate) fn touched(&self, key: &ObjectKey, version: Option<&str>) {
        let to_wake: Vec<Arc<str>> = {
            let claims = self.claims.lock();
            let all = &claims.of_objects;
            let direct = all.get(key).map(Vec::as_slice).unwrap_or_default();
            let is_news = |claim: &&Claim| version.is_none() || claim.seen.as_deref() != version;
            let news = direct.iter().filter(is_news);
            // A bundle that has not looked at it yet has a cluster-scoped object as its manifest names it: perhaps in a
            // namespace.
            let has_looked = |claim: &&Claim| direct.iter().any(|known| known.bundle == claim.bundle);
            let named = claims_in_namespaces(all, key).filter(|claim| !has_looked(claim));
            news.chain(named).map(|claim| Arc::clone(&claim.bundle)).collect()
        };
        let seats = self.seats.lock();
        for seat in to_wake.iter().filter_map(|bundle| seats.get(&**bundle)) {
            seat.inbox.touch(key.clone(), version);
        }
    }

    /// Whether a bundle has an object, or waits for its end.
    pub(crate) fn is_claimed(&self, key: &ObjectKey) -> bool {
        let claims = self.claims.lock();
        claims.of_objects.contains_key(key) || claims_in_namespaces(&claims.of_objects, key).next().is_some()
    }

    /// The objects of a kind and namespace that bundles have seen: those that a new list lacks are gone.
    pub(crate) fn seen_of_kind(
        &self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> BTreeSet<ObjectKey> {
        let first = ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..ObjectKey::default()
        };
        self.claims
            .lock()
            .of_objects
            .range::<ObjectKey, _>(&first..)
            .take_while(|(key, _)| key.is(group, kind))
            .filter(|(key, claims)| {
                namespace.is_none_or(|namespace| key.namespace == namespace)
                    && claims.iter().any(|claim| claim.seen.is_some())
            })
            .map(|(key, _)| ObjectKey::clone(key))
            .collect()
    }

    /// What the other parts of this bundle's application have. If that is not known yet, the bundle is woken when one of
    /// them changes or was read.
    pub(crate) fn siblings(&self, bundle: &str) -> Siblings {
        let others = {
            let mut seats = self.seats.lock();
            let others = parts_beside(&seats, bundle);
            waits(&mut seats, bundle, others.is_err());
            others
        };
        others.map_or_else(Siblings::NotYet, |others| self.claimed_by(&others))
    }

    /// The other parts of this bundle's application, those that go included.
    pub(crate) fn parts_beside(&self, bundle: &str) -> Vec<String> {
        let seats = self.seats.lock();
        let of = |seat: &Seat| seat.part.as_ref().map(|part| part.application.clone());
        let mine = seats.get(bundle).and_then(of);
        let others = seats
            .iter()
            .filter(|(name, seat)| *name != bundle && mine.is_some() && of(seat) == mine);
        others.map(|(name, _)| name.clone()).collect()
    }

    /// What the parts that stay have of an application of which `bundle` goes: that stays with them. `owner` is the name
    /// of the application's first part. The bundle is woken as by [`Registry::siblings`].
    pub(crate) fn staying(&self, bundle: &str, owner: &str) -> Siblings {
        let others = {
            let mut seats = self.seats.lock();
            let stays = |seat: &Seat| seat.part.as_ref().is_some_and(|part| !part.deleting);
            let others = seats
                .iter()
                .filter(|(name, seat)| *name != bundle && without_part(name) == owner && stays(seat));
            let others = others.map(|(name, seat)| match seat.is_read() {
                true => Ok(name.clone()),
                false => Err(Some(name.clone())),
            });
            let others: Result<BTreeSet<String>, _> = others.collect();
            waits(&mut seats, bundle, others.is_err());
            others
        };
        others.map_or_else(Siblings::NotYet, |others| self.claimed_by(&others))
    }

    fn claimed_by(&self, others: &BTreeSet<String>) -> Siblings {
        let mut claims = self.claims.lock();
        let mut theirs = BTreeSet::new();
        for other in others {
            for key in claims.of_bundle(other) {
                if claims.get(other, &key).is_some_and(|claim| claim.wanted) {
                    theirs.insert(ObjectKey::clone(&key));
                }
            }
        }
        Siblings::Read(theirs)
    }

    fn drop_claims(&self, bundle: &str, stays: impl Fn(&ObjectKey) -> bool) {
        let mut claims = self.claims.lock();
        for key in claims.of_bundle(bundle) {
            if !stays(&key) {
                claims.give_up(bundle, &key);
            }
        }
    }
}

/// The other parts of a bundle's application, without those that go: what they still have stays behind, and is not waited for. An
/// error while one of them is at another revision or division, was not read, or is not there yet: its name, if it is known. One that
/// goes may be about to come again in the division of the others, and to have what left them.
fn parts_beside(seats: &BTreeMap<String, Seat>, bundle: &str) -> Result<BTreeSet<String>, Option<String>> {
    let Some(mine) = seats.get(bundle).and_then(|seat| seat.part.as_ref()) else {
        return Ok(BTreeSet::new());
    };
    let others = seats.iter().filter(|(name, _)| *name != bundle);
    let parts = others.filter_map(|(name, seat)| Some((name, seat, seat.part.as_ref()?)));
    let siblings = parts.filter(|(_, _, part)| part.application == mine.application && !part.going);
    let siblings: BTreeSet<String> = siblings
        .map(
            |(name, seat, part)| match seat.is_read() && part.is_of_one_division(mine) {
                true => Ok(name.clone()),
                false => Err(Some(name.clone())),
            },
        )
        .collect::<Result<_, _>>()?;
    match is_whole(seats, bundle, mine, &siblings) {
        true => Ok(siblings),
        false => Err(None),
    }
}

/// Whether a part and its siblings are all of the division that they say they are of.
fn is_whole(seats: &BTreeMap<String, Seat>, bundle: &str, mine: &Part, siblings: &BTreeSet<String>) -> bool {
    // Where there is one part it does not say so.
    let Some(whole) = &mine.parts else { return true };
    if siblings.is_empty() {
        return false;
    }
    let mut names: Vec<&str> = siblings.iter().map(String::as_str).collect();
    names.push(bundle);
    names.sort_by_key(|name| part_number(name));
    let parts = names.iter().map(|name| seats.get(*name)?.part.as_ref());
    let hashes: Option<Vec<&str>> = parts.map(|part| part?.hash.as_deref()).collect();
    // A Bundle without a hash was written by hand.
    hashes.is_none_or(|hashes| hash::of_value(&json!(hashes)) == *whole)
}

fn waits(seats: &mut BTreeMap<String, Seat>, bundle: &str, waits: bool) {
    if let Some(seat) = seats.get_mut(bundle) {
        seat.waits = waits;
    }
}

/// Wakes the parts of a bundle's application that wait for others; `before`: the part that it was until now.
fn wake_parts(seats: &BTreeMap<String, Seat>, bundle: &str, before: Option<&Part>) {
    let now = seats.get(bundle).and_then(|seat| seat.part.as_ref());
    let is_application = |part: &Part| {
        [before, now]
            .into_iter()
            .flatten()
            .any(|own| own.application == part.application)
    };
    let waiting = seats.iter().filter(|(name, seat)| seat.waits && *name != bundle);
    for (name, seat) in waiting {
        if without_part(name) == without_part(bundle) || seat.part.as_ref().is_some_and(is_application) {
            seat.inbox.parts_changed();
        }
    }
}

/// Whether a claimed object is what one of these manifests means.
fn is_wanted(key: &ObjectKey, manifests: &BTreeSet<ObjectKey>) -> bool {
    manifests.contains(key)
        || key.namespace.is_empty()
            && (manifests.range(first_in_a_namespace(key)..))
                .take_while(|manifest| manifest.is(&key.group, &key.kind))
                .any(|manifest| key.is_meant_by(manifest))
}

/// Claims to a cluster-scoped object under the names of manifests that put it into a namespace; none for any other.
fn claims_in_namespaces<'a>(
    claims: &'a BTreeMap<Arc<ObjectKey>, Vec<Claim>>,
    key: &'a ObjectKey,
) -> impl Iterator<Item = &'a Claim> {
    let range = key
        .namespace
        .is_empty()
        .then(|| claims.range::<ObjectKey, _>(&first_in_a_namespace(key)..));
    let of_kind = range
        .into_iter()
        .flatten()
        .take_while(|(named, _)| named.is(&key.group, &key.kind));
    of_kind
        .filter(|(named, _)| key.is_meant_by(named))
        .flat_map(|(_, claims)| claims)
}

/// Before every object of the kind that has a namespace, and after every one that has none.
fn first_in_a_namespace(key: &ObjectKey) -> ObjectKey {
    ObjectKey {
        namespace: "\0".to_owned(),
        name: String::new(),
        ..key.clone()
    }
}

fn part(held: &Held) -> Option<Part> {
    Some(Part {
        application: held.application.clone()?,
        revision: held.revision.clone(),
        hash: held.hash.clone(),
        parts: held.parts.clone(),
        content: held.content(),
        deleting: held.deleting,
        going: held.going,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::DynamicObject;
    use roundhouse_api::names::bundle_name;

    fn key(name: &str) -> ObjectKey {
        ObjectKey {
            kind: "ConfigMap".into(),
            namespace: "x".into(),
            name: name.into(),
            ..ObjectKey::default()
        }
    }

    fn held(name: &str, application: &str, revision: &str, generation: i64) -> Arc<Held> {
        let object: DynamicObject = serde_json::from_value(json!({"apiVersion": "roundhouse.dev/v1alpha1",
            "kind": "Bundle", "metadata": {"name": name, "uid": name, "generation": generation},
            "spec": {"applicationRef": {"uid": application}, "revision": revision}}))
        .unwrap();
        Arc::new(Held::of(object))
    }

    fn waits_for(part: &str) -> Siblings {
        Siblings::NotYet(Some(part.to_owned()))
    }

    fn declare(registry: &Registry, bundle: &str, held: &Held, keys: &BTreeSet<ObjectKey>) {
        registry.declare(bundle, keys);
        registry.answers_for(bundle, held);
    }

    fn join(registry: &Registry, held: &Arc<Held>) -> Arc<Inbox> {
        let inbox = registry
            .tell(&held.name, Presence::Present(Arc::clone(held)))
            .unwrap();
        inbox.take();
        inbox
    }

    #[test]
    fn only_news_about_wanted_objects_wakes_a_bundle() {
        let registry = Registry::default();
        let a = held("a", "app", "v1", 1);
        let inbox = join(&registry, &a);
        declare(&registry, "a", &a, &BTreeSet::from([key("mine")]));
        registry.saw("a", &key("mine"), Some("7"));
        registry.touched(&key("mine"), Some("7"));
        registry.touched(&key("other"), Some("9"));
        assert!(!inbox.has_news());
        registry.touched(&key("mine"), Some("8"));
        registry.saw("a", &key("mine"), Some("8"));
        assert!(!inbox.has_news(), "told before it was looked at");
        registry.touched(&key("mine"), Some("9"));
        registry.saw("a", &key("mine"), Some("8"));
        assert!(inbox.take().1.touched.contains_key(&key("mine")));
        registry.touched(&key("mine"), None);
        assert!(inbox.has_news());
        assert_eq!(
            registry.seen_of_kind("", "ConfigMap", Some("x")),
            BTreeSet::from([key("mine")])
        );
        assert!(registry.seen_of_kind("", "ConfigMap", Some("y")).is_empty());
        assert!(registry.seen_of_kind("", "Secret", None).is_empty());
    }

    #[test]
    fn an_object_that_is_to_go_wakes_its_bundle_until_the_next_declaration() {
        let registry = Registry::default();
        let a = held("a", "app", "v1", 1);
        let inbox = join(&registry, &a);
        declare(&registry, "a", &a, &BTreeSet::new());
        registry.await_end("a", &key("going"), Some("7"));
        registry.touched(&key("going"), Some("7"));
        assert!(!inbox.has_news());
        registry.touched(&key("going"), None);
        assert!(inbox.take().1.touched.contains_key(&key("going")));
        declare(&registry, "a", &a, &BTreeSet::new());
        registry.touched(&key("going"), Some("8"));
        assert!(
            inbox.has_news(),
            "a pass that has begun may have looked at it before"
        );
        inbox.take();
        registry.looked_at("a", &BTreeSet::new(), &BTreeMap::new(), &BTreeMap::new());
        registry.touched(&key("going"), None);
        assert!(!inbox.has_news());
    }

    #[test]
    fn what_a_pass_looks_at_is_news_when_it_changes_meanwhile_whatever_its_manifest_calls_it() {
        let registry = Registry::default();
        let a = held("a", "app", "v1", 1);
        let inbox = join(&registry, &a);
        let named = key("role");
        let target = ObjectKey {
            namespace: String::new(),
            ..named.clone()
        };
        let keys = BTreeSet::from([named.clone()]);
        let looked_at = |version| {
            let found = BTreeMap::from([(&target, Some(version))]);
            registry.looked_at("a", &keys, &found, &BTreeMap::new());
        };
        // The first pass does not know yet that the kind has no namespaces.
        declare(&registry, "a", &a, &keys);
        registry.touched(&target, Some("7"));
        looked_at("7");
        assert!(!inbox.has_news(), "seen in this very version");
        registry.touched(&target, Some("7"));
        assert!(!inbox.has_news(), "and known from then on");
        for (meanwhile, seen) in [(Some("9"), "8"), (None, "9")] {
            declare(&registry, "a", &a, &keys);
            registry.touched(&target, meanwhile);
            looked_at(seen);
            assert_eq!(
                inbox.take().1.touched.get(&target).map(Option::as_deref),
                Some(meanwhile)
            );
        }
        declare(&registry, "a", &a, &keys);
        let others = |registry: &Registry| {
            join(registry, &held("b", "app", "v1", 1));
            registry.siblings("b")
        };
        assert_eq!(
            others(&registry),
            Siblings::Read(BTreeSet::from([named, target.clone()])),
            "while a pass runs, nothing of the bundle may go with another part"
        );
    }

    #[test]
    fn what_leaves_a_bundle_is_no_longer_its_own_when_the_pass_begins_and_news_until_it_ends() {
        let registry = Registry::default();
        let a = held("a", "app", "v1", 1);
        let inbox = join(&registry, &a);
        declare(&registry, "a", &a, &BTreeSet::from([key("refused")]));
        registry.saw("a", &key("refused"), Some("3"));
        declare(&registry, "a", &a, &BTreeSet::new());
        registry.touched(&key("refused"), Some("4"));
        let awaited = key("refused");
        let awaited = BTreeMap::from([(&awaited, Some("3"))]);
        registry.looked_at("a", &BTreeSet::new(), &BTreeMap::new(), &awaited);
        assert!(inbox.take().1.touched.contains_key(&key("refused")));
        join(&registry, &held("b", "app", "v1", 1));
        assert_eq!(registry.siblings("b"), Siblings::Read(BTreeSet::new()));
    }

    #[test]
    fn a_bundle_with_news_does_not_leave() {
        let registry = Registry::default();
        let inbox = join(&registry, &held("a", "app", "v1", 1));
        inbox.touch(key("mine"), None);
        assert!(!registry.leave("a"));
        inbox.take();
        assert!(registry.leave("a"));
        assert!(
            registry.tell("a", Presence::Missing).is_some(),
            "a new worker is needed"
        );
    }

    /// A part of one revision, in a division.
    fn divided(name: &str, generation: i64, parts: Option<&str>) -> Arc<Held> {
        let spec = json!({"applicationRef": {"uid": "app"}, "revision": "v1", "partsHash": parts});
        let object: DynamicObject = serde_json::from_value(json!({"apiVersion": "roundhouse.dev/v1alpha1",
            "kind": "Bundle", "metadata": {"name": name, "uid": name, "generation": generation}, "spec": spec}))
        .unwrap();
        Arc::new(Held::of(object))
    }

    #[test]
    fn parts_of_different_divisions_of_one_revision_are_not_pruned() {
        for (mine, theirs, read) in [
            (Some("new"), Some("new"), true),
            (Some("new"), Some("old"), false),
            (Some("new"), None, true),
            (None, Some("old"), true),
            (None, None, true),
        ] {
            let registry = Registry::default();
            let (one, two) = (divided("d.a", 1, theirs), divided("d.a.2", 1, mine));
            join(&registry, &one);
            let inbox = join(&registry, &two);
            declare(&registry, "d.a", &one, &BTreeSet::new());
            declare(&registry, "d.a.2", &two, &BTreeSet::new());
            let found = registry.siblings("d.a.2");
            assert_eq!(matches!(found, Siblings::Read(_)), read, "{mine:?} {theirs:?}");
            let next = divided("d.a", 2, mine);
            registry.tell("d.a", Presence::Present(Arc::clone(&next)));
            declare(&registry, "d.a", &next, &BTreeSet::from([key("moved")]));
            assert_eq!(inbox.take().1.parts, !read, "woken if it waits");
            let moved = Siblings::Read(BTreeSet::from([key("moved")]));
            assert_eq!(registry.siblings("d.a.2"), moved);
        }
    }

    #[test]
    fn a_part_that_says_that_there_are_others_waits_for_the_first_of_them() {
        let registry = Registry::default();
        let one = divided("d.a", 1, Some("h"));
        let inbox = join(&registry, &one);
        declare(&registry, "d.a", &one, &BTreeSet::new());
        assert_eq!(registry.siblings("d.a"), Siblings::NotYet(None));
        let two = divided("d.a.2", 1, Some("h"));
        join(&registry, &two);
        declare(&registry, "d.a.2", &two, &BTreeSet::from([key("moved")]));
        assert!(inbox.take().1.parts, "it is woken");
        let moved = Siblings::Read(BTreeSet::from([key("moved")]));
        assert_eq!(registry.siblings("d.a"), moved);
        // It is one part again, and says so.
        registry.tell("d.a.2", Presence::Missing);
        let one = divided("d.a", 2, None);
        registry.tell("d.a", Presence::Present(one));
        assert_eq!(registry.siblings("d.a"), Siblings::Read(BTreeSet::new()));
    }

    #[test]
    fn all_parts_of_the_division_are_waited_for() {
        let names: Vec<String> = (1..12).map(|part| bundle_name("d", "a", part)).collect();
        let all: Vec<String> = (1..12).map(|part| format!("hash {part}")).collect();
        for (present, expected) in [(11, true), (10, false), (2, false)] {
            let registry = Registry::default();
            for (name, own) in names.iter().zip(&all).take(present) {
                let spec = json!({"applicationRef": {"uid": "app"}, "revision": "v1", "hash": own,
                    "partsHash": hash::of_value(&json!(all))});
                let object = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
                    "metadata": {"name": name, "uid": name, "generation": 1}, "spec": spec});
                let part = Arc::new(Held::of(serde_json::from_value(object).unwrap()));
                join(&registry, &part);
                declare(&registry, name, &part, &BTreeSet::new());
            }
            let found = registry.siblings("d.a.2");
            assert_eq!(
                matches!(found, Siblings::Read(_)),
                expected,
                "{present}: {found:?}"
            );
        }
    }

    #[test]
    fn a_part_that_goes_is_not_waited_for_unless_it_is_held() {
        for (deleting, deletion, paused, is_waited_for) in [
            (true, true, false, false),
            (true, true, true, true),
            (true, false, false, true),
            (false, true, false, true),
        ] {
            let registry = Registry::default();
            let one = held("d.a", "app", "v2", 2);
            let inbox = join(&registry, &one);
            declare(&registry, "d.a", &one, &BTreeSet::new());
            let of = |deleting: bool| {
                let since = deleting.then_some("2026-01-01T00:00:00Z");
                let deletion =
                    deletion.then(|| json!({"revision": "v2", "confirmedBy": "garbage-collection"}));
                let object: DynamicObject =
                    serde_json::from_value(json!({"apiVersion": "roundhouse.dev/v1alpha1",
                    "kind": "Bundle", "metadata": {"name": "d.a.2", "uid": "d.a.2", "generation": 3,
                    "deletionTimestamp": since}, "spec": {"applicationRef": {"uid": "app"}, "revision": "v1",
                    "deletion": deletion, "paused": paused}}))
                    .unwrap();
                Arc::new(Held::of(object))
            };
            let two = of(false);
            join(&registry, &two);
            declare(&registry, "d.a.2", &two, &BTreeSet::from([key("refused")]));
            assert_eq!(registry.siblings("d.a"), waits_for("d.a.2"));
            registry.tell("d.a.2", Presence::Present(of(deleting)));
            let case = (deleting, deletion, paused);
            assert_eq!(inbox.take().1.parts, deleting, "{case:?}");
            let expected = match is_waited_for {
                true => waits_for("d.a.2"),
                false => Siblings::Read(BTreeSet::new()),
            };
            assert_eq!(registry.siblings("d.a"), expected, "{case:?}");
        }
    }

    #[test]
    fn parts_are_pruned_only_when_all_were_read_at_one_revision() {
        let registry = Registry::default();
        let (one, two) = (held("d.a", "app", "v2", 2), held("d.a.2", "app", "v1", 1));
        let (inbox, _) = (join(&registry, &one), join(&registry, &two));
        join(&registry, &held("d.b", "other", "v9", 1));
        declare(&registry, "d.a", &one, &BTreeSet::from([key("left")]));
        declare(&registry, "d.a.2", &two, &BTreeSet::new());
        assert_eq!(registry.siblings("d.a"), waits_for("d.a.2"));
        let two = held("d.a.2", "app", "v2", 2);
        registry.tell("d.a.2", Presence::Present(Arc::clone(&two)));
        assert_eq!(registry.siblings("d.a"), waits_for("d.a.2"), "told, but not read");
        declare(&registry, "d.a.2", &two, &BTreeSet::from([key("moved")]));
        assert_eq!(
            registry.siblings("d.a"),
            Siblings::Read(BTreeSet::from([key("moved")]))
        );
        registry.await_end("d.a.2", &key("left"), Some("3"));
        let four = held("d.a.4", "app", "v2", 1);
        assert!(inbox.take().1.parts, "the part that it waited for was read");
        join(&registry, &four);
        assert_eq!(registry.siblings("d.a"), waits_for("d.a.4"));
        declare(&registry, "d.b", &held("d.b", "other", "v9", 1), &BTreeSet::new());
        assert!(!inbox.has_news(), "another application");
        declare(&registry, "d.a.4", &four, &BTreeSet::new());
        assert!(inbox.take().1.parts, "what it waited for was read");
        assert!(matches!(registry.siblings("d.a"), Siblings::Read(_)));
        let next = held("d.a.4", "app", "v3", 2);
        registry.tell("d.a.4", Presence::Present(Arc::clone(&next)));
        assert_eq!(registry.siblings("d.a"), waits_for("d.a.4"));
        registry.tell("d.a.4", Presence::Missing);
        assert!(inbox.take().1.parts, "what it waited for is gone");
        assert_eq!(
            registry.siblings("d.a"),
            Siblings::Read(BTreeSet::from([key("moved")])),
            "what the other part waits for is not what it has"
        );
        assert_eq!(registry.siblings("d.b"), Siblings::Read(BTreeSet::new()));
    }
}
