//! `--egress-allow`, and the verdict over one address of a host.

use super::{
    address::{canonical, refusal},
    net::Net,
};
use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

/// What an administrator allows beyond the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// These addresses.
    Addresses(Net),
    /// This host, whatever its addresses are.
    Host(String),
    /// The hosts of this domain, not itself, whatever their addresses are.
    Below(String),
}

/// A text is neither addresses nor a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither addresses such as 10.0.0.0/8 or ::1, nor a host such as hooks.example.org or *.example.org"
)]
pub struct AllowedError(String);

impl FromStr for Allowed {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        if let Ok(net) = text.parse() {
            return Ok(Allowed::Addresses(net));
        }
        let lower = text.to_ascii_lowercase();
        let (host, below) = match lower.strip_prefix("*.") {
            Some(domain) => (domain, true),
            None => (lower.as_str(), false),
        };
        let is_label = |label: &str| {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            !label.is_empty() && label.len() <= 63 && label.bytes().all(plain)
        };
        // What is numbers only is an address with a slip of the pen.
        let named = host.bytes().any(|b| b.is_ascii_alphabetic());
        if !named || !host.split('.').all(is_label) {
            return Err(AllowedError(text.to_owned()));
        }
        Ok(match below {
            true => Allowed::Below(host.to_owned()),
            false => Allowed::Host(host.to_owned()),
        })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Addresses(net) => net.fmt(f),
            Allowed::Host(host) => f.write_str(host),
            Allowed::Below(domain) => write!(f, "*.{domain}"),
        }
    }
}

/// Where steps may send requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Egress {
    /// What is allowed beyond the rules.
    allowed: Vec<Allowed>,
    /// Hosts that are refused at all their addresses: the hub's own API server.
    guarded: Vec<String>,
}

impl Egress {
    /// The rules, widened by `allowed`; `guarded` are the hosts of the hub's own API server.
    pub fn new(allowed: Vec<Allowed>, guarded: Vec<String>) -> Egress {
        Egress { allowed, guarded }
    }

    /// The hosts that are refused at all their addresses.
    pub(super) fn guarded(&self) -> impl Iterator<Item = &str> {
        self.guarded.iter().map(String::as_str)
    }

    /// Whether a host is allowed by its name.
    pub(in crate::action) fn allows_host(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.allowed.iter().any(|allowed| match allowed {
            Allowed::Addresses(_) => false,
            Allowed::Host(name) => *name == host,
            Allowed::Below(domain) => host
                .strip_suffix(domain.as_str())
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        })
    }

    /// Judges one address of a host; `guarded`: the addresses of the guarded hosts.
    ///
    /// # Errors
    /// What the address is.
    pub(super) fn judge(
        &self,
        host: &str,
        address: IpAddr,
        guarded: &BTreeSet<IpAddr>,
        is_own: impl FnOnce() -> bool,
    ) -> Result<(), &'static str> {
        let plain = canonical(address);
        let allows = |allowed: &Allowed| match allowed {
            Allowed::Addresses(net) => net.contains(plain) || net.contains(address),
            Allowed::Host(_) | Allowed::Below(_) => false,
        };
        if self.allows_host(host) || self.allowed.iter().any(allows) {
            return Ok(());
        }
        if let Some(why) = refusal(address) {
            return Err(why);
        }
        if guarded.iter().any(|own| canonical(*own) == plain) {
            return Err("the hub's own API server");
        }
        match is_own() {
            true => Err("this machine's own"),
            false => Ok(()),
        }
    }
}
