//! The shell: reads the ledgers and the live objects of a member, and writes nothing.

use crate::apply::decode::Manifest;
use crate::apply::prune::removal;
use crate::apply::strategy::treatment;
use crate::apply::target::{no_kind, target};
use crate::apply::write::failed;
use crate::error::{CallError, Fault};
use crate::kinds::Kinds;
use crate::member::{Member, found, within};
use crate::object::ObjectKey;
use crate::preview::object::{Forecast, Sight, forecast};
use crate::preview::part::{Opened, farewell, open};
use crate::preview::{ObjectPreview, Part, Preview, PreviewError, Setting};
use futures::{FutureExt, StreamExt};
use kube::api::ListParams;
use kube::{Api, Client};
use roundhouse_api::ledger::{AppliedBundle, AppliedBundleSpec, LedgerEntry};
use roundhouse_api::names::ledger_name;
use std::collections::BTreeSet;
use std::time::Duration;

/// A call to the member that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Objects that are read at a time.
const CONCURRENT: usize = 8;
/// Ledgers that are looked at to say whose they are.
const LOOK: u32 = 100;

/// Reads a member and says what the next pass of its agent would do with the parts of one application.
///
/// # Errors
/// [`PreviewError`]: the member does not answer, or is another cluster than the one of these Bundles. What concerns one
/// object is said of that object.
pub async fn preview(member: Client, setting: &Setting, parts: Vec<Part>) -> Result<Preview, PreviewError> {
    let ledgers: Api<AppliedBundle> = Api::all(member.clone());
    let mut opened = Vec::with_capacity(parts.len());
    for part in parts {
        let name = ledger_name(&setting.hub_id, &part.name);
        let ledger = found(within(TIMEOUT, ledgers.get(&name)).await).map_err(unreadable)?;
        let ledger = match ledger {
            Some(ledger) if ledger.spec.bundle_uid != part.uid && part.applied => {
                return Err(PreviewError::OtherBundle {
                    bundle: part.name,
                    found: ledger.spec.bundle_uid,
                    expected: part.uid,
                });
            }
            Some(ledger) => ledger.spec,
            None if part.applied => {
                let others = other_hubs(&ledgers, &setting.hub_id).await;
                return Err(PreviewError::NoLedger {
                    bundle: part.name,
                    hub_id: setting.hub_id.clone(),
                    others,
                });
            }
            None => AppliedBundleSpec::default(),
        };
        opened.push(open(part, &ledger, setting));
    }
    let reader = Reader {
        kinds: Kinds::new(member.clone(), TIMEOUT),
        member: Member::new(member, TIMEOUT),
        salt: &setting.salt,
    };
    let mut preview = Preview {
        objects: Vec::new(),
        held: opened.iter().filter_map(|opened| opened.held.clone()).collect(),
    };
    for (at, part) in opened.iter().enumerate() {
        let others = opened.iter().enumerate().filter(|(other, _)| *other != at);
        let others = others.flat_map(|(_, other)| other.decoded.manifests.iter());
        let others = others.map(|manifest| manifest.key.clone()).collect();
        preview.objects.extend(reader.part(part, others).await);
    }
    Ok(preview)
}

fn unreadable(error: CallError) -> PreviewError {
    PreviewError::Member(error.message())
}

/// Which hubs a cluster has ledgers of, as the end of a sentence.
async fn other_hubs(ledgers: &Api<AppliedBundle>, hub_id: &str) -> String {
    let page = within(TIMEOUT, ledgers.list(&ListParams::default().limit(LOOK))).await;
    let items = page.map(|page| page.items).unwrap_or_default();
    let hubs: BTreeSet<String> = items.into_iter().map(|ledger| ledger.spec.hub_id).collect();
    let others: Vec<String> = hubs.into_iter().filter(|hub| hub != hub_id).collect();
    if others.is_empty() {
        String::new()
    } else {
        format!(", but of hub {}", others.join(", "))
    }
}

struct Reader<'a> {
    member: Member,
    kinds: Kinds,
    salt: &'a [u8],
}

impl Reader<'_> {
    /// Everything that is said about one part.
    async fn part(&self, part: &Opened, others: BTreeSet<ObjectKey>) -> Vec<ObjectPreview> {
        let looks: Vec<_> = part
            .decoded
            .manifests
            .iter()
            .map(|m| self.manifest(part, m).boxed())
            .collect();
        let looks = futures::stream::iter(looks).buffered(CONCURRENT);
        let looked: Vec<(ObjectKey, Forecast)> = looks.collect().await;
        let mut objects = Vec::new();
        let mut targets = others.clone();
        let mut unknown_kinds = BTreeSet::new();
        for (manifest, (target, forecast)) in part.decoded.manifests.iter().zip(looked) {
            if forecast.reason == "NoKind" {
                unknown_kinds.insert((manifest.key.group.as_str(), manifest.key.kind.as_str()));
            }
            objects.push(said(
                part,
                Some(manifest.ordinal),
                &manifest.version,
                &target,
                forecast,
            ));
            targets.insert(target);
        }
        for failed in &part.decoded.failed {
            let text = |part: &Option<String>| part.clone().unwrap_or_default();
            let identity = &failed.identity;
            let key = ObjectKey {
                group: text(&identity.group),
                kind: text(&identity.kind),
                namespace: text(&identity.namespace),
                name: text(&identity.name),
            };
            let outcome = crate::apply::outcome::Outcome::Undecodable(failed.error.clone());
            objects.push(said(
                part,
                Some(failed.ordinal),
                "",
                &key,
                Forecast::of_outcome(&outcome),
            ));
        }
        objects.sort_by_key(|object| object.ordinal);
        for (key, entry) in part.surplus(others, unknown_kinds) {
            if let Some(forecast) = self.surplus(part, key, entry, &targets).await {
                objects.push(said(part, None, &entry.version, key, forecast));
            }
        }
        objects
    }

    async fn manifest(&self, part: &Opened, manifest: &Manifest) -> (ObjectKey, Forecast) {
        let key = manifest.key.clone();
        let kind = match self.kinds.resolve(&key.gvk(&manifest.version)).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return (key, Forecast::of_outcome(&no_kind(manifest))),
            Err(error) => return (key, Forecast::of_outcome(&failed(&error))),
        };
        let target = match target(manifest, &kind) {
            Ok(target) => target,
            Err(outcome) => return (key, Forecast::of_outcome(&outcome)),
        };
        let live = match self.member.get(&kind, &target).await {
            Ok(live) => live,
            Err(error) => return (target, Forecast::of_outcome(&failed(&error))),
        };
        let forecast = forecast(Sight {
            manifest,
            live: live.as_ref(),
            entry: part.entry(&manifest.key),
            treatment: treatment(part.configs(), &kind, &target),
            terms: &part.terms,
            salt: self.salt,
        });
        (target, forecast)
    }

    /// `None` for another spelling of an object that the bundle has.
    async fn surplus(
        &self,
        part: &Opened,
        key: &ObjectKey,
        entry: &LedgerEntry,
        targets: &BTreeSet<ObjectKey>,
    ) -> Option<Forecast> {
        let live = match self
            .kinds
            .resolve_any_version(&key.group, &key.kind, &entry.version)
            .await
        {
            Ok(Some(kind)) => {
                let mut target = key.clone();
                if !kind.namespaced {
                    target.namespace.clear();
                }
                if targets.contains(&target) {
                    return None;
                }
                self.member.get(&kind, &target).await
            }
            // No object outlives its definition.
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        Some(match live {
            Ok(live) => {
                let delete_option = part.part.spec.delete_option.as_ref();
                farewell(&removal(entry, live.as_ref(), &part.terms.marker, delete_option))
            }
            Err(error) if error.fault() == Fault::NotFound => farewell(&crate::apply::prune::Removal::Gone),
            Err(error) => Forecast::of_outcome(&failed(&error)),
        })
    }
}

fn said(
    part: &Opened,
    ordinal: Option<u32>,
    version: &str,
    key: &ObjectKey,
    forecast: Forecast,
) -> ObjectPreview {
    ObjectPreview {
        bundle: part.name.clone(),
        ordinal,
        group: key.group.clone(),
        version: version.to_owned(),
        kind: key.kind.clone(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        action: forecast.action,
        reason: forecast.reason,
        message: forecast.message,
        differences: forecast.differences,
    }
}
