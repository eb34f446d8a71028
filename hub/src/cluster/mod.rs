//! Registration, heartbeats, conditions and taints of member clusters.
