//! A run is a value: a [`Script`] and a seed in, an [`Outcome`] out. It builds a runtime of its own with paused time, so that
//! any number of runs go on at once on different threads, and the same seed gives the same trace.
//!
//! ```
//! use roundhouse_hub::simulate::run::{Script, run};
//!
//! let outcome = run(&Script::of_regions(2, &["east"]), 7);
//! assert!(outcome.is_good(), "{outcome}");
//! ```

mod act;
mod agree;
mod coherent;
mod drive;
mod help;
mod look;
mod objects;
mod order;
mod outcome;
mod overlaps;
mod panics;
mod perform;
mod random;
mod resume;
mod sample;
mod script;
mod stage;

pub use act::{Act, Check, Fault, Look, Target};
pub use agree::agreement;
pub use help::Help;
pub use order::Order;
pub use outcome::{Event, Failure, Missed, Outcome};
pub use random::random;
pub use resume::Resume;
pub use sample::{
    application, as_service, bearing, bundle_by_hand, in_turns, once, placed_by, then_step, waiting_for,
    with_flags, with_image, without_config,
};
pub use script::{Cue, LOOKED, Script, Until};

use crate::simulate::{fault::Seen, monitor::Monitor};
use stage::Stage;
use std::time::Duration;

/// Runs a script from a seed. Whoever panics is begun anew, as a process is, and yet it is a failure of the run.
pub fn run(script: &Script, seed: u64) -> Outcome {
    // kube's watches draw the jitter of their pauses from this thread's dice.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Outcome::not_begun(seed, &format!("no runtime: {error}")),
    };
    panics::watch();
    let mut outcome = runtime.block_on(whole(script, seed));
    // Whatever is still under way is nobody's concern.
    runtime.shutdown_timeout(Duration::ZERO);
    let at = outcome.took;
    let panicked = panics::seen().into_iter().map(|what| Failure { at, what });
    outcome.failures.extend(panicked);
    outcome
}

async fn whole(script: &Script, seed: u64) -> Outcome {
    let (monitor, seen) = (Monitor::new(), Seen::default());
    match Stage::set(script, seed, &monitor, &seen).await {
        Ok(stage) => Box::pin(drive::drive(stage, script)).await,
        Err(error) => Outcome::not_begun(seed, &error.to_string()),
    }
}
