//! Whole fleets under the monitor, and for each promise what breaks it.

mod breaking;
mod fleet;
mod model;
mod world;
