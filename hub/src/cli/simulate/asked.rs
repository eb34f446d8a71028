//! What may be asked of a simulation on the command line.

use jiff::SignedDuration;
use roundhouse_apiserver::LabelSelector;
use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

/// The longest time that may be written: a year.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// The shortest in which nothing is written that nothing further happens: a cluster that is lost is missed by then.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The shortest in which anything can happen.
const SHORTEST: Duration = Duration::from_secs(1);

/// Some virtual time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("{text:?} is no time: write it like 30s, 5m or 1h, at most a year");
        let span: SignedDuration = text.parse().map_err(|_| wrong())?;
        let span = Duration::try_from(span).map_err(|_| wrong())?;
        (span <= LONGEST).then_some(Span(span)).ok_or_else(wrong)
    }
}

/// How long nothing is written that nothing further happens.
pub(super) fn patience(text: &str) -> Result<Span, String> {
    let why = "by then nobody would have missed a cluster that is lost: write 1m or more";
    at_least(PATIENCE, text, why)
}

/// How long what is waited for may take.
pub(super) fn within(text: &str) -> Result<Span, String> {
    at_least(
        SHORTEST,
        text,
        "by then nothing would have happened: write 1s or more",
    )
}

fn at_least(shortest: Duration, text: &str, why: &str) -> Result<Span, String> {
    let span: Span = text.parse()?;
    match span.0 >= shortest {
        true => Ok(span),
        false => Err(format!("{text} is too short, {why}")),
    }
}

/// What is before the last `@`, and the time behind it.
fn timed(text: &str) -> Result<(&str, Option<Duration>), String> {
    match text.rsplit_once('@') {
        Some((what, time)) => Ok((what, Some(time.parse::<Span>()?.0))),
        None => Ok((text, None)),
    }
}

/// Clusters that are cut off.
#[derive(Debug, Clone)]
pub(super) struct Lose {
    /// As it was written: the name of a cluster, or a selector.
    pub(super) which: String,
    pub(super) selector: LabelSelector,
    pub(super) at: Option<Duration>,
    /// How long, if they come back by themselves.
    pub(super) lasting: Option<Duration>,
}

impl FromStr for Lose {
    type Err = String;

    fn from_str(text: &str) -> Result<Lose, String> {
        let (timed_text, lasting) = match text.rsplit_once('@') {
            Some((which, times)) => match times.split_once('+') {
                Some(("", _)) => {
                    return Err("it is not said when that begins: write region=west@30s+10m".to_owned());
                }
                Some((at, lasting)) => (format!("{which}@{at}"), Some(within(lasting)?.0)),
                None => (text.to_owned(), None),
            },
            None => (text.to_owned(), None),
        };
        let (which, at) = timed(&timed_text)?;
        if which.trim().is_empty() {
            return Err(
                "it selects every cluster: write labels such as region=west, or the name of a cluster"
                    .to_owned(),
            );
        }
        let selector = LabelSelector::parse(which).map_err(|error| error.to_string())?;
        Ok(Lose {
            which: which.to_owned(),
            selector,
            at,
            lasting,
        })
    }
}

/// A label that is set, or taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetLabel {
    pub(super) cluster: String,
    pub(super) key: String,
    pub(super) value: Option<String>,
    pub(super) at: Option<Duration>,
}

impl FromStr for SetLabel {
    type Err = String;

    fn from_str(text: &str) -> Result<SetLabel, String> {
        let (what, at) = timed(text)?;
        let wrong =
            || format!("{what:?} is no label of a cluster: write c1:tier=gold, or c1:tier- to take it away");
        let (cluster, label) = what.split_once(':').ok_or_else(wrong)?;
        let (key, value) = match (label.split_once('='), label.strip_suffix('-')) {
            (Some((key, value)), _) => (key, Some(value.to_owned())),
            (None, Some(key)) => (key, None),
            (None, None) => return Err(wrong()),
        };
        if cluster.is_empty() || key.is_empty() {
            return Err(wrong());
        }
        let value_of = value.as_deref().unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        if !format!("{key}{value_of}").chars().all(plain) {
            return Err(wrong());
        }
        let as_selector = format!("{key}={value_of}");
        LabelSelector::parse(&as_selector).map_err(|error| format!("{label:?}: {error}"))?;
        Ok(SetLabel {
            cluster: cluster.to_owned(),
            key: key.to_owned(),
            value,
            at,
        })
    }
}

/// How many clusters of a step refuse what is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fail {
    pub(super) step: String,
    /// From 1 to 100.
    pub(super) percent: u8,
}

impl fmt::Display for Fail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--fail {}:{}%", self.step, self.percent)
    }
}

impl fmt::Display for Lose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--lose {}", self.which)
    }
}

impl fmt::Display for SetLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SetLabel {
            cluster, key, value, ..
        } = self;
        match value {
            Some(value) => write!(f, "--set-label {cluster}:{key}={value}"),
            None => write!(f, "--set-label {cluster}:{key}-"),
        }
    }
}

impl FromStr for Fail {
    type Err = String;

    fn from_str(text: &str) -> Result<Fail, String> {
        let wrong = || format!("{text:?} is no share of a step: write step2:20%, from 1% to 100%");
        let (step, share) = text.rsplit_once(':').ok_or_else(wrong)?;
        let percent = share.strip_suffix('%').ok_or_else(wrong)?;
        let percent: u8 = percent.parse().map_err(|_| wrong())?;
        if step.is_empty() || !(1..=100).contains(&percent) {
            return Err(wrong());
        }
        Ok(Fail {
            step: step.to_owned(),
            percent,
        })
    }
}

/// A step that waits for a person, and is let go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resume {
    pub(super) step: String,
    pub(super) from: Option<Duration>,
}

impl FromStr for Resume {
    type Err = String;

    fn from_str(text: &str) -> Result<Resume, String> {
        let (step, from) = timed(text)?;
        match step.is_empty() {
            true => Err(format!(
                "{text:?} names no step: write look-first, or look-first@10m"
            )),
            false => Ok(Resume {
                step: step.to_owned(),
                from,
            }),
        }
    }
}

/// A file that is applied later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Then {
    pub(super) file: PathBuf,
    pub(super) at: Option<Duration>,
}

impl FromStr for Then {
    type Err = String;

    fn from_str(text: &str) -> Result<Then, String> {
        // A file may have an @ in its name: then there is one.
        let (file, at) = match timed(text) {
            Ok(said) => said,
            Err(why) if !Path::new(text).exists() => return Err(why),
            Err(_) => (text, None),
        };
        match file.is_empty() {
            true => Err(format!("{text:?} names no file: write v2.yaml, or v2.yaml@10m")),
            false => Ok(Then {
                file: file.into(),
                at,
            }),
        }
    }
}

impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--then {}", self.file.display())
    }
}

/// When the run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    Done,
    Delivered,
    Time(Duration),
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Until, String> {
        match text {
            "done" => Ok(Until::Done),
            "delivered" => Ok(Until::Delivered),
            time => match within(time) {
                Ok(Span(time)) => Ok(Until::Time(time)),
                Err(why) => Err(format!("{why}; or done, or delivered")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_time_is_told_unless_a_file_is_called_so() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str| home.path().join(name).display().to_string();
        assert_eq!(
            file("v2.yaml@soon").parse::<Then>(),
            Err("\"soon\" is no time: write it like 30s, 5m or 1h, at most a year".to_owned())
        );
        std::fs::write(file("v2.yaml@soon"), "").unwrap();
        for (text, name, at) in [
            ("v2.yaml@soon", "v2.yaml@soon", None),
            ("v2.yaml@10m", "v2.yaml", Some(600)),
            ("v2.yaml", "v2.yaml", None),
        ] {
            let then = Then {
                file: file(name).into(),
                at: at.map(Duration::from_secs),
            };
            assert_eq!(file(text).parse(), Ok(then), "{text}");
        }
    }
}
