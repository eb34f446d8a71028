//! Labels and taints as `kubectl label` and `kubectl taint` take them.

use crate::{cli::Failure, words};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use roundhouse_api::{
    cluster::{Cluster, TAINT_CORDONED},
    names::{self, is_bookkeeping},
    placement::{Taint, TaintEffect},
};

/// Why an argument is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::cli) enum GrammarError {
    /// It is neither of the forms.
    #[error("{argument:?} is no {what}: write {form}")]
    Form {
        /// As it was typed.
        argument: String,
        /// `label` or `taint`.
        what: &'static str,
        /// How it is written.
        form: &'static str,
    },
    /// The key is not legal.
    #[error("key {key:?} of {argument:?} is not legal: use {}", names::QUALIFIED)]
    Key {
        /// As it was typed.
        argument: String,
        /// The key.
        key: String,
    },
    /// The value is not legal.
    #[error("value {value:?} of {argument:?} is not legal: use {}", names::LABEL_VALUE)]
    Value {
        /// As it was typed.
        argument: String,
        /// The value.
        value: String,
    },
    /// The key is our own bookkeeping.
    #[error("key {key:?} is reserved for the hub: use another key")]
    Reserved {
        /// The key.
        key: String,
    },
    /// The effect is unknown.
    #[error("effect {effect:?} of {argument:?} is unknown: use NoSchedule or NoExecute")]
    Effect {
        /// As it was typed.
        argument: String,
        /// The effect.
        effect: String,
    },
    /// One key is named twice.
    #[error("{key:?} is set or removed twice: name it once")]
    Twice {
        /// Key, with the effect of a taint.
        key: String,
    },
}

/// One argument of `label`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum LabelEdit {
    /// `key=value`
    Set(String, String),
    /// `key-`
    Remove(String),
}

/// One argument of `taint`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) enum TaintEdit {
    /// `key=value:Effect` or `key:Effect`
    Set(Taint),
    /// `key-` or `key:Effect-`
    Remove(String, Option<TaintEffect>),
}

/// Reads the arguments of `label`.
///
/// # Errors
/// The first that is not legal, or reserved.
pub(in crate::cli) fn labels(arguments: &[String]) -> Result<Vec<LabelEdit>, GrammarError> {
    let mut edits: Vec<LabelEdit> = Vec::new();
    for argument in arguments {
        let edit = match (argument.split_once('='), argument.strip_suffix('-')) {
            (Some((key, value)), _) => {
                check_value(argument, value)?;
                LabelEdit::Set(key.to_owned(), value.to_owned())
            }
            (None, Some(key)) => LabelEdit::Remove(key.to_owned()),
            (None, None) => {
                return Err(GrammarError::Form {
                    argument: argument.clone(),
                    what: "label",
                    form: "key=value to set one, key- to remove one",
                });
            }
        };
        check_key(argument, edit.key())?;
        if edits.iter().any(|other| other.key() == edit.key()) {
            let key = edit.key().to_owned();
            return Err(GrammarError::Twice { key });
        }
        edits.push(edit);
    }
    Ok(edits)
}

impl LabelEdit {
    fn key(&self) -> &str {
        let (LabelEdit::Set(key, _) | LabelEdit::Remove(key)) = self;
        key
    }
}

/// Reads the arguments of `taint`.
///
/// # Errors
/// The first that is not legal, or reserved.
pub(in crate::cli) fn taints(arguments: &[String]) -> Result<Vec<TaintEdit>, GrammarError> {
    let mut edits: Vec<TaintEdit> = Vec::new();
    for argument in arguments {
        let form = || GrammarError::Form {
            argument: argument.clone(),
            what: "taint",
            form: "key=value:Effect or key:Effect to set one, key- or key:Effect- to remove one",
        };
        let edit = match argument.strip_suffix('-') {
            Some(named) => {
                let (key, effect) = match named.split_once(':') {
                    Some((key, word)) => (key, Some(effect(argument, word)?)),
                    None => (named, None),
                };
                // kubectl takes the value too, and does not look at it.
                let key = key.split_once('=').map_or(key, |(key, _)| key);
                TaintEdit::Remove(key.to_owned(), effect)
            }
            None => {
                let (named, word) = argument.rsplit_once(':').ok_or_else(form)?;
                let (key, value) = match named.split_once('=') {
                    Some((key, value)) => (key, Some(value)),
                    None => (named, None),
                };
                check_value(argument, value.unwrap_or_default())?;
                TaintEdit::Set(Taint {
                    key: key.to_owned(),
                    value: value.filter(|value| !value.is_empty()).map(str::to_owned),
                    effect: effect(argument, word)?,
                    time_added: None,
                })
            }
        };
        let (key, effect) = edit.key();
        check_key(argument, key)?;
        let overlaps = |other: &TaintEdit| {
            let (its, which) = other.key();
            its == key && (which.is_none() || effect.is_none() || which == effect)
        };
        if edits.iter().any(overlaps) {
            let key = key.to_owned();
            return Err(GrammarError::Twice { key });
        }
        edits.push(edit);
    }
    Ok(edits)
}

impl TaintEdit {
    fn key(&self) -> (&str, Option<TaintEffect>) {
        match self {
            TaintEdit::Set(taint) => (&taint.key, Some(taint.effect)),
            TaintEdit::Remove(key, effect) => (key, *effect),
        }
    }
}

fn effect(argument: &str, word: &str) -> Result<TaintEffect, GrammarError> {
    match word {
        "NoSchedule" => Ok(TaintEffect::NoSchedule),
        "NoExecute" => Ok(TaintEffect::NoExecute),
        other => Err(GrammarError::Effect {
            argument: argument.to_owned(),
            effect: other.to_owned(),
        }),
    }
}

/// A qualified name of Kubernetes that is not ours.
fn check_key(argument: &str, key: &str) -> Result<(), GrammarError> {
    if !names::is_qualified(key) {
        return Err(GrammarError::Key {
            argument: argument.to_owned(),
            key: key.to_owned(),
        });
    }
    if is_bookkeeping(key) {
        let key = key.to_owned();
        return Err(GrammarError::Reserved { key });
    }
    Ok(())
}

fn check_value(argument: &str, value: &str) -> Result<(), GrammarError> {
    match names::is_label_value(value) {
        true => Ok(()),
        false => Err(GrammarError::Value {
            argument: argument.to_owned(),
            value: value.to_owned(),
        }),
    }
}

/// Edits the labels of a cluster; says what changed.
///
/// # Errors
/// A label is there with another value, and `overwrite` is not asked for.
pub(in crate::cli) fn label(
    cluster: &mut Cluster,
    edits: &[LabelEdit],
    overwrite: bool,
) -> Result<Vec<String>, Failure> {
    let labels = cluster.metadata.labels.get_or_insert_default();
    let mut done = Vec::new();
    for edit in edits {
        match edit {
            LabelEdit::Set(key, value) => match labels.get(key) {
                Some(now) if now == value => {}
                Some(now) if !overwrite => {
                    return Err(Failure::new("E-LABEL", format!("label {key} is there already"))
                        .because(format!("its value is {now:?}, not {value:?}"))
                        .advise("--overwrite"));
                }
                now => {
                    done.push(match now {
                        Some(now) => format!("label {key}={value} (was {now})"),
                        None => format!("label {key}={value}"),
                    });
                    labels.insert(key.clone(), value.clone());
                }
            },
            // One that is not there is as gone as it was asked to be.
            LabelEdit::Remove(key) => {
                if let Some(was) = labels.remove(key) {
                    done.push(format!("label {key} removed (was {was})"));
                }
            }
        }
    }
    Ok(done)
}

/// Edits the taints of a cluster's spec; says what changed. A taint that is set gets the time; one that stays as it is
/// keeps its own.
///
/// # Errors
/// A taint is there with another value and `overwrite` is not asked for, or one that is to go is not there.
pub(in crate::cli) fn taint(
    cluster: &mut Cluster,
    edits: &[TaintEdit],
    overwrite: bool,
    now: Timestamp,
) -> Result<Vec<String>, Failure> {
    let taints = &mut cluster.spec.taints;
    let mut done = Vec::new();
    for edit in edits {
        match edit {
            TaintEdit::Set(taint) => {
                let held = taints
                    .iter_mut()
                    .find(|t| t.key == taint.key && t.effect == taint.effect);
                let fresh = Taint {
                    time_added: Some(Time(now)),
                    ..taint.clone()
                };
                match held {
                    Some(held) if held.value == taint.value => {}
                    Some(held) if !overwrite => {
                        return Err(
                            Failure::new("E-TAINT", format!("taint {} is there already", taint.key))
                                .because(format!(
                                    "it is {}, not {}",
                                    words::taint(held),
                                    words::taint(taint)
                                ))
                                .advise("--overwrite"),
                        );
                    }
                    Some(held) => {
                        done.push(format!(
                            "taint {} (was {})",
                            words::taint(taint),
                            words::taint(held)
                        ));
                        *held = fresh;
                    }
                    None => {
                        done.push(format!("taint {}", words::taint(taint)));
                        taints.push(fresh);
                    }
                }
            }
            TaintEdit::Remove(key, effect) => {
                let goes = |t: &Taint| t.key == *key && effect.is_none_or(|effect| effect == t.effect);
                if !taints.iter().any(goes) {
                    return Err(no_taint(key, *effect, taints));
                }
                let gone = taints.iter().filter(|t| goes(t));
                done.extend(gone.map(|t| format!("taint {} removed", words::taint(t))));
                taints.retain(|t| !goes(t));
            }
        }
    }
    Ok(done)
}

fn no_taint(key: &str, effect: Option<TaintEffect>, taints: &[Taint]) -> Failure {
    let which = effect.map_or_else(|| key.to_owned(), |effect| format!("{key}:{effect:?}"));
    let all: Vec<String> = taints.iter().map(words::taint).collect();
    let failure = Failure::new("E-TAINT", format!("there is no taint {which} to remove"));
    match all.is_empty() {
        true => {
            failure.because("the spec of the cluster has no taints; those in its status are the hub's own")
        }
        false => failure.because(format!("the taints of its spec are {}", all.join(", "))),
    }
    .advise("roundhouse clusters NAME, which lists all of them")
}

/// Sets or removes the taint of a cordoned cluster; says what changed.
pub(in crate::cli) fn cordon(cluster: &mut Cluster, cordoned: bool, now: Timestamp) -> Vec<String> {
    let taints = &mut cluster.spec.taints;
    let is_cordon = |t: &Taint| t.key == TAINT_CORDONED && t.effect == TaintEffect::NoSchedule;
    match (cordoned, taints.iter().any(is_cordon)) {
        (true, false) => {
            taints.push(Taint {
                key: TAINT_CORDONED.to_owned(),
                value: None,
                effect: TaintEffect::NoSchedule,
                time_added: Some(Time(now)),
            });
            vec!["cordoned: it keeps what it has and gets nothing more".to_owned()]
        }
        (false, true) => {
            taints.retain(|t| !is_cordon(t));
            vec!["uncordoned".to_owned()]
        }
        (true, true) | (false, false) => Vec::new(),
    }
}
