//! What the network does to whom.

use crate::{
    simulate::{Ends, HUB, OTHER_HUB},
    words,
};
use http::{Method, Request};
use std::{collections::BTreeSet, fmt, ops::RangeInclusive, time::Duration};

/// Parties that are told by name.
const NAMED: usize = 8;

/// Some parties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parties {
    /// Hubs and agents.
    All,
    /// All agents.
    Agents,
    /// These, by their names.
    These(BTreeSet<String>),
}

impl Parties {
    /// Some by their names.
    pub fn these<'a>(names: impl IntoIterator<Item = &'a str>) -> Parties {
        Parties::These(names.into_iter().map(str::to_owned).collect())
    }

    /// Whether somebody is among them. The controllers that play workloads never are: they stand for a member's own.
    pub fn has(&self, who: &str) -> bool {
        let plays = who == crate::simulate::WORKLOADS;
        match self {
            Parties::All => !plays,
            Parties::Agents => !plays && ![HUB, OTHER_HUB].contains(&who),
            Parties::These(names) => names.contains(who),
        }
    }
}

impl fmt::Display for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Parties::All => f.write_str("everybody"),
            Parties::Agents => f.write_str("all agents"),
            Parties::These(names) => {
                let names: Vec<String> = names.iter().cloned().collect();
                f.write_str(&words::listed(&names, NAMED))
            }
        }
    }
}

/// On which side a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// To the hub's API server.
    Hub,
    /// To the API server of a member.
    Member,
    /// To either.
    Both,
}

/// What a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// Anything.
    Anything,
    /// To read or to watch.
    Read,
    /// To watch.
    Watch,
    /// To change something.
    Write,
    /// To make something.
    Create,
}

/// Which requests a rule is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct On {
    /// Who asks.
    pub who: Parties,
    /// Whom.
    pub side: Side,
    /// For what.
    pub asks: Asks,
    /// Only paths that contain this.
    pub path: Option<String>,
    /// No paths that contain any of these.
    pub but: Vec<String>,
}

impl On {
    /// Everything that somebody sends to either side.
    pub fn all_of(who: Parties) -> On {
        On {
            who,
            side: Side::Both,
            asks: Asks::Anything,
            path: None,
            but: Vec::new(),
        }
    }

    /// On this side only.
    #[must_use]
    pub fn to(mut self, side: Side) -> On {
        self.side = side;
        self
    }

    /// Only requests of this kind.
    #[must_use]
    pub fn that(mut self, asks: Asks) -> On {
        self.asks = asks;
        self
    }

    /// Only paths that contain this.
    #[must_use]
    pub fn at(mut self, path: &str) -> On {
        self.path = Some(path.to_owned());
        self
    }

    /// No paths that contain any of these.
    #[must_use]
    pub fn but_at(mut self, paths: &[&str]) -> On {
        self.but = paths.iter().map(|path| (*path).to_owned()).collect();
        self
    }

    /// Whether the rule is about requests between these ends.
    pub(crate) fn has_ends(&self, ends: &Ends) -> bool {
        let side = match self.side {
            Side::Hub => ends.server == HUB,
            Side::Member => ends.server != HUB,
            Side::Both => true,
        };
        side && self.who.has(&ends.who)
    }

    /// Whether the rule is about a watch that is open between these ends.
    pub(super) fn has_watch(&self, ends: &Ends, path: &str) -> bool {
        let asks = matches!(self.asks, Asks::Anything | Asks::Read | Asks::Watch);
        asks && self.has_ends(ends) && self.has_path(path)
    }

    fn has_path(&self, path: &str) -> bool {
        let has = |part: &String| path.contains(part);
        self.path.as_ref().is_none_or(has) && !self.but.iter().any(has)
    }

    pub(super) fn has<B>(&self, ends: &Ends, request: &Request<B>) -> bool {
        let asks = match self.asks {
            Asks::Anything => true,
            Asks::Read => !writes(request),
            Asks::Watch => watches(request),
            Asks::Write => writes(request),
            Asks::Create => *request.method() == Method::POST,
        };
        asks && self.has_ends(ends) && self.has_path(request.uri().path())
    }
}

/// Whether a request may change something.
pub(super) fn writes<B>(request: &Request<B>) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD)
}

/// Whether a request begins a watch.
pub(super) fn watches<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    !writes(request)
        && query
            .split('&')
            .any(|part| part == "watch=true" || part == "watch=1")
}

/// Whether a request lists objects, from the first of them on.
pub(super) fn lists<B>(request: &Request<B>) -> bool {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let mut parts = path.trim_start_matches('/').split('/');
    let in_group = if parts.next() == Some("apis") { 2 } else { 1 };
    let parts: Vec<&str> = parts.skip(in_group).collect();
    let collection = matches!(parts[..], [_] | ["namespaces", _, _]);
    let asks_for_one = ["continue=", "resourceVersion="];
    let goes_on = query
        .split('&')
        .any(|part| asks_for_one.iter().any(|word| part.starts_with(word)));
    collection && !goes_on && !writes(request) && !watches(request)
}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It takes a while to arrive.
    Delay(RangeInclusive<Duration>),
    /// It never arrives; who asks finds out when the connection times out.
    LoseRequest,
    /// It is answered, and the answer never arrives.
    LoseAnswer,
    /// The connection breaks before it arrives.
    Reset,
    /// The connection breaks after it is answered.
    ResetAnswer,
    /// A write arrives again, up to so much later.
    Duplicate(Duration),
    /// A write arrives up to so much later, whether or not anybody still waits for the answer: others overtake it.
    Late(Duration),
    /// It is answered with this code, and nothing is done.
    Answer {
        /// 409, 410, 429, 500...
        code: u16,
        /// `Retry-After`, in seconds.
        retry_after: Option<u32>,
    },
    /// It waits as long as the rule is there.
    Stall,
    /// A list is answered as it was so long ago, as by an API server whose cache fell behind; what follows from there is told by
    /// the watch.
    Stale(Duration),
    /// Every line of a watch takes a while to arrive.
    DelayFrames(RangeInclusive<Duration>),
}

impl Effect {
    /// Whether a request that it befalls does not end well for who asks, or not in time.
    pub(crate) fn fails(&self) -> bool {
        match self {
            Effect::Delay(_) | Effect::DelayFrames(_) | Effect::Duplicate(_) | Effect::Stale(_) => false,
            Effect::LoseRequest
            | Effect::LoseAnswer
            | Effect::Reset
            | Effect::ResetAnswer
            | Effect::Late(_)
            | Effect::Answer { .. }
            | Effect::Stall => true,
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Delay(by) => write!(f, "are late by {:?} to {:?}", by.start(), by.end()),
            Effect::LoseRequest => f.write_str("do not arrive"),
            Effect::LoseAnswer => f.write_str("are answered, and the answers do not arrive"),
            Effect::Reset => f.write_str("are broken off before they arrive"),
            Effect::ResetAnswer => f.write_str("are broken off after they are answered"),
            Effect::Duplicate(late) => write!(f, "arrive twice, the second time up to {late:?} later"),
            Effect::Late(late) => write!(f, "arrive up to {late:?} late, whether or not anybody waits"),
            Effect::Answer { code, .. } => write!(f, "are answered with {code}, and nothing is done"),
            Effect::Stall => f.write_str("wait"),
            Effect::Stale(ago) => write!(f, "that list are answered as it was {ago:?} ago"),
            Effect::DelayFrames(by) => {
                write!(
                    f,
                    "get the lines of watches late by {:?} to {:?}",
                    by.start(),
                    by.end()
                )
            }
        }
    }
}

/// To whom, and what happens to them.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asks = match self.on.asks {
            Asks::Anything => "requests",
            Asks::Read => "reads",
            Asks::Watch => "watches",
            Asks::Write => "writes",
            Asks::Create => "creations",
        };
        let to = match self.on.side {
            Side::Hub => " to the hub",
            Side::Member => " to clusters",
            Side::Both => "",
        };
        if let Some(step) = &self.from_step {
            write!(f, "once step {step} begins, ")?;
        }
        if self.per_mille < 1000 {
            write!(f, "{} in 1000 ", self.per_mille)?;
        }
        write!(f, "{asks} of {}{to} {}", self.on.who, self.effect)
    }
}

/// How a watch ends, or seems to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    /// It ends as a server ends it after its time.
    Ended,
    /// The connection breaks in the middle.
    Broken,
    /// The server says that the version is too old, and ends it.
    Gone,
    /// Nothing more comes, and nobody is told.
    Silent,
}

/// A fault of the network that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which requests it is about.
    pub on: On,
    /// What happens to them.
    pub effect: Effect,
    /// To how many in a thousand of them.
    pub per_mille: u16,
    /// How often at most.
    pub times: Option<u32>,
    /// Nothing happens before this step of an application has begun.
    pub from_step: Option<String>,
}

impl Rule {
    /// To every request.
    pub fn always(on: On, effect: Effect) -> Rule {
        Rule {
            on,
            effect,
            per_mille: 1000,
            times: None,
            from_step: None,
        }
    }

    /// To some requests.
    pub fn sometimes(on: On, effect: Effect, per_mille: u16) -> Rule {
        Rule {
            per_mille,
            ..Rule::always(on, effect)
        }
    }

    /// Not before a step of this name has begun.
    #[must_use]
    pub fn once_begins(mut self, step: &str) -> Rule {
        self.from_step = Some(step.to_owned());
        self
    }

    /// To the next so many requests.
    #[must_use]
    pub fn so_often(mut self, times: u32) -> Rule {
        self.times = Some(times);
        self
    }
}
