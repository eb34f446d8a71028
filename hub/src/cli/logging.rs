//! Logs go to stderr.

use super::{Failure, terminal};

use tracing_subscriber::EnvFilter;

/// Starts logging with the user's filter, or with the verb's.
pub(super) fn start(filter: Option<&str>, default: &str) -> Result<(), Failure> {
    let filter = filter.filter(|text| !text.is_empty()).unwrap_or(default);
    let parsed = EnvFilter::try_new(filter).map_err(|error| {
        Failure::new("E-LOG", format!("{filter:?} is not a log filter"))
            .because(error)
            .advise("a level, such as --log info, or --log roundhouse_hub=debug,warn")
    })?;

    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_writer(std::io::stderr)
        .with_ansi(terminal::color_on_stderr())
        // It would be said on stderr, which is what cannot be written to.
        .log_internal_errors(false);
    // Only fails where a subscriber is there already, as in a test that runs several verbs.
    let _ = subscriber.try_init();
    Ok(())
}
