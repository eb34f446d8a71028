//! A hub, members and agents, each a process of its own, over TLS on loopback. All they know of each other is the
//! kubeconfigs that they write.

mod acting;
mod audit;
mod conserved;
mod delivery;
mod diff;
mod doubled;
mod ends;
mod fleet;
mod identity;
mod joining;
mod leader;
mod looking;
mod memory;
mod metrics;
mod moves;
mod neighbours;
mod refused;
mod restored;
mod simulating;
mod steering;
mod tenancy;
mod tokens;
mod yard;
