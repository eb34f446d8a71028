//! Replays recorded Kubernetes API exchanges against a server and compares the answers.
//!
//! A case is a list of steps that share variables. A step sends one request or opens one watch; `expect` is the answer
//! after [normalisation](normalize): uids, resource versions, times and managed fields are dropped, a `Status` counts
//! by code, reason and details. `fields` restricts the comparison to paths, `compare: status` to the status code,
//! `until` asks again until a path has a value, `start` and `join` run a watch beside other steps, and what a `cleanup`
//! step answers does not matter. `sleep` steps gave the recorded server's controllers time; the embedded server has
//! done its work when it answers, so here they pass at once.

mod exchange;
pub mod normalize;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub use exchange::{Exchange, InProcess};

/// Times a step with `until` asks again.
const ASK_AGAIN: usize = 50;
/// Pause before it does.
const PAUSE: Duration = Duration::from_millis(200);
/// Length of a watch that does not say.
const WATCH_SECONDS: f64 = 10.0;
/// A value longer than any server takes.
const BIG: usize = 4_000_000;

/// Where a server answered something else than Kubernetes did.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Index of the step.
    pub step: usize,
    /// Its request.
    pub request: String,
    /// What Kubernetes answered.
    pub want: Value,
    /// What this server answered.
    pub got: Value,
}

/// Runs one case; `run` makes the names it uses unique on that server.
///
/// # Errors
/// If the case is malformed. What the server does is never an error but a difference.
pub async fn run_case(server: &impl Exchange, case: &Value, run: &str) -> Result<Vec<Difference>> {
    let mut runner = Runner {
        server,
        variables: BTreeMap::from([
            ("run".to_owned(), run.to_owned()),
            ("big".to_owned(), "v".repeat(BIG)),
        ]),
        watches: BTreeMap::new(),
    };
    let mut differences = vec![];
    for (i, step) in case["steps"]
        .as_array()
        .context("a case has steps")?
        .iter()
        .enumerate()
    {
        let Some((request, owner, got)) = runner.step(step).await? else {
            continue;
        };
        let Some(want) = owner.get("expect") else { continue };
        let want = runner.substitute(want);
        if normalize::sorted(&want) != normalize::sorted(&got) {
            differences.push(Difference {
                step: i,
                request,
                want,
                got,
            });
        }
    }
    Ok(differences)
}

struct Running {
    step: Value,
    events: JoinHandle<(u16, Value)>,
}

struct Runner<'a, E> {
    server: &'a E,
    variables: BTreeMap<String, String>,
    watches: BTreeMap<String, Running>,
}

impl<E: Exchange> Runner<'_, E> {
    /// Does a step; what it asked, the step that holds the expectation, and the answer normalised. `None` if there is
    /// nothing to compare.
    async fn step(&mut self, recorded: &Value) -> Result<Option<(String, Value, Value)>> {
        let step = self.substitute(recorded);
        if step.get("sleep").is_some() {
            return Ok(None);
        }
        if let Some(name) = step["start"].as_str() {
            let events = self.open(&step).await;
            self.watches.insert(
                name.to_owned(),
                Running {
                    step: step.clone(),
                    events,
                },
            );
            return Ok(None);
        }
        if let Some(name) = step["join"].as_str() {
            let running = self
                .watches
                .remove(name)
                .with_context(|| format!("watch {name} was not started"))?;
            let (status, body) = running.events.await?;
            let got = normalize::observe(&running.step, status, &body);
            return Ok(Some((format!("join {name}"), recorded.clone(), got)));
        }
        let (status, body) = if step.get("watch").is_some() {
            self.open(&step).await.await?
        } else {
            self.ask(&step).await
        };
        for (variable, path) in step["save"].as_object().into_iter().flatten() {
            let path = path.as_str().context("save names a path")?;
            let value = normalize::pick(&body, path);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            self.variables.insert(variable.clone(), text);
        }
        if step["cleanup"] == true {
            return Ok(None);
        }
        let request = format!(
            "{} {}",
            step["method"].as_str().unwrap_or("WATCH"),
            step["path"].as_str().unwrap_or("")
        );
        Ok(Some((
            request,
            recorded.clone(),
            normalize::observe(&step, status, &body),
        )))
    }

    async fn ask(&self, step: &Value) -> (u16, Value) {
        let mut answer = self.server.request(step).await;
        if let Some(path) = step["until"]["path"].as_str() {
            for _ in 0..ASK_AGAIN {
                if normalize::pick(&answer.1, path) == step["until"]["value"] {
                    break;
                }
                tokio::time::sleep(PAUSE).await;
                answer = self.server.request(step).await;
            }
        }
        answer
    }

    /// Opens the watch of a step; it is open when this returns.
    async fn open(&self, step: &Value) -> JoinHandle<(u16, Value)> {
        let want = step["watch"]["events"].as_u64().unwrap_or(1);
        let seconds = step["watch"]["seconds"].as_f64().unwrap_or(WATCH_SECONDS);
        self.server
            .watch(
                step,
                usize::try_from(want).unwrap_or(usize::MAX),
                Duration::from_secs_f64(seconds),
            )
            .await
    }

    fn substitute(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let mut text = text.clone();
                for (name, with) in &self.variables {
                    text = text.replace(&format!("${{{name}}}"), with);
                }
                text.into()
            }
            Value::Array(list) => list.iter().map(|v| self.substitute(v)).collect(),
            Value::Object(map) => {
                let name = |k: &String| self.substitute(&json!(k)).as_str().unwrap_or_default().to_owned();
                map.iter()
                    .map(|(k, v)| (name(k), self.substitute(v)))
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }
            other => other.clone(),
        }
    }
}

/// Reads the cases of a file.
///
/// # Errors
/// If it is no list of named cases.
pub fn cases(text: &str) -> Result<Vec<(String, Value)>> {
    let Value::Array(list) = serde_json::from_str(text)? else {
        bail!("a case file is a list of cases")
    };
    list.into_iter()
        .map(|case| {
            Ok((
                case["name"].as_str().context("a case has a name")?.to_owned(),
                case,
            ))
        })
        .collect()
}
