//! Where connections come from, and how many from one place.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Open connections by the place they come from.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    accepted: u64,
    places: HashMap<IpAddr, Place>,
    /// Those of whom nobody knows yet who is at the other end, in the order they came.
    strangers: BTreeMap<u64, (IpAddr, CancellationToken)>,
    /// How many those have who are known.
    users: HashMap<Arc<str>, usize>,
}

#[derive(Debug, Default)]
struct Place {
    connections: usize,
    strangers: BTreeSet<u64>,
}

/// One connection of a place; it counts until it is dropped.
#[derive(Debug)]
pub(super) struct Source {
    all: Sources,
    place: IpAddr,
    number: u64,
    /// Cancelled when it has to make room for a newer one.
    displaced: CancellationToken,
    /// Most connections of one user.
    each_user: usize,
    /// Whose it is, if it counts as that one's.
    user: Option<Arc<str>>,
}

/// Connections at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// From one place.
    pub(super) each: usize,
    /// From one place, of strangers.
    pub(super) strangers_each: usize,
    /// Of strangers, from everywhere.
    pub(super) strangers: usize,
    /// Of one user, from everywhere.
    pub(super) each_user: usize,
}

/// What counts as one place: an address, but of IPv6 the network of it, since whoever has one such address has all of its
/// /64 (RFC 6177).
pub(crate) fn place(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address => address,
    }
}

impl Sources {
    /// Counts a connection, whose other end is a stranger yet; `None` if it is one too many from there. Where strangers are too
    /// many the first of them goes: whoever has a certificate shows it at once, and is not kept out by those who only wait.
    pub(super) fn enter(&self, address: IpAddr, limits: Limits) -> Option<Source> {
        let address = place(address);
        let mut open = self.0.lock();
        let open = &mut *open;
        let place = open.places.entry(address).or_default();
        if place.connections >= limits.each {
            return None;
        }
        place.connections += 1;
        let first = if place.strangers.len() >= limits.strangers_each {
            place.strangers.first().copied()
        } else if open.strangers.len() >= limits.strangers {
            open.strangers.keys().next().copied()
        } else {
            None
        };
        if let Some(displaced) = first.and_then(|number| open.met(number)) {
            displaced.cancel();
        }
        open.accepted += 1;
        let (number, displaced) = (open.accepted, CancellationToken::new());
        open.strangers.insert(number, (address, displaced.clone()));
        if let Some(place) = open.places.get_mut(&address) {
            place.strangers.insert(number);
        }
        Some(Source {
            all: self.clone(),
            place: address,
            number,
            displaced,
            each_user: limits.each_user,
            user: None,
        })
    }
}

impl Open {
    /// Takes a connection off the strangers.
    fn met(&mut self, number: u64) -> Option<CancellationToken> {
        let (place, displaced) = self.strangers.remove(&number)?;
        if let Some(place) = self.places.get_mut(&place) {
            place.strangers.remove(&number);
        }
        Some(displaced)
    }
}

impl Source {
    /// Whoever is at the other end has shown who it is. Returns whether it may stay: one certificate in many hands, or in
    /// those of a client that runs wild, does not take the places of all.
    pub(super) fn is_known(&mut self, user: Option<&str>) -> bool {
        let mut open = self.all.0.lock();
        open.met(self.number);
        let (Some(user), None) = (user, &self.user) else {
            return true;
        };
        let user: Arc<str> = user.into();
        let theirs = open.users.entry(user.clone()).or_insert(0);
        *theirs += 1;
        self.user = Some(user);
        *theirs <= self.each_user
    }

    /// Waits until this connection has to make room.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let mut open = self.all.0.lock();
        open.met(self.number);
        if let Some(user) = &self.user
            && let Some(theirs) = open.users.get_mut(user)
        {
            *theirs = theirs.saturating_sub(1);
            if *theirs == 0 {
                open.users.remove(user);
            }
        }
        if let Some(place) = open.places.get_mut(&self.place) {
            place.connections = place.connections.saturating_sub(1);
            if place.connections == 0 {
                open.places.remove(&self.place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_is_an_address_or_a_network_of_ipv6() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("::ffff:192.0.2.1", "192.0.2.1", true),
            ("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true),
            ("2001:db8:0:1::1", "2001:db8:0:2::1", false),
            ("::1", "127.0.0.1", false),
        ] {
            let place = |text: &str| place(text.parse().unwrap());
            assert_eq!(place(one) == place(other), same, "{one} {other}");
        }
    }

    const LIMITS: Limits = Limits {
        each: 5,
        strangers_each: 2,
        strangers: 3,
        each_user: 2,
    };

    fn enter(sources: &Sources, address: &str) -> Option<Source> {
        sources.enter(address.parse().unwrap(), LIMITS)
    }

    fn goes(source: &Source) -> bool {
        source.displaced.is_cancelled()
    }

    #[test]
    fn the_first_stranger_makes_room_for_the_next() {
        let sources = Sources::default();
        let one = enter(&sources, "2001:db8::1").unwrap();
        let mut two = enter(&sources, "2001:db8::2").unwrap();
        assert!(!goes(&one) && !goes(&two));
        // All of them are one network.
        let three = enter(&sources, "2001:db8::3").unwrap();
        assert!(goes(&one) && !goes(&two) && !goes(&three));
        // Those who are known stay.
        assert!(two.is_known(None) && two.is_known(None));
        let four = enter(&sources, "2001:db8::4").unwrap();
        assert!(!goes(&two) && !goes(&three) && !goes(&four));
        // From everywhere three.
        let other = enter(&sources, "192.0.2.1").unwrap();
        let last = enter(&sources, "192.0.2.2").unwrap();
        assert!(goes(&three) && !goes(&two) && !goes(&four) && !goes(&other) && !goes(&last));
        drop((one, two, three, four, other, last));
        let open = sources.0.lock();
        assert!(open.places.is_empty() && open.strangers.is_empty());
    }

    #[test]
    fn those_who_are_known_have_a_bound_too() {
        let sources = Sources::default();
        let known = || {
            let mut source = enter(&sources, "192.0.2.1")?;
            source.is_known(None).then_some(source)
        };
        let mut all: Vec<Source> = std::iter::from_fn(known).collect();
        assert_eq!(all.len(), LIMITS.each);
        assert!(enter(&sources, "192.0.2.2").is_some(), "others have theirs");
        all.pop();
        assert!(enter(&sources, "192.0.2.1").is_some());
    }

    #[test]
    fn one_user_has_so_many_wherever_they_come_from() {
        let sources = Sources::default();
        let mut all: Vec<Source> = (1..=4)
            .map(|n| enter(&sources, &format!("192.0.2.{n}")).unwrap())
            .collect();
        assert!(all[0].is_known(Some("c1")) && all[1].is_known(Some("c1")));
        assert!(all[1].is_known(Some("c1")), "it is counted once");
        assert!(!all[2].is_known(Some("c1")));
        assert!(all[3].is_known(Some("c10")));
        all.truncate(1);
        let mut next = enter(&sources, "192.0.2.9").unwrap();
        assert!(next.is_known(Some("c1")));
        drop((all, next));
        assert!(sources.0.lock().users.is_empty());
    }
}
