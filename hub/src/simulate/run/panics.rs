//! Panics while a run is under way. What panics in a hub or an agent is begun anew and heals, so that nothing else of the run would
//! show it.

use std::{
    cell::RefCell,
    panic::{self, PanicHookInfo},
    sync::Once,
};

thread_local! {
    /// What panicked on this thread, while somebody wants to know.
    static SEEN: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Keeps what panics on this thread from here on; a run has one thread. What is said of it otherwise is said as before.
pub(super) fn watch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            note(info);
            before(info);
        }));
    });
    SEEN.with(|seen| *seen.borrow_mut() = Some(Vec::new()));
}

fn note(info: &PanicHookInfo<'_>) {
    let said = info.payload_as_str().unwrap_or("no text").to_owned();
    let place = info
        .location()
        .map_or(String::new(), |place| format!(" at {place}"));
    // A thread that is going away, or panics in here, has nobody to tell.
    let _ = SEEN.try_with(|seen| {
        if let Ok(mut seen) = seen.try_borrow_mut()
            && let Some(all) = seen.as_mut()
        {
            all.push(format!("something panicked{place}: {said}"));
        }
    });
}

/// What has panicked on this thread since [`watch`]; it is no longer watched.
pub(super) fn seen() -> Vec<String> {
    SEEN.with(RefCell::take).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use crate::simulate::run::{Script, run};
    use roundhouse_agent::Jitter;
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    /// Panics once.
    #[derive(Debug, Default)]
    struct Breaks(AtomicBool);

    impl Jitter for Breaks {
        fn unit(&self) -> f64 {
            assert!(self.0.swap(true, Ordering::Relaxed), "only this once");
            0.5
        }
    }

    #[test]
    fn who_panics_and_is_begun_anew_makes_no_good_run() {
        let whole = Script::of_regions(1, &["east"]);
        let mut broken = whole.clone();
        broken.agents = Some(Arc::new(|config| config.jitter = Arc::new(Breaks::default())));
        let outcome = run(&broken, 7);
        let said =
            |what: &str| what.starts_with("something panicked at ") && what.ends_with(": only this once");
        assert!(
            outcome.failures.iter().any(|failure| said(&failure.what)),
            "{outcome}"
        );
        assert!(!outcome.is_good());
        let outcome = run(&whole, 7);
        assert!(outcome.is_good(), "{outcome}");
    }
}
