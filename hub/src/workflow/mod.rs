//! `advance()` and the steps: a pure engine.
