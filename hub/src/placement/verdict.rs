//! What a placement makes of one cluster before it divides: for those who ask why.

use super::{Request, eligible::NotChosen, eligible::select, fleet::Fleet, history::History};
use std::collections::BTreeMap;

/// How a cluster stands in one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Why the step does not choose it; `None` if it does.
    pub not_chosen: Option<NotChosen>,
    /// Whether it keeps what it has and gets nothing more.
    pub no_additional: bool,
    /// Whether it holds something of the application that belongs to this step.
    pub holds: bool,
    /// Its place in the order of `maxClusters`, if the step has a limit and the cluster got that far.
    pub place: Option<Place>,
    /// Value of the label that `spread` goes by -> clusters chosen, clusters that could be; empty without a spread.
    pub groups: BTreeMap<String, (u32, u32)>,
}

/// A place in the order of `maxClusters`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub rank: usize,
    /// How many clusters are in the order.
    pub of: usize,
    /// Those that come right before it, the best first; at most three.
    pub ahead: Vec<String>,
}

/// How many of the clusters before it a [`Place`] names.
const AHEAD: usize = 3;

/// How a cluster stands in every step of a request, in order: the very selection that [`place`](super::place) divides
/// over. `None` if it is not in the inventory.
pub fn standing(request: &Request<'_>, cluster: &str) -> Option<Vec<Standing>> {
    let fleet = Fleet::new(request);
    let index = fleet.find(cluster)?;
    let history = History::new(request.previous, &fleet);
    let of_step = |selection: super::eligible::Selection| Standing {
        not_chosen: selection.verdicts.get(index).copied().flatten(),
        no_additional: selection.no_additional.contains(index),
        holds: selection.holders.contains(index),
        groups: selection
            .choice
            .as_ref()
            .map(|choice| choice.groups.clone())
            .unwrap_or_default(),
        place: selection.order.iter().position(|c| *c == index).map(|at| Place {
            rank: at + 1,
            of: selection.order.len(),
            ahead: selection
                .order
                .iter()
                .take(at)
                .skip(at.saturating_sub(AHEAD))
                .map(|cluster| fleet.name(*cluster).to_owned())
                .collect(),
        }),
    };
    Some(
        select(request, &history, &fleet)
            .into_iter()
            .map(of_step)
            .collect(),
    )
}
