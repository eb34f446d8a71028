//! Places that many want, of which one user gets a share only.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

/// Places of one kind: requests, watches, bytes.
#[derive(Debug)]
pub(super) struct Pool {
    /// Most places in all.
    pub(super) limit: usize,
    /// Most places of one user.
    pub(super) share: usize,
    pub(super) held: Mutex<Held>,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) total: usize,
    pub(super) by_user: HashMap<Arc<str>, usize>,
}

/// Places; given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pool: Arc<Pool>,
    user: Arc<str>,
    places: usize,
}

/// Why there was no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The user has its share.
    ByUser,
    /// All are taken.
    ByAll,
}

impl Held {
    fn of(&self, user: &str) -> usize {
        self.by_user.get(user).copied().unwrap_or(0)
    }
}

impl Pool {
    pub(super) fn new(limit: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            share,
            held: Mutex::default(),
        })
    }

    /// Places for a user: as long as not all are taken, and as many as the user's share has left. Whoever has none may have
    /// more than the share at once: what is indivisible would never come to its turn.
    pub(super) fn enter(self: &Arc<Self>, user: &str, places: usize) -> Result<Slot, Taken> {
        let mut held = self.held.lock();
        if held.total >= self.limit {
            return Err(Taken::ByAll);
        }
        let mine = held.of(user);
        if mine > 0 && mine.saturating_add(places) > self.share {
            return Err(Taken::ByUser);
        }
        Ok(self.add(&mut held, user, places))
    }

    /// The same without a bound.
    pub(super) fn take(self: &Arc<Self>, user: &str, places: usize) -> Slot {
        self.add(&mut self.held.lock(), user, places)
    }

    /// Whether a user has not yet all it may have.
    pub(super) fn has_room(&self, user: &str) -> bool {
        self.held.lock().of(user) < self.share
    }

    fn add(self: &Arc<Self>, held: &mut Held, user: &str, places: usize) -> Slot {
        held.total = held.total.saturating_add(places);
        let user = match held.by_user.get_key_value(user) {
            Some((user, _)) => user.clone(),
            None => user.into(),
        };
        let mine = held.by_user.entry(user.clone()).or_insert(0);
        *mine = mine.saturating_add(places);
        Slot {
            pool: self.clone(),
            user,
            places,
        }
    }

    /// Places taken.
    pub(super) fn taken(&self) -> usize {
        self.held.lock().total
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut held = self.pool.held.lock();
        held.total = held.total.saturating_sub(self.places);
        if let Some(mine) = held.by_user.get_mut(&self.user) {
            *mine = mine.saturating_sub(self.places);
            if *mine == 0 {
                held.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_has_a_share_and_more_only_at_once() {
        let pool = Pool::new(100, 40);
        let first = pool.enter("a", 30).unwrap();
        assert_eq!(pool.enter("a", 11).unwrap_err(), Taken::ByUser);
        let rest = pool.enter("a", 10).unwrap();
        drop(first);
        assert_eq!(
            (pool.taken(), pool.enter("a", 31).unwrap_err()),
            (10, Taken::ByUser)
        );
        // What is larger than a share comes to its turn when nothing else is.
        drop(rest);
        let large = pool.enter("a", 90).unwrap();
        assert_eq!(pool.enter("a", 1).unwrap_err(), Taken::ByUser);
        let other = pool.enter("b", 20).unwrap();
        assert_eq!(pool.enter("c", 1).unwrap_err(), Taken::ByAll);
        drop((large, other));
        assert!(
            pool.held.lock().by_user.is_empty(),
            "nothing is kept of who is gone"
        );
    }
}
