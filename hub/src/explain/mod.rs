//! Why a cluster gets what it gets: the arithmetic, the conditions, and the smallest change that would flip it; pure.
//!
//! | module | question |
//! | --- | --- |
//! | `setting` | what does a decision depend on? |
//! | `arithmetic` | how do the replicas of a workload come to their clusters? |
//! | `conditions` | what is asked of a cluster, in which order, and what decides? |
//! | `change` | what can be changed about a cluster or an application? |
//! | `candidates` | which changes answer the reason that decides? |
//! | `flip` | which of them do flip it, and what else would they move? |
//! | `running` | what do clusters run of it? |
//! | `held` | what keeps a cluster as it is, whatever placement answers? |
//! | `edit` | what to type for a change |
//!
//! Architecture invariant: nothing here decides. Reasons come from the placement's own selection and rows, and a change
//! is named only after [`place`](crate::placement::place) was called with it applied and the answer did flip.

mod arithmetic;
mod candidates;
mod change;
mod conditions;
mod edit;
mod flip;
mod held;
mod running;
mod setting;
#[cfg(test)]
mod tests;

pub use arithmetic::{Arithmetic, RowArithmetic, RuleArithmetic, arithmetic, by_frequency};
pub use change::Change;
pub use conditions::{Condition, Mark, Reason, Share, StepAnswer, as_decided, conditions};
pub use edit::{Advice, Counted, Place, Source, StepSource};
pub use flip::{Aim, Consequence, Flip, Moved, Search, search};
pub use held::{Hold, Kept, holding};
pub use setting::{Component, Form, InForce, Setting, Step, Written, in_force};
