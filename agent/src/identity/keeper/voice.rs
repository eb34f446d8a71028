//! What the keeper says: once when it changes, and again every few minutes while it stays so.

use jiff::{SignedDuration, Timestamp};

/// What stays so is said again after this time.
const AGAIN: SignedDuration = SignedDuration::from_secs(300);

/// Remembers what was said last.
#[derive(Debug, Default)]
pub(super) struct Voice {
    said: Vec<(String, Timestamp)>,
}

/// Different things that are said in turn.
const REMEMBERED: usize = 4;

impl Voice {
    pub(super) fn warn(&mut self, words: &str, now: Timestamp) {
        if self.is_news(words, now) {
            tracing::warn!("{words}");
        }
    }

    pub(super) fn inform(&mut self, words: &str, now: Timestamp) {
        if self.is_news(words, now) {
            tracing::info!("{words}");
        }
    }

    fn is_news(&mut self, words: &str, now: Timestamp) -> bool {
        // A clock that was set back makes it news, too.
        let recent = |at: Timestamp| (SignedDuration::ZERO..AGAIN).contains(&now.duration_since(at));
        self.said.retain(|(_, at)| recent(*at));
        if self.said.iter().any(|(said, _)| said == words) {
            return false;
        }
        if self.said.len() >= REMEMBERED {
            self.said.remove(0);
        }
        self.said.push((words.to_owned(), now));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_in_five_minutes() {
        let mut voice = Voice::default();
        let mut news = |words, second| voice.is_news(words, Timestamp::from_second(second).unwrap());
        let heard = [
            news("a", 1000),
            news("a", 1001),
            news("b", 1002),
            news("a", 1299),
            news("a", 1300),
            news("b", 1301),
            news("b", 1302),
            news("a", 1200),
        ];
        assert_eq!(heard, [true, false, true, false, true, false, true, true]);
    }
}
