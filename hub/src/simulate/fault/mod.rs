//! Faults: of the network, of clocks, of disks, and deaths. All dice come from one seed, all time is tokio's.
//!
//! [`Network`] lies on the wires of a fleet ([`FleetOptions::wires`](super::FleetOptions::wires)) and does what its [`Rule`]s
//! say; [`Shelves`] keeps what the API servers store and lets disks fail; [`Skews`] gives each party a clock that can be put
//! wrong. [`Seen`] counts what happened of each kind.

mod answer;
mod changes;
mod clock;
mod dice;
mod disk;
mod life;
mod network;
mod rule;
mod seen;
mod stepped;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

pub use clock::Skews;
pub use dice::Dice;
pub use disk::{DiskFault, Shelves, StoreFailure};
pub use life::{Moment, When};
pub use network::Network;
pub use rule::{Asks, Effect, Ending, On, Parties, Rule, Side};
pub use seen::{Kind, Seen};
