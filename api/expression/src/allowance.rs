//! Allowance: what all evaluations of one owner may touch in one pass. A single expression is held to its own budget;
//! without this one, an expression that just keeps within it would be paid for once per object, a thousand times a pass.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one pass may touch, in bytes.
pub(super) const PASS: u64 = 256 * 1024 * 1024;
/// What an evaluation costs at least, in bytes.
const EVALUATION: u64 = 4096;

/// What is left of a pass.
#[derive(Debug)]
pub struct Allowance {
    full: u64,
    left: AtomicU64,
}

impl Default for Allowance {
    fn default() -> Self {
        Allowance::of(PASS)
    }
}

impl Allowance {
    /// An allowance of so many bytes.
    pub fn of(full: u64) -> Self {
        Allowance {
            full,
            left: AtomicU64::new(full),
        }
    }

    /// A new pass begins.
    pub fn renew(&self) {
        self.left.store(self.full, Ordering::Relaxed);
    }

    /// What one evaluation gets, at most `most`.
    pub(super) fn give(&self, most: u64) -> u64 {
        self.left.load(Ordering::Relaxed).min(most)
    }

    /// What an evaluation has touched.
    pub(super) fn spend(&self, touched: u64) {
        let left = self.left.load(Ordering::Relaxed);
        let cost = touched.saturating_add(EVALUATION);
        self.left.store(left.saturating_sub(cost), Ordering::Relaxed);
    }
}
