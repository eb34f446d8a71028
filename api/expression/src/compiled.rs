//! Compiled expressions of an owner that reads the same texts again and again.

use super::{Expression, Invalid, Unworked, with_stack};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A text and the variables that it may name.
type Key = (String, Vec<String>);
type Outcome = Result<Arc<Expression>, Invalid>;

/// What was compiled for one owner, by text and variables; refusals are kept as well. It goes with its owner, and holds no
/// more than the owner has expressions.
#[derive(Debug, Default)]
pub struct Compiled {
    held: Mutex<BTreeMap<Key, Outcome>>,
}

impl Compiled {
    /// Compiles an expression over `variables`, or gives what came of it the first time.
    ///
    /// # Errors
    /// As [`with_stack`], and inside [`Invalid`] as [`Expression::compile`].
    pub fn compile(&self, text: &str, variables: &[&str]) -> Result<Outcome, Unworked> {
        let names = variables.iter().map(|name| (*name).to_owned());
        let key = (text.to_owned(), names.collect());
        if let Some(held) = self.held.lock().get(&key) {
            return Ok(held.clone());
        }
        // Nobody waits for the lock meanwhile; what two compile at the same time is the same.
        let outcome = with_stack(|| Expression::compile(text, variables))?.map(Arc::new);
        Ok(self.held.lock().entry(key).or_insert(outcome).clone())
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.lock().len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.lock().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_over_the_same_variables_is_compiled_once() {
        let compiled = Compiled::default();
        let compile = |text: &str, variables: &[&str]| compiled.compile(text, variables).unwrap();
        let first = compile("a == 1", &["a"]).unwrap();
        assert!(Arc::ptr_eq(&first, &compile("a == 1", &["a"]).unwrap()));
        assert!(!Arc::ptr_eq(&first, &compile("a == 1", &["a", "b"]).unwrap()));
        assert_eq!(compiled.len(), 2);
    }

    #[test]
    fn a_refusal_is_the_same_every_time() {
        let compiled = Compiled::default();
        for text in ["a ==", "b", "a[", "has(a)"] {
            let first = compiled.compile(text, &["a"]).unwrap().map(drop);
            let direct = with_stack(|| Expression::compile(text, &["a"]))
                .unwrap()
                .map(drop);
            assert_eq!(first, direct, "{text}");
            assert_eq!(
                compiled.compile(text, &["a"]).unwrap().map(drop),
                direct,
                "{text}"
            );
        }
    }
}
