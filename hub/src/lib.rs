//! The dispatcher hub: placement, workflow, dispatch, and the command line.
