//! The controller that strings rendering, revisions, workflow and dispatch together.
