//! The injected clock: no decision reads the time of day by itself.

use jiff::Timestamp;
use std::sync::Arc;

/// Says what time it is. Controllers and agents hold one; pure functions take the [`Timestamp`].
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// A clock that can be handed to several tasks.
pub type SharedClock = Arc<dyn Clock>;

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the clock of the machine"
    )]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
