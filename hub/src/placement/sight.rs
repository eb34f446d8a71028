//! Which changes of a cluster a placement can see.

use super::{ClusterFacts, PlacingStep};

/// What an application's placing steps look at in a cluster: built once for a spec, asked for every change of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Sight {}

impl Sight {
    /// What these steps look at.
    pub fn of(_steps: &[PlacingStep<'_>]) -> Self {
        Sight {}
    }

    /// Whether a decision may change when a cluster changes like this; `None` is a cluster that is not there. `held`
    /// says whether the cluster is a member of the application, or holds replicas or a Bundle of it.
    ///
    /// Sound: where it says no, placing before and after gives the same.
    pub fn sees(&self, _held: bool, before: Option<&ClusterFacts>, after: Option<&ClusterFacts>) -> bool {
        before != after
    }
}
