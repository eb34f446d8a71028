//! Whole fleets under the monitor, and for each promise what breaks it.

mod fleet;
