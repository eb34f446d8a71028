//! How fast one user may write.
//!
//! Places at a time do not bound what a client costs that writes as soon as it is answered: it would have all that a processor
//! can do. Each user's writes have a rate of their own (the generic cell rate algorithm, ITU-T I.371), and who is faster
//! waits: for its turn, or for as long as `Retry-After` says if its turn would come later than that. So a client that heeds
//! no 429 is held back by it as well.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// One write of a user in so long, in the long run: 200 a second.
const EACH: Duration = Duration::from_millis(5);
/// So many bytes count as one more write.
const BYTES: usize = 64 << 10;
/// How far ahead of its rate a user may be: 1,000 writes at once.
const AHEAD: Duration = Duration::from_secs(5);
/// The longest wait; what `Retry-After` says of a write that would have to wait longer.
const LONGEST: Duration = Duration::from_secs(1);
/// Users that are remembered before those that have fallen behind their rate are forgotten.
const MANY: usize = 1_024;

/// The writes of all users.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<HashMap<Arc<str>, Instant>>);

/// A write would have its turn too late.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooFast;

impl Pace {
    /// Takes the next turn of a user: when it is.
    fn turn(&self, user: &str, now: Instant) -> Result<Instant, TooFast> {
        let mut written = self.0.lock();
        if written.len() > MANY {
            written.retain(|_, done| *done > now);
        }
        let done = written.get(user).map_or(now, |done| now.max(*done)) + EACH;
        let turn = done.checked_sub(AHEAD).map_or(now, |turn| turn.max(now));
        if turn > now + LONGEST {
            return Err(TooFast);
        }
        match written.get_mut(user) {
            Some(there) => *there = done,
            None => {
                written.insert(user.into(), done);
            }
        }
        Ok(turn)
    }

    /// Waits for the turn of a user. How long it took. Whoever has to wait needs a place that `enter` gives, and is refused at
    /// once where there is none: what waits takes memory.
    ///
    /// # Errors
    /// [`TooFast`], when the longest wait is over.
    pub(super) async fn wait<P>(
        &self,
        user: &str,
        enter: impl FnOnce() -> Option<P>,
    ) -> (Duration, Result<(), TooFast>) {
        let now = Instant::now();
        let turn = self.turn(user, now);
        if turn == Ok(now) {
            return (Duration::ZERO, Ok(()));
        }
        let Some(_place) = enter() else {
            return (Duration::ZERO, Err(TooFast));
        };
        let waits = turn.as_ref().map_or(LONGEST, |turn| *turn - now);
        sleep_until(now + waits).await;
        (waits, turn.map(drop))
    }

    /// Counts the bytes of a write that had its turn.
    pub(super) fn charge(&self, user: &str, bytes: usize) {
        if let (Some(done), Ok(more)) = (self.0.lock().get_mut(user), u32::try_from(bytes / BYTES)) {
            *done += EACH * more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many writes of a user are done within a time, by one who has so many under way, always, and heeds no refusal.
    async fn done(pace: &Pace, user: &str, at_once: usize, time: Duration) -> (usize, usize) {
        let end = Instant::now() + time;
        let one = async || {
            let (mut done, mut refused) = (0, 0);
            while Instant::now() < end {
                match pace.wait(user, || Some(())).await.1 {
                    Ok(()) => done += 1,
                    Err(TooFast) => refused += 1,
                }
                tokio::task::yield_now().await;
            }
            (done, refused)
        };
        let all = futures::future::join_all((0..at_once).map(|_| one())).await;
        all.into_iter()
            .fold((0, 0), |sum, (done, refused)| (sum.0 + done, sum.1 + refused))
    }

    #[tokio::test(start_paused = true)]
    async fn who_writes_as_fast_as_it_can_has_its_rate_and_who_does_not_waits_for_nothing() {
        let pace = Pace::default();
        let began = Instant::now();
        for _ in 0..1_000 {
            assert_eq!(
                pace.wait("calm", || Some(())).await,
                (Duration::ZERO, Ok(())),
                "all at once"
            );
        }
        assert_eq!(Instant::now(), began);
        let (done, refused) = done(&pace, "wild", 400, Duration::from_secs(60)).await;
        assert!(
            (13_000..=13_300).contains(&done),
            "{done}: 1,000 and 200 a second"
        );
        assert!(
            refused > 0 && refused <= 400 * 61,
            "{refused}: at most one a second of each"
        );
        assert_eq!(
            pace.wait("calm", || Some(())).await,
            (Duration::ZERO, Ok(())),
            "the others do not wait for it"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn large_writes_count_more_and_nothing_is_kept_of_who_is_slow() {
        let pace = Pace::default();
        let began = Instant::now();
        for _ in 0..200 {
            assert_eq!(pace.wait("large", || Some(())).await.1, Ok(()));
            pace.charge("large", 5 * BYTES + 1);
        }
        let took = began.elapsed().as_secs_f64();
        assert!(
            (0.9..=1.0).contains(&took),
            "{took}: of 6 s of writes 5 s are ahead"
        );
        pace.charge("stranger", BYTES);
        for n in 0..MANY * 3 {
            assert_eq!(pace.wait(&format!("user-{n}"), || Some(())).await.1, Ok(()));
            tokio::time::advance(EACH).await;
            assert!(pace.0.lock().len() <= MANY + 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_place_to_wait_is_refused_at_once() {
        let pace = Pace::default();
        for _ in 0..1_000 {
            assert_eq!(
                pace.wait("a", || None::<()>).await,
                (Duration::ZERO, Ok(())),
                "nobody waits"
            );
        }
        assert_eq!(
            pace.wait("a", || None::<()>).await,
            (Duration::ZERO, Err(TooFast))
        );
    }
}
