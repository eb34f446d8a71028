//! `/healthz`, `/livez` and `/readyz`, in Kubernetes' text form (`k8s.io/apiserver/pkg/server/healthz`).
//!
//! A store that refuses writes does not turn readiness: reads and watches go on, and Kubernetes' own check of etcd is a
//! read, too. A shutdown does, before the listener closes.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{
    error::ApiError,
    request::percent_decode,
    server::Core,
    service::{Reply, ReplyBody},
};

/// What a probe asks about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Healthz,
    Livez,
    Readyz,
}

impl Endpoint {
    /// By the first word of its path.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "healthz" => Some(Self::Healthz),
            "livez" => Some(Self::Livez),
            "readyz" => Some(Self::Readyz),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }

    fn checks(self) -> &'static [Check] {
        match self {
            Self::Healthz | Self::Livez => &[PING, STORE],
            Self::Readyz => &[PING, STORE, SHUTDOWN],
        }
    }
}

/// A named check; the error says for the log what is wrong.
type Check = (&'static str, fn(&Core) -> Result<(), &'static str>);

const PING: Check = ("ping", |_| Ok(()));
const STORE: Check = ("store", |core| {
    // It can never be deleted: if it is not found, nothing is.
    core.namespace("default")
        .map(|_| ())
        .ok_or("namespace \"default\" cannot be read")
});
const SHUTDOWN: Check = ("shutdown", |core| {
    if core.health.ends() {
        Err("process is shutting down")
    } else {
        Ok(())
    }
});

/// What probes are told beside the state of the store.
#[derive(Debug, Default)]
pub(crate) struct Health {
    ends: AtomicBool,
}

impl Health {
    /// The server is about to stop serving.
    pub(crate) fn begin_shutdown(&self) {
        self.ends.store(true, Ordering::Release);
    }

    fn ends(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }
}

/// Answers a probe: of one check, or of all of them.
///
/// # Errors
/// 404 if there is no check of that name.
pub(crate) fn answer(
    core: &Core,
    endpoint: Endpoint,
    check: Option<&str>,
    query: &str,
) -> Result<Reply, ApiError> {
    if let Some(name) = check {
        let known = endpoint.checks().iter().find(|(known, _)| *known == name);
        let (_, run) = known.ok_or_else(ApiError::no_such_path)?;
        return Ok(match run(core) {
            Ok(()) => text(200, "ok".to_owned()),
            Err(why) => text(500, format!("internal server error: {why}\n")),
        });
    }
    let (mut verbose, mut excluded) = (false, vec![]);
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "verbose" => verbose = true,
            "exclude" => excluded.extend(percent_decode(value)),
            _ => {}
        }
    }
    Ok(report(core, endpoint, verbose, &excluded))
}

fn report(core: &Core, endpoint: Endpoint, verbose: bool, excluded: &[String]) -> Reply {
    let (mut out, mut failed) = (String::new(), vec![]);
    for (name, run) in endpoint.checks() {
        // Writing to a string does not fail.
        let _ = match run(core) {
            _ if excluded.iter().any(|e| e == name) => writeln!(out, "[+]{name} excluded: ok"),
            Ok(()) => writeln!(out, "[+]{name} ok"),
            Err(why) => {
                failed.push(*name);
                tracing::debug!("{} check {name} failed: {why}", endpoint.name());
                writeln!(out, "[-]{name} failed: reason withheld")
            }
        };
    }
    let known = |name: &&String| endpoint.checks().iter().any(|(known, _)| known == name);
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !known(name))
        .map(|n| format!("{n:?}"))
        .collect();
    if !unknown.is_empty() {
        let list = unknown.join(",");
        let _ = writeln!(
            out,
            "warn: some health checks cannot be excluded: no matches for {list}"
        );
    }
    let name = endpoint.name();
    if failed.is_empty() {
        let _ = writeln!(out, "{name} check passed");
        return text(200, if verbose { out } else { "ok".to_owned() });
    }
    let _ = writeln!(out, "{name} check failed");
    text(500, out)
}

fn text(code: u16, body: String) -> Reply {
    Reply {
        code,
        body: ReplyBody::Text(body),
        warnings: vec![],
    }
}
