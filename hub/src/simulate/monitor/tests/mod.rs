//! Whole fleets under the monitor, and for each promise what breaks it.

mod absence;
mod breaking;
mod fleet;
mod gates;
mod model;
mod world;
