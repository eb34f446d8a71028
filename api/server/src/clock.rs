//! Time and identity as parameters, so that a run replays from its seed.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

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
