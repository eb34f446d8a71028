//! The watch of the ledgers in the member, on metadata only: one that somebody deletes or edits is made again within
//! moments, not at the next resync, and one that comes back without its Bundle is looked at.

use crate::watch::inbox::LedgerSeen;
use crate::watch::registry::Registry;
use crate::watch::{Steady, steady, watching};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use roundhouse_api::ledger::AppliedBundle;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Ledgers of one page of a list.
const PAGE: u32 = 500;

/// Watches the ledgers of one hub; never ends by itself. `unclaimed` is told the bundles of ledgers that no worker has.
pub(crate) async fn watch(
    client: Client,
    hub_id: &str,
    registry: Arc<Registry>,
    policy: Steady,
    unclaimed: impl Fn(&str),
) {
    let api: Api<PartialObjectMeta<AppliedBundle>> = Api::all(watching(client));
    let config = watcher::Config::default().page_size(PAGE);
    let mut view = View {
        prefix: format!("{hub_id}."),
        registry,
        listing: BTreeSet::new(),
        unclaimed,
    };
    let begin = || watcher(api.clone(), config.clone());
    steady(policy, begin, |event| view.take(event)).await;
}

struct View<F> {
    /// What the names of this hub's ledgers begin with.
    prefix: String,
    registry: Arc<Registry>,
    /// Bundles whose ledger a list that is under way had.
    listing: BTreeSet<String>,
    /// Told the bundles of ledgers that no worker has.
    unclaimed: F,
}

impl<F: Fn(&str)> View<F> {
    fn take(&mut self, event: watcher::Event<PartialObjectMeta<AppliedBundle>>) {
        match event {
            watcher::Event::Init => self.listing.clear(),
            watcher::Event::InitApply(ledger) => {
                if let Some(bundle) = self.seen(&ledger, LedgerSeen::by_list) {
                    self.listing.insert(bundle);
                }
            }
            watcher::Event::InitDone => {
                let present = std::mem::take(&mut self.listing);
                for bundle in self.registry.bundles().difference(&present) {
                    self.registry.ledger_touched(bundle, LedgerSeen::by_list(None));
                }
            }
            watcher::Event::Apply(ledger) => {
                self.seen(&ledger, LedgerSeen::by_event);
            }
            watcher::Event::Delete(ledger) => {
                self.seen(&ledger, |_| LedgerSeen::by_event(None));
            }
        }
    }

    fn seen(
        &self,
        ledger: &PartialObjectMeta<AppliedBundle>,
        how: impl Fn(Option<&str>) -> LedgerSeen,
    ) -> Option<String> {
        let bundle = ledger.metadata.name.as_deref()?.strip_prefix(&self.prefix)?;
        let seen = how(ledger.metadata.resource_version.as_deref());
        let there = seen.version.is_some();
        if !self.registry.ledger_touched(bundle, seen) && there {
            (self.unclaimed)(bundle);
        }
        Some(bundle.to_owned())
    }
}
