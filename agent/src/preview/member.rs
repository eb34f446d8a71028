//! The shell: reads the ledgers and the live objects of a member, and writes nothing.

use crate::apply::decode::Manifest;
use crate::apply::locate::{Located, locate};
use crate::apply::target::{first_of_each, no_kind, target};
use crate::apply::write::failed;
use crate::error::CallError;
use crate::kinds::Kinds;
use crate::member::{Member, within};
use crate::object::ObjectKey;
use crate::preview::part::{Look, Looked, Opened, Remnant, open, others};
use crate::preview::{Part, Preview, PreviewError, Setting};
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
        let ledger = match within(TIMEOUT, ledgers.get(&name)).await {
            Ok(ledger) => Some(ledger),
            // No agent was there yet, not even to define what a ledger is.
            Err(error) if error.fault().is_404() => None,
            Err(error) => return Err(unreadable(&error)),
        };
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
    };
    for part in &mut opened {
        first_of_each(&mut part.decoded, &reader.kinds).await;
    }
    let mut objects = Vec::new();
    for (at, part) in opened.iter().enumerate() {
        let looked = reader.manifests(part).await;
        let others = others(&opened, at);
        let mut targets: BTreeSet<ObjectKey> = others.clone();
        targets.extend(looked.iter().flatten().map(|look| look.target.clone()));
        let surplus = part.surplus(others, &looked);
        objects.extend(part.manifests(looked, &setting.salt));
        for (key, entry) in surplus {
            if let Some(look) = reader.surplus(key, entry, &targets).await {
                objects.push(part.leaving(key, entry, look));
            }
        }
    }
    Ok(Preview {
        objects,
        held: opened.iter().filter_map(|opened| opened.held.clone()).collect(),
    })
}

fn unreadable(error: &CallError) -> PreviewError {
    PreviewError::Member(error.reasons())
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

struct Reader {
    member: Member,
    kinds: Kinds,
}

impl Reader {
    /// What there is of each manifest.
    async fn manifests(&self, part: &Opened) -> Vec<Looked> {
        let manifests = part.decoded.manifests.iter();
        let looks: Vec<_> = manifests
            .map(|manifest| self.manifest(manifest).boxed())
            .collect();
        futures::stream::iter(looks).buffered(CONCURRENT).collect().await
    }

    async fn manifest(&self, manifest: &Manifest) -> Looked {
        let key = &manifest.key;
        let stopped = |key: &ObjectKey, outcome| Err(Box::new((key.clone(), outcome)));
        let kind = match self.kinds.resolve(&key.gvk(&manifest.version)).await {
            Ok(Some(kind)) => kind,
            Ok(None) => return stopped(key, no_kind(manifest)),
            Err(error) => return stopped(key, failed(&error)),
        };
        let target = match target(manifest, &kind) {
            Ok(target) => target,
            Err(outcome) => return stopped(key, outcome),
        };
        match self.member.get(&kind, &target).await {
            Ok(live) => Ok(Look { kind, target, live }),
            Err(error) => stopped(&target, failed(&error)),
        }
    }

    /// What there is of an object that is only in the ledger; `None` for another spelling of one that the bundle has.
    async fn surplus(
        &self,
        key: &ObjectKey,
        entry: &LedgerEntry,
        targets: &BTreeSet<ObjectKey>,
    ) -> Option<Remnant> {
        let located = locate(&self.member, &self.kinds, key, &entry.version).await;
        Some(match located {
            Ok(Some(Located { target, .. })) if targets.contains(&target) => return None,
            Ok(Some(Located { kind, target, live })) => Ok(Some(Look { kind, target, live })),
            // No object outlives its definition.
            Ok(None) => Ok(None),
            Err(error) => Err(failed(&error)),
        })
    }
}
