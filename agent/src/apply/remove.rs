//! Remove: one object of the ledger against the member. The shell around [`prune`](crate::apply::prune).

use crate::apply::Engine;
use crate::apply::busy::Busy;
use crate::apply::decide::Terms;
use crate::apply::keep::Rules;
use crate::apply::locate::{Located, locate};
use crate::apply::order::{WAVES, waves};
use crate::apply::prune::{Removal, policy, removal};
use crate::apply::unanswered::Sender;
use crate::error::{CallError, Fault};
use crate::kinds::Kind;
use crate::ledger::Settled;
use crate::object::{self, ObjectKey};
use crate::report::Leaving;
use futures::{FutureExt, StreamExt, TryStreamExt};
use roundhouse_api::bundle::{ApplyOnce, DeleteOption, ResourceMeta};
use roundhouse_api::ledger::LedgerEntry;
use roundhouse_api::names::{annotation, label};
use roundhouse_patch::PatchType;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often an object that others change meanwhile is looked at in one pass.
const LOOKS: u32 = 4;

/// What was achieved: objects that the ledger may forget, and those that are still there.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// What became of those that are gone, for the ledger.
    pub(crate) gone: BTreeMap<ObjectKey, Settled>,
    pub(crate) leaving: Vec<Leaving>,
    /// Whether trying again without any change may help.
    pub(crate) retry: bool,
    /// Of those that are still there, the ones whose next change may let them go.
    pub(crate) waited_for: Vec<Waited>,
}

/// An object that is still there, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) target: ObjectKey,
    pub(crate) kind: Arc<Kind>,
    /// Whether it carries the label that shared watches select by.
    pub(crate) labelled: bool,
    /// Its `resourceVersion`.
    pub(crate) seen: Option<String>,
}

impl Waited {
    fn of(target: &ObjectKey, kind: &Arc<Kind>, live: &Value) -> Self {
        Waited {
            target: target.clone(),
            kind: Arc::clone(kind),
            labelled: object::label(live, label::APP_NAME).is_some(),
            seen: object::resource_version(live).map(str::to_owned),
        }
    }
}

/// On what terms objects go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Farewell<'a> {
    pub(crate) marker: &'a str,
    pub(crate) delete_option: Option<&'a DeleteOption>,
    /// Ordinal of the first object in the report: after the last manifest.
    pub(crate) ordinal: u32,
    /// Objects that the bundle still has, as the member names them: an entry under another spelling of the same object
    /// is forgotten, not removed.
    pub(crate) wanted: &'a BTreeSet<ObjectKey>,
    /// Apply-once, if nobody confirmed the removal: which objects go only without replicas.
    pub(crate) guard: Option<Guard<'a>>,
}

/// For which objects apply-once is on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard<'a> {
    pub(crate) mode: ApplyOnce,
    pub(crate) rules: &'a Rules,
}

impl<'a> Guard<'a> {
    /// Apply-once, if it is on for any object. Nothing confirms the removal of single manifests but the objects themselves.
    pub(crate) fn of(terms: &'a Terms) -> Option<Self> {
        let guard = Guard {
            mode: terms.apply_once,
            rules: &terms.rules,
        };
        guard.is_on().then_some(guard)
    }

    /// Whether it is for any object at all.
    pub(crate) fn is_on(&self) -> bool {
        self.mode != ApplyOnce::Never || self.rules.have_whole()
    }

    fn covers(&self, live: Option<&Value>) -> bool {
        live.is_some_and(|live| self.rules.mode(self.mode, live) != ApplyOnce::Never)
    }
}

/// Why an object is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stays {
    message: String,
    /// Its removal is refused until it is confirmed.
    refused: bool,
    /// Trying again without any change may help.
    retry: bool,
    /// It is gone, and may come: from whom.
    unanswered: Option<Sender>,
    /// The object, if a change of it is waited for.
    waited_for: Option<Waited>,
}

impl Stays {
    fn going(message: impl Into<String>) -> Self {
        Stays {
            message: message.into(),
            refused: false,
            retry: true,
            unanswered: None,
            waited_for: None,
        }
    }

    fn until_it_comes(sender: Sender) -> Self {
        let message = "is not there, but a request of this agent to make it was not answered, and may still arrive; for ten \
                       minutes it is looked for, and removed";
        Stays {
            unanswered: Some(sender),
            ..Stays::going(message)
        }
    }

    fn refused(target: &ObjectKey, busy: Busy) -> Self {
        Stays {
            message: busy.refusal(target),
            refused: true,
            retry: false,
            unanswered: None,
            waited_for: None,
        }
    }

    fn with(workload: &ObjectKey) -> Self {
        Stays::waiting(format!("stays with {workload}, whose removal is refused"))
    }

    fn waiting(message: String) -> Self {
        Stays {
            message,
            refused: false,
            retry: false,
            unanswered: None,
            waited_for: None,
        }
    }

    fn until_changed(self, waited_for: Waited) -> Self {
        Stays {
            waited_for: Some(waited_for),
            ..self
        }
    }
}

/// How an attempt to remove an object ended.
#[derive(Debug)]
enum Ends {
    /// There is none.
    Gone,
    /// It is not ours, or not ours any more.
    Let,
    /// It is still there.
    Stays(Stays),
}

/// What of a later wave is still there.
#[derive(Debug)]
struct Staying {
    key: ObjectKey,
    kind: Option<Arc<Kind>>,
    /// Whether it is on its way out; if not, it is refused, stays with what is, or waits itself.
    going: bool,
    refused: bool,
}

impl Staying {
    /// Whether this is gone when `other` goes.
    fn lives_by(&self, other: &ObjectKey) -> bool {
        if other.is("", "Namespace") {
            return self.key.namespace == other.name;
        }
        if !other.is("apiextensions.k8s.io", "CustomResourceDefinition") {
            return false;
        }
        // `<plural>.<group>`; a plural that is not known may be any.
        let (plural, group) = other.name.split_once('.').unwrap_or_default();
        let kind = self.kind.as_ref();
        group == self.key.group && kind.is_none_or(|kind| kind.resource.plural == plural)
    }
}

/// Why an object does not go yet, by what of later waves is still there; pure.
fn reason_to_wait(key: &ObjectKey, staying: &[Staying]) -> Option<String> {
    if staying.iter().any(|staying| staying.going) {
        return Some("waits for objects that depend on it".to_owned());
    }
    let mut living = staying.iter().filter(|staying| staying.lives_by(key));
    let first = living.clone().next()?;
    let by = living.find(|staying| staying.refused).unwrap_or(first);
    Some(format!("waits for {}, which would go with it", by.key))
}

/// What is held before anything goes, with its kind where that is known.
type HeldBack = BTreeMap<ObjectKey, (Option<Arc<Kind>>, Stays)>;

/// A look at a guarded object before anything is taken away.
struct Look {
    key: ObjectKey,
    kind: Arc<Kind>,
    component: Option<String>,
    refused: Option<Stays>,
}

impl Engine {
    /// Removes objects, the last wave first. While anything is on its way out, the waves before it wait; what is refused
    /// holds up its namespace and its definition, and nothing else.
    pub(crate) async fn remove(&self, entries: Vec<LedgerEntry>, farewell: Farewell<'_>) -> Removed {
        let keyed: Vec<_> = entries
            .into_iter()
            .map(|entry| (ObjectKey::of_entry(&entry), entry))
            .collect();
        let held = &self.refusals(&keyed, farewell).await;
        let mut waves = waves(keyed, |(key, _)| key);
        let mut removed = Removed::default();
        let mut staying: Vec<Staying> = Vec::new();
        for index in (0..WAVES).rev() {
            let wave = waves.get_mut(index).map(std::mem::take).unwrap_or_default();
            let before = &staying;
            let removals: Vec<_> = wave
                .into_iter()
                .map(|(key, entry)| {
                    let removal = async move {
                        let (kind, stays) = match (held.get(&key), reason_to_wait(&key, before)) {
                            (Some((kind, stays)), _) => (kind.clone(), Some(stays.clone())),
                            (None, Some(message)) => (None, Some(Stays::waiting(message))),
                            (None, None) => self.remove_one(&key, &entry, farewell).await,
                        };
                        (key, entry, kind, stays)
                    };
                    removal.boxed()
                })
                .collect();
            let mut results: Vec<_> = futures::stream::iter(removals)
                .buffer_unordered(self.concurrent.max(1))
                .collect()
                .await;
            results.sort_by(|a, b| a.0.cmp(&b.0));
            for (key, entry, kind, stays) in results {
                let Some(stays) = stays else {
                    removed.gone.insert(key, Settled::Released);
                    continue;
                };
                if let Some(sender) = &stays.unanswered {
                    let applied_as = sender.applied_as().to_owned();
                    removed.gone.insert(key.clone(), Settled::Unanswered(applied_as));
                }
                let left = u32::try_from(removed.leaving.len()).unwrap_or(u32::MAX);
                removed.leaving.push(Leaving {
                    meta: meta(
                        &key,
                        &entry,
                        kind.as_deref(),
                        farewell.ordinal.saturating_add(left),
                    ),
                    message: stays.message,
                    refused: stays.refused,
                });
                removed.retry |= stays.retry;
                removed.waited_for.extend(stays.waited_for);
                staying.push(Staying {
                    key,
                    kind,
                    going: stays.retry,
                    refused: stays.refused,
                });
            }
        }
        removed
    }

    /// Looks at everything that is to go before anything goes: a workload that refuses keeps what belongs to its
    /// component, so that no Service is taken from under pods that still run. If one look fails nothing goes: whether
    /// that object refuses, and for which component, is not known.
    async fn refusals(&self, entries: &[(ObjectKey, LedgerEntry)], farewell: Farewell<'_>) -> HeldBack {
        if farewell.guard.is_none() {
            return BTreeMap::new();
        }
        let looks: Vec<_> = entries
            .iter()
            .map(|(key, entry)| self.look(key, entry, farewell).boxed())
            .collect();
        let looks: Result<Vec<Option<Look>>, CallError> = futures::stream::iter(looks)
            .buffer_unordered(self.concurrent.max(1))
            .try_collect()
            .await;
        match looks {
            Ok(looks) => held_by_refusals(looks.into_iter().flatten().collect()),
            Err(error) => {
                let stays = Stays::going(format!(
                    "what is to go could not be looked at: {}",
                    error.message()
                ));
                let keys = entries.iter().map(|(key, _)| key.clone());
                keys.map(|key| (key, (None, stays.clone()))).collect()
            }
        }
    }

    /// `None` for what is not there or not to be deleted.
    async fn look(
        &self,
        key: &ObjectKey,
        entry: &LedgerEntry,
        farewell: Farewell<'_>,
    ) -> Result<Option<Look>, CallError> {
        let Some(Located { kind, target, live }) =
            locate(&self.member, &self.kinds, key, &entry.version).await?
        else {
            return Ok(None);
        };
        let Some(live) = live.filter(|_| !farewell.wanted.contains(&target)) else {
            return Ok(None);
        };
        let entry = self.met(key, entry, &live);
        let refused = match farewell.removal(&entry, Some(&live), &kind, &target) {
            Removal::Refused(busy) => {
                Some(Stays::refused(&target, busy).until_changed(Waited::of(&target, &kind, &live)))
            }
            Removal::Delete => None,
            _ => return Ok(None),
        };
        Ok(Some(Look {
            key: key.clone(),
            kind,
            component: object::label(&live, label::COMPONENT).map(str::to_owned),
            refused,
        }))
    }

    /// Removes one object; `None` when the ledger may forget it, else what is waited for.
    async fn remove_one(
        &self,
        key: &ObjectKey,
        entry: &LedgerEntry,
        farewell: Farewell<'_>,
    ) -> (Option<Arc<Kind>>, Option<Stays>) {
        let located = match locate(&self.member, &self.kinds, key, &entry.version).await {
            Ok(Some(located)) => located,
            // No object outlives its definition.
            Ok(None) => return (None, None),
            Err(error) => return (None, Some(Stays::going(error.message()))),
        };
        let kind = Arc::clone(&located.kind);
        if farewell.wanted.contains(&located.target) {
            return (Some(kind), None);
        }
        let target = located.target.clone();
        let ends = match self.take_away(located, (key, entry), farewell).await {
            Ok(ends) => ends,
            Err(error) if error.says_missing(&target) => Ends::Gone,
            Err(error) => Ends::Stays(Stays::going(error.message())),
        };
        let waiting = match ends {
            Ends::Stays(stays) => Some(stays),
            Ends::Let => None,
            Ends::Gone => {
                if let Some(sender) = self.unanswered.made_lately(key) {
                    let whose = (farewell.marker, sender);
                    self.latecomers.expect(&target, &kind, whose, &self.member);
                }
                self.unanswered.may_make(key).map(Stays::until_it_comes)
            }
        };
        (Some(kind), waiting)
    }

    /// The entry that a live object is judged by: one that a request has made behind the agent's back is another one than the
    /// ledger has, and its marker tells whose it is.
    fn met<'a>(&self, key: &ObjectKey, entry: &'a LedgerEntry, live: &Value) -> Cow<'a, LedgerEntry> {
        let is_another = entry.uid.is_some() && entry.uid.as_deref() != object::uid(live);
        match is_another && self.unanswered.has_made(key, live) {
            true => Cow::Owned(LedgerEntry {
                uid: None,
                ..entry.clone()
            }),
            false => Cow::Borrowed(entry),
        }
    }

    async fn take_away(
        &self,
        Located { kind, target, live }: Located,
        (key, entry): (&ObjectKey, &LedgerEntry),
        farewell: Farewell<'_>,
    ) -> Result<Ends, CallError> {
        let (kind, target) = (&kind, &target);
        let until_changed =
            |stays: Stays, live: &Value| Ends::Stays(stays.until_changed(Waited::of(target, kind, live)));
        let mut now = live;
        let mut looks = LOOKS;
        while let Some(live) = now {
            match farewell.removal(&self.met(key, entry, &live), Some(&live), kind, target) {
                Removal::Gone => break,
                Removal::NotOurs => return Ok(Ends::Let),
                Removal::Refused(busy) => {
                    return Ok(until_changed(Stays::refused(target, busy), &live));
                }
                Removal::Waiting { finalizers } => {
                    let stays = Stays::going(format!("is being deleted; held by finalizers: {finalizers}"));
                    return Ok(until_changed(stays, &live));
                }
                Removal::Release => {
                    // Whoever adopts it later is not to take what we applied for what was applied last.
                    let stamps: Map<String, Value> = annotation::STAMPS
                        .map(|stamp| (stamp.to_owned(), Value::Null))
                        .into_iter()
                        .collect();
                    let patch = json!({"metadata": {
                        "resourceVersion": object::resource_version(&live), "annotations": stamps}});
                    self.member.patch(kind, target, &patch, PatchType::Merge).await?;
                    return Ok(Ends::Let);
                }
                Removal::Delete => {}
            }
            let refused = match self.member.delete(kind, target, &live).await {
                Ok(()) => None,
                Err(error) if error.fault() == Fault::Conflict => Some(error),
                Err(error) => return Err(error),
            };
            let left = self.member.get(kind, target).await?;
            let Some(left) = left.filter(|left| object::uid(left) == object::uid(&live)) else {
                break;
            };
            if object::is_deleting(&left) {
                return Ok(until_changed(Stays::going("is being deleted"), &left));
            }
            let changed = object::resource_version(&left) != object::resource_version(&live);
            looks -= 1;
            let stays = match refused {
                // Decided anew, on what it is now.
                Some(_) if changed && looks > 0 => {
                    now = Some(left);
                    continue;
                }
                Some(_) if changed => {
                    "changes too often to be deleted as it was seen; it is tried again".to_owned()
                }
                // A webhook's or a proxy's: nothing will change by itself, so it is asked again.
                Some(error) => error.message(),
                None => "its deletion was answered, but it is there and not being deleted; it is tried again"
                    .to_owned(),
            };
            return Ok(Ends::Stays(Stays::going(stays)));
        }
        Ok(Ends::Gone)
    }
}

impl Farewell<'_> {
    /// Decides how an object goes, on the live object as just read.
    pub(crate) fn removal(
        &self,
        entry: &LedgerEntry,
        live: Option<&Value>,
        kind: &Kind,
        target: &ObjectKey,
    ) -> Removal {
        let guarded = self.guard.is_some_and(|guard| guard.covers(live));
        let policy = policy(self.delete_option, kind, target);
        removal(entry, live, self.marker, policy, guarded)
    }
}

/// What stays because a workload of its component refuses; pure.
fn held_by_refusals(looks: Vec<Look>) -> HeldBack {
    let refusing: BTreeMap<Option<String>, ObjectKey> = looks
        .iter()
        .filter(|look| look.refused.is_some())
        .map(|look| (look.component.clone(), look.key.clone()))
        .collect();
    let stays = looks.into_iter().filter_map(|look| {
        let workload = refusing.get(&look.component)?;
        let stays = look.refused.unwrap_or_else(|| Stays::with(workload));
        Some((look.key, (Some(look.kind), stays)))
    });
    stays.collect()
}

fn meta(key: &ObjectKey, entry: &LedgerEntry, kind: Option<&Kind>, ordinal: u32) -> ResourceMeta {
    ResourceMeta {
        ordinal,
        group: key.group.clone(),
        version: entry.version.clone(),
        kind: key.kind.clone(),
        resource: kind.map(|kind| kind.resource.plural.clone()).unwrap_or_default(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::testing::key;
    use kube::core::{ApiResource, GroupVersionKind};

    fn kind(group: &str, kind: &str, plural: &str) -> Arc<Kind> {
        let gvk = GroupVersionKind::gvk(group, "v1", kind);
        Arc::new(Kind {
            resource: ApiResource::from_gvk_with_plural(&gvk, plural),
            namespaced: true,
        })
    }

    #[test]
    fn a_refusal_keeps_the_objects_of_its_component_and_no_others() {
        let look = |name: &str, component: Option<&str>, refused: bool| {
            let key = key(name, component.unwrap_or("none"));
            Look {
                refused: refused.then(|| Stays::refused(&key, Busy::Replicas(3))),
                component: component.map(str::to_owned),
                kind: kind("", name, "any"),
                key,
            }
        };
        let held = held_by_refusals(vec![
            look("Deployment", Some("web"), true),
            look("Service", Some("web"), false),
            look("Service", Some("db"), false),
            look("ConfigMap", None, false),
        ]);
        let words: Vec<(String, bool)> = held
            .iter()
            .map(|(key, (_, stays))| (key.to_string(), stays.refused))
            .collect();
        assert_eq!(
            words,
            [
                ("Deployment web".to_owned(), true),
                ("Service web".to_owned(), false)
            ]
        );
        assert!(
            held[&key("Service", "web")]
                .1
                .message
                .contains("stays with Deployment web")
        );
    }

    #[test]
    fn what_is_on_its_way_out_holds_up_earlier_waves_and_what_is_refused_only_what_it_lives_by() {
        let of_group = |group: &str, kind: &str, name: &str| ObjectKey {
            group: group.into(),
            ..key(kind, name)
        };
        let definition = |name: &str| of_group("apiextensions.k8s.io", "CustomResourceDefinition", name);
        let refused = |kind: Option<Arc<Kind>>| {
            let mut key = of_group("example.com", "Widget", "w");
            key.namespace = "inside".into();
            [Staying {
                key,
                kind,
                going: false,
                refused: true,
            }]
        };
        let known = refused(Some(kind("example.com", "Widget", "widgets")));
        for (object, waits, waits_by_group) in [
            (key("ConfigMap", "inside"), false, false),
            (key("Namespace", "inside"), true, true),
            (key("Namespace", "outside"), false, false),
            (definition("widgets.example.com"), true, true),
            (definition("gadgets.example.com"), false, true),
            (definition("widgets.example.org"), false, false),
        ] {
            assert_eq!(reason_to_wait(&object, &known).is_some(), waits, "{object}");
            let unknown = refused(None);
            assert_eq!(
                reason_to_wait(&object, &unknown).is_some(),
                waits_by_group,
                "{object}"
            );
            let [mut going] = refused(None);
            going.going = true;
            assert!(reason_to_wait(&object, &[going]).is_some(), "{object}");
            assert_eq!(reason_to_wait(&object, &[]), None);
        }
        assert_eq!(
            reason_to_wait(&key("Namespace", "inside"), &known).as_deref(),
            Some("waits for Widget.example.com inside/w, which would go with it")
        );
    }
}
