//! What is stored, as far as promises are about it.

use super::{
    commit::Commit,
    fields::{annotation_of, names},
    promise::Note,
    shown::Shown,
    who::Who,
};
use crate::{
    restored,
    run::READ_TIMES_OUT,
    simulate::{
        HUB,
        raw::{self, Everywhere},
    },
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{ApiResource, GroupVersionKind};
use roundhouse_api::{
    application::{self, ApplicationStatus, ValidApplication},
    bundle::{ApplyOnce, Bundle, BundleSpec, BundleStatus},
    cluster::{AVAILABLE, Cluster, Leave},
    condition,
    decision::{Decision, DecisionSpec},
    ledger::{AppliedBundle, AppliedBundleSpec, LedgerEntry},
    names::{annotation, cluster_namespace, cluster_of_namespace, decision_name},
    revision::ApplicationRevision,
};
use roundhouse_apiserver::{Key, Record, Store};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// Table of Bundles.
pub(super) const BUNDLES: &str = "bundles.roundhouse.dev";
/// Table of Decisions.
pub(super) const DECISIONS: &str = "decisions.roundhouse.dev";
/// Table of Applications.
pub(super) const APPLICATIONS: &str = "applications.core.oam.dev";
/// Table of ApplicationRevisions.
pub(super) const REVISIONS: &str = "applicationrevisions.core.oam.dev";
/// Table of Placements.
pub(super) const PLACEMENTS: &str = "placements.roundhouse.dev";
/// Table of Clusters.
pub(super) const CLUSTERS: &str = "clusters.roundhouse.dev";
/// The same of what agents tell of their clusters.
pub(super) const REPORTS: &str = "clusterreports.roundhouse.dev";
/// Table of ledgers.
pub(super) const LEDGERS: &str = "appliedbundles.roundhouse.dev";
/// Table of namespaces.
pub(super) const NAMESPACES: &str = "namespaces";
/// Table of ConfigMaps.
pub(super) const CONFIG_MAPS: &str = "configmaps";
/// Table of Jobs.
const JOBS: &str = "jobs.batch";
/// Table of what scales others.
const SCALERS: &str = "horizontalpodautoscalers.autoscaling";
/// Table of Leases.
pub(super) const LEASES: &str = "leases.coordination.k8s.io";

/// So long a hub may not have heard what its API server has: its watch was silent.
pub(super) const BEHIND: Duration = Duration::from_secs(READ_TIMES_OUT.as_secs() + 60);
/// No list is as it was longer ago, in any run.
const STALE: Duration = Duration::from_secs(90);

/// Namespace and name.
pub(super) type Name = (Arc<str>, Arc<str>);

/// An object that a bundle carries: table, namespace (empty if the manifest does not say), name.
pub(super) type Carried = (String, String, String);

/// Whether it is the object of this key.
pub(super) fn is_of(object: &Carried, key: &Key) -> bool {
    is_at(object, &key.table, &key.namespace, &key.name)
}

/// The same of a table, namespace and name. A manifest may leave its namespace out, and give one to an object that is in none.
pub(super) fn is_at(object: &Carried, table: &str, namespace: &str, name: &str) -> bool {
    let same = object.1 == namespace || object.1.is_empty() || namespace.is_empty();
    same && object.0 == table && object.2 == name
}

/// One content of a Bundle.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    /// The spec, without its manifests.
    pub(super) spec: BundleSpec,
    /// What it carries; `None` for a manifest that names no object.
    pub(super) manifests: Vec<(Option<Carried>, Arc<Value>)>,
    /// What the object of each manifest has shown since then.
    shown: Vec<Shown>,
    /// When it was written.
    pub(super) at: Duration,
    /// What was reported on it, in order, as far as it is about it: uid, generation and hash.
    pub(super) reports: Vec<BundleStatus>,
    /// Whether its cluster was not available at any time since.
    pub(super) unreachable: bool,
}

impl Content {
    /// Whether it carries an object.
    pub(super) fn carries(&self, table: &str, namespace: &str, name: &str) -> bool {
        self.manifest(table, namespace, name).is_some()
    }

    /// The manifests that no object of their cluster was ever like since they were asked for, or not up to date if that is waited for.
    /// How an object is that is not simply written is not judged, nor what goes when it has ended.
    pub(super) fn unlike(&self, ready: bool) -> impl Iterator<Item = &Carried> {
        let is_whole = self.spec.apply_once.unwrap_or_default() == ApplyOnce::Never
            && self.spec.apply_once_rules.is_empty()
            && self.spec.paused != Some(true);
        let all = self.manifests.iter().zip(&self.shown).filter(move |_| is_whole);
        all.filter_map(move |((object, _), shown)| {
            let object = object.as_ref()?;
            let (table, namespace, name) = object;
            let key = Key::new(&table.as_str().into(), namespace, name);
            let mut configs = self.spec.manifest_configs.iter();
            let is_apart = table == JOBS
                || configs.any(|c| c.update_strategy.is_some() && names(&c.resource_identifier, &key));
            let is_so = if ready { shown.ready } else { shown.applied };
            (!is_so && !is_apart).then_some(object)
        })
    }

    /// Looks at an object that is there.
    fn sees(&mut self, key: &Key, live: &Value, scaled: bool) {
        for ((object, manifest), shown) in self.manifests.iter().zip(&mut self.shown) {
            if object.as_ref().is_some_and(|object| is_of(object, key)) {
                shown.add(manifest, live, scaled);
            }
        }
    }

    /// The manifest of an object.
    pub(super) fn manifest(&self, table: &str, namespace: &str, name: &str) -> Option<&Value> {
        let is = |carried: &Carried| is_at(carried, table, namespace, name);
        let found = self
            .manifests
            .iter()
            .find(|(carried, _)| carried.as_ref().is_some_and(is));
        found.map(|(_, manifest)| &**manifest)
    }
}

/// A Bundle, with all that it was since it was made.
#[derive(Debug, Clone, Default)]
pub(super) struct Held {
    /// Uid.
    pub(super) uid: String,
    /// Its number in the order in which Bundles were made.
    pub(super) made: u64,
    /// Present generation.
    pub(super) generation: i64,
    /// Whether it is being deleted.
    pub(super) deleting: bool,
    /// Since when.
    goes_since: Option<Duration>,
    /// Whether it is gone.
    pub(super) gone: bool,
    /// Labels.
    pub(super) labels: BTreeMap<String, String>,
    /// The last report, whatever it is about.
    pub(super) status: Option<BundleStatus>,
    /// By generation.
    pub(super) contents: BTreeMap<i64, Content>,
    /// By generation, what it was before the hub was put back to an earlier state: agents go by that up to an epoch.
    before: BTreeMap<i64, Content>,
    /// Up to which; every one until somebody has confirmed it.
    before_until: i64,
}

impl Held {
    /// What it is now, or was last.
    pub(super) fn present(&self) -> Option<&Content> {
        self.contents.get(&self.generation)
    }

    /// By generation, what whoever obeys this epoch goes by.
    pub(super) fn contents_of(&self, epoch: Option<i64>) -> &BTreeMap<i64, Content> {
        match !self.before.is_empty() && epoch.unwrap_or(0) <= self.before_until {
            true => &self.before,
            false => &self.contents,
        }
    }

    /// The generation whose content a report is about, if it says anything new of it.
    pub(super) fn reports_anew(&self, status: &BundleStatus) -> Option<i64> {
        // What an agent says that ignores it is of what it obeys.
        let generation = status.observed_generation.filter(|of| status.is_about(*of))?;
        let content = self.contents.get(&generation)?;
        (content.spec.hash == status.hash && content.reports.last() != Some(status)).then_some(generation)
    }

    /// Every content that it ever had, in that order.
    pub(super) fn all_contents(&self) -> impl Iterator<Item = &Content> {
        self.before.values().chain(self.contents.values())
    }

    /// Namespace and name of its application.
    pub(super) fn application(&self) -> Option<(&str, &str)> {
        let of = self.present()?.spec.application_ref.as_ref()?;
        Some((&of.namespace, &of.name))
    }
}

/// An Application.
#[derive(Debug, Clone, Default)]
pub(super) struct Delivered {
    /// The whole object as it is, or was last.
    pub(super) object: Arc<Value>,
    /// Its status.
    pub(super) status: ApplicationStatus,
    /// Whether it is being deleted, or gone.
    pub(super) deleting: bool,
}

/// An ApplicationRevision.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    /// Its application.
    pub(super) valid: ValidApplication,
    /// The same as text.
    pub(super) text: String,
    /// What it comes to in every cluster.
    pub(super) everywhere: Vec<Everywhere>,
}

/// Since when a ledger follows which generation of which Bundle, by uid.
type Followed = (Duration, String, i64);

/// A ledger.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    /// What it says.
    pub(super) spec: AppliedBundleSpec,
    /// Its objects, in the same order.
    pub(super) objects: Vec<Carried>,
}

/// What is stored, as far as promises are about it. All names are kept, also of what is gone.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Bundles of the hub, by namespace and name; the last of each name.
    pub(super) bundles: BTreeMap<Name, Held>,
    /// Bundles that had a namesake later, by uid.
    pub(super) former: BTreeMap<String, Held>,
    /// How many Bundles were made.
    made: u64,
    /// Decisions that are there.
    pub(super) decisions: BTreeMap<Name, DecisionSpec>,
    /// What those said that are deleted by now, and since when: it was decided all the same.
    pub(super) deleted: BTreeMap<Name, (DecisionSpec, Duration)>,
    /// Applications.
    pub(super) applications: BTreeMap<Name, Delivered>,
    /// ApplicationRevisions, as far as they can be understood.
    pub(super) revisions: BTreeMap<Name, Revision>,
    /// Placements, as text.
    pub(super) placements: BTreeMap<Name, String>,
    /// Clusters that are there.
    pub(super) clusters: BTreeMap<Arc<str>, Cluster>,
    /// Since when clusters are heard of, as their Clusters say.
    available: BTreeMap<Arc<str>, Duration>,
    /// Since when nothing has changed about clusters that placement goes by.
    unchanged: BTreeMap<Arc<str>, Duration>,
    /// When the labels of clusters were changed last since there are applications.
    labelled: BTreeMap<Arc<str>, Duration>,
    /// When the first Application was made.
    first: Option<Duration>,
    /// Every way to leave that was asked for since a cluster joined last.
    pub(super) left: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// What the hub stores was put back to an earlier state, and nobody has confirmed that yet.
    pub(super) unconfirmed: bool,
    /// Up to which epoch what agents obeyed is taken back, as somebody has confirmed.
    pub(super) confirmed: i64,
    /// The highest epoch that the Lease of the hubs has had.
    pub(super) epoch: i64,
    /// The last epoch that each hub wrote there.
    pub(super) terms: BTreeMap<Who, i64>,
    /// Ledgers, by member and name.
    pub(super) ledgers: BTreeMap<(Arc<str>, Arc<str>), Ledger>,
    /// What ledgers followed, by member and name.
    followed: BTreeMap<(Arc<str>, Arc<str>), Vec<Followed>>,
    /// Bundles that a request has made which the hub had given up, or which something on the way repeated.
    pub(super) late_bundles: BTreeSet<Name>,
    /// Every object of every server, as it is.
    pub(super) stored: BTreeMap<(Arc<str>, Key), Record>,
    /// Every object that was there once: a backup may bring it back.
    gone: BTreeSet<(Arc<str>, Key)>,
    /// When a member was put back last.
    put_back: BTreeMap<Arc<str>, Duration>,
    /// Since when agents are cut off, by cluster.
    pub(super) cut: BTreeMap<Arc<str>, Duration>,
    /// Since when namespaces of the hub go, or are gone.
    emptied: BTreeMap<Arc<str>, Duration>,
    /// Agents that do not run.
    pub(super) stopped: BTreeSet<Arc<str>>,
    /// When agents were ended last.
    ended: BTreeMap<Arc<str>, Duration>,
    /// Objects that a late or repeated request of an agent has made when no ledger had them any more, and whether the agent
    /// was ended meanwhile: then nobody knows any more that they may come.
    repeated: BTreeMap<(Arc<str>, Key), bool>,
    /// Objects that a late or repeated request of an agent has made, also beside a ledger, and that it has not written since.
    remade: BTreeSet<(Arc<str>, Key)>,
}

impl Model {
    /// Takes a write over.
    pub(super) fn take(&mut self, commit: &Commit) {
        let record = commit.after.as_ref().map(|bytes| Record {
            revision: commit.revision,
            bytes: bytes.clone(),
        });
        let object = (commit.server.clone(), commit.key.clone());
        match record {
            Some(_) => drop(self.gone.remove(&object)),
            None => drop(self.gone.insert(object.clone())),
        }
        self.repeats(&object, commit);
        put(&mut self.stored, object, record);
        if &*commit.server != HUB && commit.after.is_some() {
            self.shows(commit);
        }
        let name = || (commit.key.namespace.clone(), commit.key.name.clone());
        match (&*commit.server, &*commit.key.table) {
            (HUB, BUNDLES) => self.bundle(name(), commit),
            (HUB, DECISIONS) => match commit.read::<Decision>() {
                Some(decision) => {
                    self.deleted.remove(&name());
                    self.decisions.insert(name(), decision.spec);
                }
                None => {
                    let deleted = self.decisions.remove(&name());
                    let deleted = deleted.map(|decision| (name(), (decision, commit.at)));
                    self.deleted.extend(deleted);
                }
            },
            (HUB, APPLICATIONS) => self.application(name(), commit),
            (HUB, REVISIONS) => {
                let revision = commit.read::<ApplicationRevision>();
                let revision = revision.and_then(|revision| {
                    let application = &revision.spec.application;
                    let valid = application::validate(application).ok()?;
                    let (namespace, name) = (&commit.key.namespace, &revision.spec.application_name);
                    Some(Revision {
                        text: application.to_string(),
                        everywhere: raw::everywhere(namespace, name, &valid),
                        valid,
                    })
                });
                put(&mut self.revisions, name(), revision);
            }
            (HUB, PLACEMENTS) => {
                let there = commit.after.is_some();
                put(
                    &mut self.placements,
                    name(),
                    there.then(|| commit.after().to_string()),
                );
            }
            (HUB, CLUSTERS) => self.cluster(commit),
            (HUB, NAMESPACES) => {
                let name = commit.key.name.clone();
                let goes = commit.after().pointer("/metadata/deletionTimestamp").is_some();
                match goes || commit.after.is_none() {
                    true => drop(self.emptied.entry(name).or_insert(commit.at)),
                    false => drop(self.emptied.remove(&name)),
                }
            }
            (HUB, LEASES) => self.lease(commit),
            (HUB, CONFIG_MAPS) if &*commit.key.name == restored::NAME => self.mark(commit),
            (_, LEDGERS) => {
                let ledger = commit.read::<AppliedBundle>().map(|ledger| Ledger {
                    objects: ledger.spec.objects.iter().map(listed).collect(),
                    spec: ledger.spec,
                });
                let place = (commit.server.clone(), commit.key.name.clone());
                if let Some(ledger) = &ledger {
                    let followed = self.followed.entry(place.clone()).or_default();
                    let now = (&ledger.spec.bundle_uid, ledger.spec.generation);
                    if followed
                        .last()
                        .is_none_or(|(_, uid, generation)| (uid, *generation) != now)
                    {
                        followed.push((commit.at, now.0.clone(), now.1));
                    }
                }
                put(&mut self.ledgers, place, ledger);
            }
            _ => {}
        }
    }

    pub(super) fn note(&mut self, note: &Note, at: Duration) {
        match note {
            Note::Cut(cluster) => drop(self.cut.insert(cluster.clone(), at)),
            Note::Healed(cluster) => drop(self.cut.remove(cluster)),
            Note::Stopped(cluster) => {
                self.stopped.insert(cluster.clone());
                self.ended.insert(cluster.clone(), at);
                let own = self
                    .repeated
                    .iter_mut()
                    .filter(|((server, _), _)| server == cluster);
                own.for_each(|(_, forgotten)| *forgotten = true);
            }
            Note::Started(cluster) => drop(self.stopped.remove(cluster)),
            Note::Restored(server) if **server == *HUB => {
                self.unconfirmed = true;
                for held in self.bundles.values_mut() {
                    held.before.extend(held.contents.clone());
                    held.before_until = i64::MAX;
                    // What was said of what comes again under these numbers was said of something else.
                    held.contents
                        .values_mut()
                        .for_each(|content| content.reports.clear());
                }
            }
            Note::Restored(member) => drop(self.put_back.insert(member.clone(), at)),
            Note::Quiet
            | Note::Busy
            | Note::Silenced(_)
            | Note::Hindered(..)
            | Note::Eased
            | Note::NoRoom(_)
            | Note::Room(_)
            | Note::Reopened { .. }
            | Note::Fault { .. }
            | Note::Gauge { .. } => {}
        }
    }

    /// An object of a member is there, and may be what a Bundle asks for.
    fn shows(&mut self, commit: &Commit) {
        let scaled = self.is_scaled(&commit.server);
        let namespace: Arc<str> = cluster_namespace(&commit.server).into();
        let first = (namespace.clone(), Arc::from(""));
        let own = self.bundles.range_mut(first..);
        for (_, held) in own.take_while(|((of, _), _)| *of == namespace) {
            // An agent may still be at an earlier one.
            for content in held.contents.values_mut() {
                if content.carries(&commit.key.table, &commit.key.namespace, &commit.key.name) {
                    content.sees(&commit.key, commit.after(), scaled);
                }
            }
        }
    }

    /// Whether anything in a member scales what is there.
    fn is_scaled(&self, member: &Arc<str>) -> bool {
        let first = (member.clone(), Key::new(&SCALERS.into(), "", ""));
        let next = self.stored.range(first..).next();
        next.is_some_and(|((server, key), _)| server == member && &*key.table == SCALERS)
    }

    /// Takes over whether an object is there by a request that came late or once more.
    fn repeats(&mut self, object: &(Arc<str>, Key), commit: &Commit) {
        let (server, key) = object;
        let asked = commit.asked.as_ref();
        let asked = asked.filter(|asked| asked.who.agent() == Some(&**server));
        let overdue = asked.is_some_and(|asked| asked.overdue.is_some());
        if commit.after.is_none() {
            self.remade.remove(object);
            self.repeated.remove(object);
        } else if commit.before.is_none() && overdue {
            self.remade.insert(object.clone());
            if self.ledger_of(server, key).is_none() {
                let ended = self.ended.get(server);
                let forgotten = ended.is_some_and(|at| *at >= commit.sent());
                self.repeated.insert(object.clone(), forgotten);
            }
        } else if asked.is_some() && !overdue {
            self.remade.remove(object);
        }
    }

    /// What is in a member although nobody knows of it: see [`Model::repeated`].
    pub(super) fn strays<'a>(&'a self, member: &'a str) -> impl Iterator<Item = &'a Key> {
        let own = self
            .repeated
            .iter()
            .filter(move |((server, _), _)| **server == *member);
        let own = own.filter(|((server, key), forgotten)| {
            // What has a ledger again is that one's.
            **forgotten && &*key.table != LEDGERS && self.ledger_of(server, key).is_none()
        });
        own.map(|((_, key), _)| key)
    }

    /// Whether what a member has was put back since a moment.
    pub(super) fn is_put_back_since(&self, member: &str, moment: Duration) -> bool {
        self.put_back.get(member).is_some_and(|at| *at >= moment)
    }

    /// Whether an object of a member is there by a request of its agent that came late or once more.
    pub(super) fn is_remade(&self, member: &str, key: &Key) -> bool {
        self.remade.contains(&(member.into(), key.clone()))
    }

    /// What is there of an object of a member.
    pub(super) fn live(&self, member: &str, object: &Carried) -> impl Iterator<Item = (&Key, &Record)> {
        let places = places(&member.into(), object);
        let there = places
            .into_iter()
            .filter_map(|place| self.stored.get_key_value(&place));
        there.map(|((_, key), record)| (key, record))
    }

    /// Whether somebody has deleted a Bundle of a cluster by itself, not with its namespace.
    pub(super) fn goes_by_itself(&self, cluster: &str, held: &Held) -> bool {
        let since = held.goes_since;
        let emptied = self.emptied.get(&*cluster_namespace(cluster));
        since.is_some_and(|since| emptied.is_none_or(|emptied| since < *emptied))
    }

    /// The names of ledgers of a member that a late or repeated request has made.
    pub(super) fn stray_ledgers<'a>(&'a self, member: &'a str) -> impl Iterator<Item = &'a str> {
        let own = self.repeated.keys();
        let own = own.filter(move |(server, key)| **server == *member && &*key.table == LEDGERS);
        own.map(|(_, key)| &*key.name)
    }

    /// Whether somebody has let a cluster leave, and it is not back.
    pub(super) fn leaves(&self, cluster: &str) -> bool {
        match self.clusters.get(cluster) {
            Some(cluster) => cluster.metadata.deletion_timestamp.is_some(),
            None => self.left.contains_key(cluster),
        }
    }

    /// Whether a cluster leaves, or has left, and everybody who said how wants what is in it to stay.
    pub(super) fn leaves_everything(&self, cluster: &str) -> bool {
        if let Some(ways) = self.left.get(cluster) {
            return ways.iter().all(|way| *way == format!("{:?}", Leave::Orphan));
        }
        let going = |c: &Cluster| c.metadata.deletion_timestamp.is_some() && c.spec.leave.is_none();
        self.clusters.get(cluster).is_some_and(going)
    }

    /// Whether a cluster is known to be heard of.
    pub(super) fn is_available(&self, cluster: &str) -> bool {
        let status = self.clusters.get(cluster).and_then(|c| c.status.as_ref());
        status.is_some_and(|status| condition::is_true(&status.conditions, AVAILABLE))
    }

    /// Which generation of a Bundle a ledger followed at that time, if it was that Bundle.
    pub(super) fn followed(
        &self,
        (member, ledger): (&Arc<str>, &str),
        uid: &str,
        at: Duration,
    ) -> Option<i64> {
        let all = self.followed.get(&(member.clone(), ledger.into()))?;
        let until = all.partition_point(|(from, ..)| *from <= at);
        let (_, of, generation) = all.get(until.checked_sub(1)?)?;
        (of == uid).then_some(*generation)
    }

    /// Whether a cluster is heard of, and a hub has to know that, and all else that placement goes by: nothing of it has changed for
    /// so long that it has heard of it, whatever watch was dead in silence. What was so when the first application came was seen
    /// by everybody.
    pub(super) fn is_known(&self, cluster: &str, at: Duration) -> bool {
        let since = self.unchanged.get(cluster).filter(|_| self.is_available(cluster));
        since.is_some_and(|since| {
            let from_first = self.first.filter(|first| since <= first);
            at.saturating_sub(*since) >= BEHIND
                || from_first.is_some_and(|first| at.saturating_sub(first) >= STALE)
        })
    }

    /// Whether there was an Application so far.
    pub(super) fn has_applications(&self) -> bool {
        self.first.is_some()
    }

    /// Whether a hub may not have heard yet which labels a cluster has.
    pub(super) fn may_be_labelled_otherwise(&self, cluster: &str, at: Duration) -> bool {
        let since = self.labelled.get(cluster);
        since.is_some_and(|since| at.saturating_sub(*since) < BEHIND)
    }

    /// What was decided for a step of an application, also where somebody has deleted that.
    pub(super) fn decided(&self, namespace: &str, application: &str, step: &str) -> Option<&DecisionSpec> {
        let key = (namespace.into(), decision_name(application, step).as_str().into());
        let deleted = || self.deleted.get(&key).map(|(decision, _)| decision);
        self.decisions.get(&key).or_else(deleted)
    }

    /// The Bundles of an application that are there, with their clusters.
    pub(super) fn bundles_of<'a>(
        &'a self,
        application: (&'a str, &'a str),
    ) -> impl Iterator<Item = (&'a str, &'a Name, &'a Held)> {
        let of = move |(name, held): (&'a Name, &'a Held)| {
            let cluster = cluster_of_namespace(&name.0)?;
            (!held.gone && held.application() == Some(application)).then_some((cluster, name, held))
        };
        self.bundles.iter().filter_map(of)
    }

    /// The kinds of all that any Bundle ever had.
    pub(super) fn carried_kinds(&self) -> BTreeSet<[String; 2]> {
        let held = self.bundles.values().chain(self.former.values());
        let manifests = held
            .flat_map(Held::all_contents)
            .flat_map(|content| &content.manifests);
        let kind = |(_, manifest): &(_, Arc<Value>)| {
            let text = |field: &str| Some(manifest.get(field)?.as_str()?.to_owned());
            Some([text("apiVersion")?, text("kind")?])
        };
        manifests.filter_map(kind).collect()
    }

    /// All that a Bundle of this uid was.
    pub(super) fn by_uid(&self, uid: &str) -> Option<&Held> {
        let present = self.bundles.values().find(|held| held.uid == uid);
        present.or_else(|| self.former.get(uid))
    }

    /// The ledger that answers for an object of a member, with its name.
    pub(super) fn ledger_of(&self, member: &Arc<str>, key: &Key) -> Option<(&str, &Ledger)> {
        let is = |object: &Carried| is_of(object, key);
        let first = (member.clone(), Arc::from(""));
        let mut own = self
            .ledgers
            .range(first..)
            .take_while(|((server, _), _)| server == member);
        let found = own.find(|(_, ledger)| ledger.objects.iter().any(is))?;
        Some((&found.0.1, found.1))
    }

    /// The writes that would make what is known of a server what its store has now: after a restart.
    pub(super) fn differences(&self, server: &Arc<str>, store: &dyn Store, at: Duration) -> Vec<Commit> {
        let there = self.stored.iter().map(|(object, record)| (object, Some(record)));
        let all = there.chain(self.gone.iter().map(|object| (object, None)));
        let own = all.filter(|((of, _), _)| of == server);
        let changed = own.filter_map(|((_, key), record)| {
            let now = store.get(key);
            if now.as_ref() == record {
                return None;
            }
            let either = now.as_ref().or(record);
            let revision = either.map_or(0, |record| record.revision);
            let after = now.map(|now| now.bytes);
            Some(Commit::new(
                (server, key),
                None,
                at,
                record.cloned(),
                (revision, after),
            ))
        });
        changed.collect()
    }

    fn bundle(&mut self, name: Name, commit: &Commit) {
        let cluster = cluster_of_namespace(&name.0).unwrap_or_default();
        let member: Arc<str> = cluster.into();
        let (unreachable, scaled) = (!self.is_available(cluster), self.is_scaled(&member));
        let asked = commit.asked.as_ref().filter(|asked| asked.who.is_hub());
        if commit.before.is_none() && asked.is_some_and(|asked| asked.overdue.is_some()) {
            self.late_bundles.insert(name.clone());
        }
        if commit.after.is_none() {
            self.late_bundles.remove(&name);
        }
        let held = self.bundles.entry(name).or_default();
        let Some(mut bundle) = commit.read::<Bundle>() else {
            held.gone = true;
            held.deleting = true;
            held.goes_since.get_or_insert(commit.at);
            return;
        };
        let uid = bundle.metadata.uid.unwrap_or_default();
        if held.uid != uid {
            let former = std::mem::take(held);
            if !former.uid.is_empty() {
                self.former.insert(former.uid.clone(), former);
            }
            // One that comes out of a backup was made when it was.
            held.made = self.former.get(&uid).map_or(self.made, |former| former.made);
            self.made += 1;
            held.uid = uid;
        }
        held.gone = false;
        let generation = bundle.metadata.generation.unwrap_or_default();
        let is_new = generation > held.generation;
        held.generation = generation;
        held.deleting = bundle.metadata.deletion_timestamp.is_some();
        if held.deleting {
            held.goes_since.get_or_insert(commit.at);
        }
        held.labels = bundle.metadata.labels.unwrap_or_default();
        let manifests = std::mem::take(&mut bundle.spec.workload.manifests);
        // A server that lost writes counts on from before them: what was of those generations never was.
        let last = held.generation - i64::from(is_new);
        held.contents.retain(|generation, _| *generation <= last);
        let known = held.contents.get(&held.generation);
        if known.is_none_or(|known| known.spec.hash != bundle.spec.hash) {
            let mut content = Content {
                shown: vec![Shown::default(); manifests.len()],
                manifests: manifests
                    .into_iter()
                    .map(|m| (carried(&m), Arc::new(m)))
                    .collect(),
                at: commit.at,
                unreachable,
                ..Content::default()
            };
            let all: BTreeSet<Carried> = content
                .manifests
                .iter()
                .filter_map(|(of, _)| of.clone())
                .collect();
            for object in all {
                for place in places(&member, &object) {
                    if let Some(record) = self.stored.get(&place) {
                        let live = serde_json::from_slice(&record.bytes).unwrap_or_default();
                        content.sees(&place.1, &live, scaled);
                    }
                }
            }
            held.contents.insert(held.generation, content);
        }
        if let Some(content) = held.contents.get_mut(&held.generation) {
            content.spec = bundle.spec;
        }
        if let Some(status) = &bundle.status
            && let Some(generation) = held.reports_anew(status)
            && let Some(content) = held.contents.get_mut(&generation)
        {
            content.reports.push(status.clone());
        }
        held.status = bundle.status;
    }

    /// The mark of a hub that was put back: as long as it is there without a confirmation, the hub waits.
    fn mark(&mut self, commit: &Commit) {
        let mark = commit.read::<ConfigMap>();
        let confirmed = mark.as_ref().and_then(restored::confirmed);
        self.unconfirmed = mark.is_some() && confirmed.is_none();
        if let Some(epoch) = confirmed {
            self.confirmed = epoch;
            for held in self.bundles.values_mut() {
                held.before_until = epoch;
            }
        }
    }

    fn application(&mut self, name: Name, commit: &Commit) {
        self.first.get_or_insert(commit.at);
        let known = self.applications.entry(name).or_default();
        let after = commit.after();
        if after.is_null() {
            known.deleting = true;
            return;
        }
        known.deleting = after.pointer("/metadata/deletionTimestamp").is_some();
        // What cannot be read as one is a user's text.
        let status = after.get("status").cloned().map(serde_json::from_value);
        known.status = status.and_then(Result::ok).unwrap_or_default();
        known.object = Arc::new(after.clone());
    }

    fn cluster(&mut self, commit: &Commit) {
        let name = commit.key.name.clone();
        let cluster = commit.read::<Cluster>();
        if let Some(cluster) = &cluster {
            if !self.clusters.contains_key(&name) {
                // It joins, again perhaps: what was said of one of its name is over.
                self.left.remove(&name);
            }
            // How it is to leave may be said long before it does.
            if let Some(leave) = cluster.spec.leave
                && cluster.metadata.deletion_timestamp.is_some()
            {
                let asked = self.left.entry(name.clone()).or_default();
                asked.insert(format!("{leave:?}"));
            }
        }
        let labels = |cluster: Option<&Cluster>| cluster.and_then(|c| c.metadata.labels.clone());
        // What was so when the first application came was seen by everybody.
        if self.first.is_some() && labels(self.clusters.get(&name)) != labels(cluster.as_ref()) {
            self.labelled.insert(name.clone(), commit.at);
        }
        let before = placed_by(self.clusters.get(&name));
        if before != placed_by(cluster.as_ref()) {
            self.unchanged.insert(name.clone(), commit.at);
        }
        put(&mut self.clusters, name.clone(), cluster);
        if self.is_available(&name) {
            self.available.entry(name).or_insert(commit.at);
        } else {
            self.available.remove(&name);
            let namespace = cluster_namespace(&name);
            for (_, held) in self.bundles.iter_mut().filter(|(at, _)| *at.0 == *namespace) {
                let present = held.contents.get_mut(&held.generation);
                present.into_iter().for_each(|content| content.unreachable = true);
            }
        }
    }

    fn lease(&mut self, commit: &Commit) {
        if &*commit.key.name != roundhouse_api::names::HUB_LEASE {
            return;
        }
        let carried = |lease: &Value| annotation_of(lease, annotation::EPOCH)?.parse().ok();
        let Some(epoch) = carried(commit.after()) else {
            return;
        };
        let raised = carried(commit.before()) != Some(epoch);
        self.epoch = self.epoch.max(epoch);
        // A Lease that is taken carries its last epoch until the new one is known.
        if let Some(who) = commit.by().filter(|_| raised) {
            self.terms.insert(who.clone(), epoch);
        }
    }
}

/// Where an object may be, as agents take it: without a namespace it is in this one, or in none.
fn places(member: &Arc<str>, (table, namespace, name): &Carried) -> [(Arc<str>, Key); 2] {
    let namespace = if namespace.is_empty() {
        "default"
    } else {
        namespace
    };
    [namespace, ""].map(|namespace| (member.clone(), Key::new(&table.as_str().into(), namespace, name)))
}

/// What placement goes by of a cluster, as far as it is judged here.
fn placed_by(cluster: Option<&Cluster>) -> Option<impl PartialEq + use<>> {
    let cluster = cluster?;
    let (meta, spec) = (cluster.metadata.clone(), &cluster.spec);
    let status = cluster.status.clone().unwrap_or_default();
    let available = condition::is_true(&status.conditions, AVAILABLE);
    let leaves = meta.deletion_timestamp.is_some();
    let taints = (spec.taints.clone(), status.taints);
    Some((meta.uid, meta.labels, leaves, spec.accepted, taints, available))
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

/// The table of a kind, as it is usually called.
fn table(group: &str, kind: &str) -> String {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    match group {
        "" => resource.plural,
        group => format!("{}.{group}", resource.plural),
    }
}

/// The object that a manifest means.
pub(super) fn carried(manifest: &Value) -> Option<Carried> {
    let text = |pointer: &str| manifest.pointer(pointer)?.as_str();
    let (group, _) = text("/apiVersion")?.split_once('/').unwrap_or_default();
    let namespace = text("/metadata/namespace").unwrap_or_default().to_owned();
    Some((
        table(group, text("/kind")?),
        namespace,
        text("/metadata/name")?.to_owned(),
    ))
}

fn listed(entry: &LedgerEntry) -> Carried {
    (
        table(&entry.group, &entry.kind),
        entry.namespace.clone(),
        entry.name.clone(),
    )
}
