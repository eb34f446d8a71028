//! Which application is looked at next.
//!
//! A key is in work at most once; a wake-up during its pass makes another pass afterwards. Of several delayed
//! wake-ups the earliest counts. After a pass a key rests as long as the pass weighs: whatever wakes it meanwhile is served by
//! one pass then, or the reports of a thousand agents would make hundreds of passes over a thousand Bundles each. Where many
//! keys rest or wait for a pass after their rest, each rests for longer: together they take no more of the machine than one
//! alone.

use super::Key;
use crate::relist::older;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The work queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Key>,
    queued: HashSet<Key>,
    running: HashSet<Key>,
    again: HashSet<Key>,
    /// Those whose next pass does not wait for the end of a rest, and the version of the last change of a user for which it
    /// does not.
    urgent: HashMap<Key, String>,
    later: BTreeMap<Instant, BTreeSet<Key>>,
    due: HashMap<Key, Instant>,
    /// Until when keys rest, and how much their passes weigh; kept while they wait for the next pass and during it.
    resting: HashMap<Key, (Instant, Duration)>,
}

/// Longest rest.
const MAX_REST: Duration = Duration::from_secs(10);
/// Longest rest of a key that is alone.
const MAX_OWN: Duration = Duration::from_secs(1);

impl State {
    fn push(&mut self, key: Key, now: Instant) {
        if self.running.contains(&key) {
            self.again.insert(key);
            return;
        }
        match self.resting.get(&key).copied() {
            Some((until, _)) if until > now && !self.urgent.contains_key(&key) => self.delay(key, until),
            _ => {
                if self.queued.insert(key.clone()) {
                    self.ready.push_back(key);
                }
            }
        }
    }

    /// How long a key rests after a pass that alone would have it rest for `own`. Others that are under way make it longer: to
    /// what all of them take together, and small ones by as many times as there are others.
    fn rest(&mut self, key: &Key, own: Duration, now: Instant) -> Duration {
        let (queued, running) = (&self.queued, &self.running);
        self.resting.retain(|other, (until, _)| {
            other != key && (*until > now || queued.contains(other) || running.contains(other))
        });
        let others: Duration = self.resting.values().map(|(_, weight)| *weight).sum();
        let count = u32::try_from(self.resting.len()).unwrap_or(u32::MAX);
        let times = own.saturating_mul(count.saturating_add(1));
        times.min(own.saturating_add(others)).min(MAX_REST)
    }

    fn delay(&mut self, key: Key, when: Instant) {
        if let Some(due) = self.due.get(&key).copied() {
            if due <= when {
                return;
            }
            if let Some(keys) = self.later.get_mut(&due) {
                keys.remove(&key);
                if keys.is_empty() {
                    self.later.remove(&due);
                }
            }
        }
        self.due.insert(key.clone(), when);
        self.later.entry(when).or_default().insert(key);
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if *entry.key() > now {
                return;
            }
            for key in entry.remove() {
                self.due.remove(&key);
                self.push(key, now);
            }
        }
    }
}

impl Queue {
    /// Looks at `key` as soon as there is room.
    pub(super) fn add(&self, key: Key) {
        self.state.lock().push(key, Instant::now());
        self.changed.notify_one();
    }

    /// Looks at `key` as soon as there is room, and it rests no longer: a user has changed it to `version`. Unless it is the pass
    /// under way that has: what is heard of that may come before its answer.
    pub(super) fn add_now(&self, key: Key, version: String) {
        let mut state = self.state.lock();
        state.urgent.insert(key.clone(), version);
        if !state.running.contains(&key) {
            state.push(key, Instant::now());
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Looks at `key` at `when`, or earlier if it is already to be looked at earlier.
    pub(super) fn add_at(&self, key: Key, when: Instant) {
        self.state.lock().delay(key, when);
        self.changed.notify_one();
    }

    /// The next key; [`Queue::done`] has to follow. Only one task may wait here.
    pub(super) async fn next(&self) -> Key {
        loop {
            let next_due = {
                let mut state = self.state.lock();
                state.ripen(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.queued.remove(&key);
                    state.urgent.remove(&key);
                    state.running.insert(key.clone());
                    return key;
                }
                state.later.first_key_value().map(|(due, _)| *due)
            };
            match next_due {
                Some(due) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// How many keys wait for a pass.
    pub(super) fn depth(&self) -> usize {
        self.state.lock().ready.len()
    }

    /// How many keys wait for a time.
    pub(super) fn later(&self) -> usize {
        self.state.lock().due.len()
    }

    /// Forgets when `key` was to be looked at: it is gone.
    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.state.lock();
        state.urgent.remove(key);
        let Some(due) = state.due.remove(key) else {
            return;
        };
        if let Some(keys) = state.later.get_mut(&due) {
            keys.remove(key);
            if keys.is_empty() {
                state.later.remove(&due);
            }
        }
    }

    /// Forgets everything: nobody works on it any more.
    pub(super) fn clear(&self) {
        *self.state.lock() = State::default();
    }

    /// The pass over `key` has ended; the next one begins after `rest` at the earliest, and later where others rest, too.
    /// `wrote` is the version that the pass has made of it: it knew everything before that.
    pub(super) fn done(&self, key: &Key, rest: Duration, wrote: Option<&str>) {
        let mut state = self.state.lock();
        let now = Instant::now();
        // Whose rest is over waits from now on, and weighs what it did.
        state.ripen(now);
        state.running.remove(key);
        if let (Some(wrote), Some(heard)) = (wrote, state.urgent.get(key))
            && (wrote == heard || older(wrote, heard))
        {
            state.urgent.remove(key);
        }
        let own = rest.min(MAX_OWN);
        let until = now + state.rest(key, own, now);
        if until > now {
            state.resting.insert(key.clone(), (until, own));
        }
        if state.again.remove(key) || state.urgent.contains_key(key) {
            state.push(key.clone(), now);
            drop(state);
            self.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("ns".to_owned(), name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn one_pass_at_a_time_and_no_wake_up_is_lost() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("a"));
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("b"));
        let idle = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(idle.is_err(), "a is still in work");
        queue.done(&key("a"), Duration::ZERO, None);
        assert_eq!(queue.next().await, key("a"));
        queue.done(&key("a"), Duration::ZERO, None);
        queue.done(&key("b"), Duration::ZERO, None);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_given_up_in_work_can_be_taken_again() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        queue.add_at(key("b"), Instant::now());
        queue.clear();
        queue.add(key("a"));
        assert_eq!(queue.next().await, key("a"));
        let more = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
        assert!(more.is_err(), "{more:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_waited_for() {
        let (queue, later) = (Queue::default(), Instant::now() + Duration::from_secs(5));
        queue.add_at(key("a"), later);
        queue.add_at(key("b"), later);
        assert_eq!(queue.later(), 2);
        queue.forget(&key("a"));
        queue.forget(&key("a"));
        assert_eq!(queue.later(), 1);
        assert_eq!(queue.next().await, key("b"));
        queue.add_at(key("c"), later);
        queue.forget(&key("c"));
        assert!(queue.state.lock().later.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_of_several_delays_counts() {
        let (queue, start) = (Queue::default(), Instant::now());
        for seconds in [5, 3, 9] {
            queue.add_at(key("a"), start + Duration::from_secs(seconds));
        }
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(start.elapsed().as_secs(), 3);
        queue.done(&key("a"), Duration::ZERO, None);
        assert!(
            tokio::time::timeout(Duration::from_secs(60), queue.next())
                .await
                .is_err()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_rests_after_its_pass_and_others_do_not() {
        let (queue, start) = (Queue::default(), Instant::now());
        let rest = MAX_OWN;
        queue.add(key("a"));
        queue.next().await;
        queue.add(key("a"));
        queue.done(&key("a"), rest, None);
        for part in 1..4 {
            queue.add_at(key("a"), start + rest / 4 * part);
        }
        queue.add(key("b"));
        assert_eq!((queue.next().await, start.elapsed()), (key("b"), Duration::ZERO));
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), rest));
        queue.done(&key("a"), rest, None);
        tokio::time::sleep(rest).await;
        queue.add(key("a"));
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), 2 * rest));
        queue.done(&key("a"), Duration::ZERO, None);
        queue.done(&key("b"), Duration::ZERO, None);
        let more = tokio::time::timeout(rest, queue.next()).await;
        assert!(
            more.is_err(),
            "all wake-ups during a rest make one pass: {more:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_user_changes_does_not_rest_and_rests_afterwards() {
        let (queue, start) = (Queue::default(), Instant::now());
        let changed = |version: &str| queue.add_now(key("a"), version.to_owned());
        queue.add(key("a"));
        queue.next().await;
        changed("2");
        queue.done(&key("a"), MAX_OWN, None);
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), Duration::ZERO));
        queue.done(&key("a"), MAX_OWN, None);
        queue.add(key("a"));
        changed("3");
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), Duration::ZERO));
        // A user's change that was heard of before the pass wrote, and one after it.
        changed("4");
        changed("6");
        queue.done(&key("a"), MAX_OWN, Some("5"));
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), Duration::ZERO));
        queue.done(&key("a"), MAX_OWN, None);
        // What was due at the end of the rest is served; what comes now rests again.
        tokio::time::sleep(MAX_OWN / 2).await;
        queue.add(key("a"));
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), MAX_OWN));
        assert!(queue.state.lock().urgent.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_pass_has_written_itself_wakes_nobody_even_if_it_is_heard_of_before_the_answer() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.next().await;
        // The last of several writes may be heard of when it is held already.
        for (heard, wrote) in [(["2", "3"], "3"), (["9", "10"], "11")] {
            for version in heard {
                queue.add_now(key("a"), version.to_owned());
            }
            queue.done(&key("a"), MAX_OWN, Some(wrote));
            let more = tokio::time::timeout(Duration::from_secs(60), queue.next()).await;
            assert!(more.is_err(), "{more:?}");
            queue.add(key("a"));
            queue.next().await;
        }
        queue.done(&key("a"), Duration::ZERO, None);
        // What else has woken it is served, after its rest.
        queue.add(key("a"));
        queue.next().await;
        queue.add(key("a"));
        queue.add_now(key("a"), "4".to_owned());
        let start = Instant::now();
        queue.done(&key("a"), MAX_OWN, Some("4"));
        assert_eq!((queue.next().await, start.elapsed()), (key("a"), MAX_OWN));
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_rest_do_so_for_longer_and_small_ones_not_for_as_long_as_large_ones() {
        let (queue, now) = (Queue::default(), Instant::now());
        let [large, small] = [50, 1].map(Duration::from_millis);
        let rest = |name: &str| queue.state.lock().resting[&key(name)].0.duration_since(now);
        queue.done(&key("large-0"), large, None);
        assert_eq!(rest("large-0"), large, "alone");
        queue.done(&key("small-0"), small, None);
        assert_eq!(rest("small-0"), 2 * small, "twice, beside one other");
        queue.done(&key("large-1"), large, None);
        assert_eq!(rest("large-1"), 2 * large + small, "what all of them take");
        for n in 2..90 {
            queue.done(&key(&format!("large-{n}")), large, None);
        }
        assert_eq!(rest("large-89"), 90 * large + small);
        queue.done(&key("small-0"), small, None);
        assert_eq!(rest("small-0"), 91 * small);
        for n in 90..200 {
            queue.done(&key(&format!("large-{n}")), large, None);
        }
        assert_eq!(rest("large-199"), MAX_REST);
        tokio::time::sleep(MAX_REST).await;
        queue.done(&key("huge"), 60 * MAX_REST, None);
        assert_eq!(rest("huge"), MAX_REST + MAX_OWN, "nobody rests any more");
        assert_eq!(queue.state.lock().resting.len(), 1);
    }

    /// Where passes take longer than they weigh, keys wait for each other nearly all the time; those that do weigh no less, or each
    /// would rest as if it were alone.
    #[tokio::test(start_paused = true)]
    async fn keys_that_wait_for_a_pass_make_others_rest() {
        let (weight, cost) = (Duration::from_millis(50), Duration::from_millis(60));
        let (queue, count) = (Queue::default(), 100);
        for n in 0..count {
            queue.add(key(&n.to_string()));
        }
        let mut rest = Duration::ZERO;
        for _ in 0..10 * count {
            let key = queue.next().await;
            tokio::time::sleep(cost).await;
            queue.add(key.clone());
            queue.done(&key, weight, None);
            rest = queue.state.lock().resting[&key].0 - Instant::now();
        }
        assert_eq!(rest, weight * count);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_are_always_woken_take_hardly_more_together_than_one_alone() {
        let (weight, cost) = (Duration::from_millis(50), Duration::from_millis(15));
        for count in [1_u32, 20, 150] {
            let (queue, start) = (Queue::default(), Instant::now());
            for n in 0..count {
                queue.add(key(&n.to_string()));
            }
            let mut passes = 0;
            while start.elapsed() < Duration::from_secs(120) {
                let key = queue.next().await;
                tokio::time::sleep(cost).await;
                queue.add(key.clone());
                queue.done(&key, weight, None);
                passes += 1;
            }
            // Between `15 / (15 + 50)`, one alone, and `15 / 50`: many rest while others are in work.
            let share = (cost * passes).as_secs_f64() / start.elapsed().as_secs_f64();
            assert!((0.22..0.35).contains(&share), "{count} keys take {share:.2}");
        }
    }
}
