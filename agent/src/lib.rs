//! The agent that applies bundles in a member cluster.
