//! Expressions about live objects: what of an object they see.

use roundhouse_api::names::annotation;
#[cfg(not(test))]
pub(crate) use roundhouse_expression::with_stack;
pub(crate) use roundhouse_expression::{Allowance, Expression, Failure, Unworked};
use serde_json::Value;
#[cfg(test)]
pub(crate) use starved::with_stack;

/// A live object as expressions see it.
pub(crate) type Subject<'a> = roundhouse_expression::Subject<'a>;

/// The annotation of `kubectl apply`: a copy of the object inside the object.
const KUBECTL_LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What expressions see of an object: everything but `managedFields`, copies of the object in its annotations, and what a
/// Secret keeps. Evaluations are paid for from `allowance`.
pub(crate) fn subject<'a>(live: &Value, allowance: &'a Allowance) -> Subject<'a> {
    Subject::new(live, &hidden, allowance)
}

/// What expressions do not see, by path. Whoever writes bundles need not be allowed to read Secrets of the member.
pub(super) fn hidden(kind: Option<&str>, path: &[&str]) -> bool {
    match path {
        ["data" | "stringData"] => kind == Some("Secret"),
        ["metadata", "managedFields"] => true,
        ["metadata", "annotations", key] => matches!(*key, annotation::LAST_APPLIED | KUBECTL_LAST_APPLIED),
        _ => false,
    }
}

/// Tests of a system that has no thread to give.
#[cfg(test)]
pub(super) mod starved {
    use super::Unworked;
    use std::cell::Cell;

    thread_local! {
        static STARVED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs `work` while this thread can start no others.
    pub(in crate::observe) fn starved<T>(work: impl FnOnce() -> T) -> T {
        STARVED.set(true);
        let done = work();
        STARVED.set(false);
        done
    }

    pub(crate) fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Unworked> {
        match STARVED.get() {
            // A stack as large as all of the address space is refused by every system.
            true => roundhouse_expression::with_stack_of(1 << 47, work),
            false => roundhouse_expression::with_stack(work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_secret_keeps_what_it_keeps_and_copies_of_the_object_are_not_seen() {
        let allowance = Allowance::default();
        let holds = |live: &Value, text: &str| {
            let expression = Expression::compile(text, &["object"]).unwrap();
            subject(live, &allowance).holds(&expression).unwrap()
        };
        let secret = json!({"kind": "Secret", "metadata": {"name": "s", "managedFields": [1], "annotations": {
            "a": "b", "app.oam.dev/last-applied-configuration": "{}"}}, "data": {"key": "dmFsdWU="}});
        assert!(!holds(&secret, "has(object.data)"));
        assert!(!holds(&secret, "has(object.metadata.managedFields)"));
        assert!(holds(&secret, "object.metadata.annotations == {'a': 'b'}"));
        let open = json!({"kind": "ConfigMap", "data": {"key": "dmFsdWU="}});
        assert!(holds(&open, "has(object.data)"));
    }
}
