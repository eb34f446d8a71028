//! Decision + manifests -> Bundles; reports -> roll-up.
