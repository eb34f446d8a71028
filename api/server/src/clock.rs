//! Time and identity as parameters, so that a run replays from its seed.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Where the server reads the time of `creationTimestamp`, `deletionTimestamp` and condition transitions.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The machine's clock. The one place of this crate that reads it.
#[allow(
    clippy::disallowed_methods,
    reason = "this is the production Clock that everything else is handed"
)]
pub fn system_clock() -> Clock {
    Arc::new(Timestamp::now)
}

/// Moments that are the same for everybody: a thousand who wait for the next one wake the machine once and not each by itself, and
/// what they do then is done while its code and data are at hand.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// When somebody first asked.
    began: OnceLock<Instant>,
}

impl Moments {
    /// The next one for those who have one `every` time; always later than now.
    pub(crate) fn next(&self, every: Duration) -> Instant {
        let now = Instant::now();
        let began = *self.began.get_or_init(|| now);
        let into = now.duration_since(began).as_nanos() % every.as_nanos().max(1);
        now + every.saturating_sub(Duration::from_nanos(u64::try_from(into).unwrap_or_default()))
    }
}

/// A source of object uids and generated name suffixes.
///
/// Seeded, it yields the same sequence in every run (splitmix64); unseeded it starts from a random uuid.
#[derive(Debug)]
pub(crate) struct Dice(Mutex<u64>);

impl Dice {
    /// A source whose sequence is fixed by `seed`.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(Mutex::new(seed))
    }

    /// A source that differs from run to run.
    pub(crate) fn random() -> Self {
        Self::seeded(uuid::Uuid::new_v4().as_u64_pair().0)
    }

    /// The next 64 bits.
    pub(crate) fn next(&self) -> u64 {
        let mut state = self.0.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A fresh version 4 uuid in text form.
    pub(crate) fn uid(&self) -> String {
        let bits = (u128::from(self.next()) << 64) | u128::from(self.next());
        uuid::Builder::from_random_bytes(bits.to_be_bytes())
            .into_uuid()
            .to_string()
    }

    /// Five characters from the alphabet Kubernetes uses for `generateName` (no vowels, no look-alikes).
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut bits = self.next();
        (0..5)
            .map(|_| {
                let at = (bits % 27) as usize;
                bits /= 27;
                char::from(*ALPHABET.get(at).unwrap_or(&b'x'))
            })
            .collect()
    }
}

/// RFC 3339 with whole seconds, as Kubernetes writes `metav1.Time`.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_the_next_moment_waits_for_the_same_one() {
        const EVERY: Duration = Duration::from_millis(200);
        let moments = Moments::default();
        let first = moments.next(EVERY);
        assert_eq!(first, Instant::now() + EVERY);
        for step in [1, 3_700, 150_000, 45_299, 999] {
            tokio::time::advance(Duration::from_micros(step)).await;
            assert_eq!(moments.next(EVERY), first, "{step}");
        }
        tokio::time::advance(Duration::from_micros(1)).await;
        assert_eq!(moments.next(EVERY), first + EVERY, "this one is over");
        assert_eq!(moments.next(EVERY * 4), first + EVERY * 3);
    }
}
