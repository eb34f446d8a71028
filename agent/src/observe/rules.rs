//! Rules: the `conditionRules` and `feedbackRules` of a bundle, compiled once per content, and what they say of a live
//! object.

use super::conditions::{self, ConditionRule, RuleCondition};
use super::expression::{Allowance, Subject, Unworked, subject, with_stack};
use super::feedback::{self, FeedbackRule, Synced};
use crate::apply::strategy::identifies;
use crate::kinds::Kind;
use crate::object::ObjectKey;
use roundhouse_api::bundle::{COMPLETE, FeedbackValue, ManifestConfig, ResourceIdentifier};
use roundhouse_api::condition::Status;
use serde_json::Value;
use std::sync::Arc;

/// Expressions that one bundle may have; those after the last one are invalid.
pub(super) const MAX_EXPRESSIONS: usize = 256;

/// What the rules of a bundle say of one object.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Examined {
    /// One condition per rule, in the order of the rules.
    pub(crate) conditions: Vec<RuleCondition>,
    /// The values that were asked for and are there.
    pub(crate) feedback: Vec<FeedbackValue>,
    /// Whether all values could be read; `None` when none are asked for.
    pub(crate) synced: Option<Synced>,
    /// Not everything could be looked at in this pass, because the bundle's expressions cost too much or the system had no
    /// thread for them: a later one goes on here.
    pub(crate) postponed: bool,
}

impl Examined {
    /// Whether the object came to its end, by its rule with condition `Complete`; `None` without one.
    pub(crate) fn complete(&self) -> Option<bool> {
        let rule = self
            .conditions
            .iter()
            .find(|condition| condition.type_ == COMPLETE)?;
        Some(rule.status == Status::True)
    }
}

/// The rules of a bundle.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    sets: Vec<(ResourceIdentifier, RuleSet)>,
    /// What their expressions may touch in one pass, all together.
    allowance: Arc<Allowance>,
    /// Why they are not compiled.
    uncompiled: Option<Unworked>,
}

/// The rules for the objects of one `manifestConfig`.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    conditions: Vec<ConditionRule>,
    feedback: Vec<FeedbackRule>,
    allowance: Arc<Allowance>,
    /// Why they are not compiled.
    uncompiled: Option<Unworked>,
}

impl Rules {
    /// Compiles. A rule that does not compile is kept as what is wrong with it.
    pub(crate) fn compile(configs: &[ManifestConfig]) -> Self {
        Rules::within(configs, Allowance::default())
    }

    fn within(configs: &[ManifestConfig], allowance: Allowance) -> Self {
        let allowance = Arc::new(allowance);
        if configs
            .iter()
            .all(|config| config.condition_rules.is_empty() && config.feedback_rules.is_empty())
        {
            let none = |config: &ManifestConfig| (config.resource_identifier.clone(), RuleSet::default());
            return Rules {
                sets: configs.iter().map(none).collect(),
                allowance,
                uncompiled: None,
            };
        }
        let compile = || -> Vec<(ResourceIdentifier, RuleSet)> {
            let mut left = MAX_EXPRESSIONS;
            let mut compile = |config: &ManifestConfig| RuleSet {
                conditions: config
                    .condition_rules
                    .iter()
                    .map(|rule| ConditionRule::compile(rule, &mut left))
                    .collect(),
                feedback: config
                    .feedback_rules
                    .iter()
                    .map(|rule| FeedbackRule::compile(rule, &mut left))
                    .collect(),
                allowance: Arc::clone(&allowance),
                uncompiled: None,
            };
            configs
                .iter()
                .map(|config| (config.resource_identifier.clone(), compile(config)))
                .collect()
        };
        match with_stack(compile) {
            Ok(sets) => Rules {
                sets,
                allowance,
                uncompiled: None,
            },
            Err(why) => {
                tracing::error!("the rules of a bundle are not compiled: {why}");
                let sets = configs.iter().map(|config| RuleSet::uncompiled(config, why));
                Rules {
                    sets: (configs.iter().map(|config| config.resource_identifier.clone()))
                        .zip(sets)
                        .collect(),
                    allowance,
                    uncompiled: Some(why),
                }
            }
        }
    }

    /// Whether they are compiled; if not, no rule is known to hold, and compiling them again may help.
    pub(crate) fn are_compiled(&self) -> bool {
        self.uncompiled.is_none()
    }

    /// A new pass begins: what expressions may touch counts anew.
    pub(crate) fn begin_pass(&self) {
        self.allowance.renew();
    }

    /// The rules for an object: those of the first entry that matches.
    pub(crate) fn of(&self, kind: &Kind, key: &ObjectKey) -> Option<&RuleSet> {
        let first = self
            .sets
            .iter()
            .find(|(identifier, _)| identifies(identifier, kind, key));
        first.map(|(_, rules)| rules).filter(|rules| !rules.is_empty())
    }
}

impl RuleSet {
    /// The rules of an entry while they are not compiled: each one stands for itself and does not hold.
    fn uncompiled(config: &ManifestConfig, why: Unworked) -> Self {
        let rules = config.condition_rules.iter();
        RuleSet {
            conditions: rules.map(ConditionRule::uncompiled).collect(),
            feedback: Vec::new(),
            allowance: Arc::default(),
            uncompiled: (!config.condition_rules.is_empty() || !config.feedback_rules.is_empty())
                .then_some(why),
        }
    }

    fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.feedback.is_empty() && self.uncompiled.is_none()
    }

    /// Whether the object has an end, by a rule with condition `Complete`.
    pub(crate) fn completes(&self) -> bool {
        self.conditions.iter().any(ConditionRule::completes)
    }

    /// Looks at a live object of API version `version`.
    pub(crate) fn examine(&self, key: &ObjectKey, version: &str, live: &Value) -> Examined {
        if let Some(why) = self.uncompiled {
            return self.unworked(why);
        }
        let examine = || {
            let subject = self.needs_expressions().then(|| subject(live, &self.allowance));
            let (feedback, synced) = feedback::collect(&self.feedback, key, version, live, subject.as_ref());
            Examined {
                conditions: conditions::evaluate(&self.conditions, key, live, subject.as_ref()),
                feedback,
                synced,
                postponed: subject.as_ref().is_some_and(Subject::is_postponed),
            }
        };
        if !self.needs_expressions() {
            return examine();
        }
        with_stack(examine).unwrap_or_else(|why| self.unworked(why))
    }

    /// What is said of an object while there is no thread to look at it: a later pass looks. A defect is not tried again.
    fn unworked(&self, why: Unworked) -> Examined {
        Examined {
            postponed: why == Unworked::NoThread || self.uncompiled.is_some(),
            ..self.unexamined(&why.to_string())
        }
    }

    /// What is said of an object that could not be looked at.
    pub(crate) fn unexamined(&self, why: &str) -> Examined {
        Examined {
            conditions: self.conditions.iter().map(|rule| rule.unexamined(why)).collect(),
            ..Examined::default()
        }
    }

    /// What is said of an object that ran to its end and is gone.
    pub(crate) fn examine_finished(&self) -> Examined {
        let finished = self.conditions.iter().filter(|rule| rule.completes());
        Examined {
            conditions: finished.map(ConditionRule::finished).collect(),
            ..Examined::default()
        }
    }

    fn needs_expressions(&self) -> bool {
        self.conditions.iter().any(ConditionRule::needs_expressions)
            || self.feedback.iter().any(FeedbackRule::needs_expressions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::expression::starved::starved;
    use serde_json::{from_value, json};

    fn rules(expressions: &[&str], allowance: u64) -> Rules {
        let rules: Vec<Value> = expressions
            .iter()
            .enumerate()
            .map(
                |(n, text)| json!({"condition": format!("Rule{n}"), "type": "CEL", "celExpressions": [text]}),
            )
            .collect();
        let config = json!({"resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": "x", "name": "*"},
            "conditionRules": rules});
        Rules::within(&[from_value(config).unwrap()], Allowance::of(allowance))
    }

    fn examine(rules: &Rules, objects: usize) -> Vec<Examined> {
        let live = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v".repeat(1000)}});
        let all = (0..objects).map(|_| rules.sets[0].1.examine(&ObjectKey::default(), "v1", &live));
        all.collect()
    }

    /// Touches some 100 KiB of any object.
    const DEAR: &str = "['a','b','c','d','e','f','g','h'].all(a, ['a','b','c','d','e','f','g'].all(b, \
                        object.data.k != ''))";

    #[test]
    fn the_expressions_of_a_bundle_have_one_allowance_a_pass_whatever_number_of_objects_they_are_about() {
        let rules = rules(&[DEAR], 1024 * 1024);
        let first = examine(&rules, 100);
        let done = first.iter().filter(|examined| !examined.postponed).count();
        assert!((4..50).contains(&done), "{done}");
        assert!(
            first
                .iter()
                .take(done)
                .all(|it| it.conditions[0].status == Status::True)
        );
        let rest = &first[done..];
        assert!(
            rest.iter()
                .all(|it| it.postponed && it.conditions[0].status == Status::False)
        );
        assert!(rest[0].conditions[0].message.contains("in one pass"), "{rest:?}");
        // Nothing is left until the next pass begins.
        assert!(examine(&rules, 1)[0].postponed);
        rules.begin_pass();
        assert_eq!(examine(&rules, 1)[0], first[0]);
    }

    #[test]
    fn an_expression_that_costs_too_much_by_itself_is_not_put_off() {
        let endless = "[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8].all(b, [1,2,3,4,5,6,7,8].all(c, \
                       object.data.k + object.data.k + object.data.k + object.data.k + object.data.k + \
                       object.data.k + object.data.k + object.data.k + object.data.k + object.data.k + \
                       object.data.k + object.data.k + object.data.k + object.data.k + object.data.k != '')))";
        let rules = rules(&[endless], 64 * 1024 * 1024);
        let examined = examine(&rules, 1).remove(0);
        assert!(!examined.postponed);
        assert!(examined.conditions[0].message.contains("8 MiB"), "{examined:?}");
    }

    #[test]
    fn without_a_thread_nothing_is_known_to_hold_and_a_later_pass_looks_again() {
        let config = json!({"resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": "x", "name": "*"},
            "conditionRules": [{"condition": "Ready", "type": "CEL", "celExpressions": ["object.data.k == 'v'"]}],
            "feedbackRules": [{"type": "CEL", "celExpressions": [{"name": "k", "expression": "object.data.k"}]}]});
        let bare = json!({"resourceIdentifier": {"group": "", "resource": "secrets", "namespace": "x", "name": "*"}});
        let configs = [from_value(config).unwrap(), from_value(bare).unwrap()];
        let compile = || Rules::within(&configs, Allowance::default());
        let live = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        let key = ObjectKey {
            kind: "ConfigMap".into(),
            ..ObjectKey::default()
        };
        let readiness = |rules: &Rules, known: Option<&Examined>| {
            let sight = crate::observe::look(&key, "v1", &live, None, Some(&rules.sets[0].1), known);
            (
                sight.examined.postponed,
                sight.readiness == crate::observe::Readiness::Ready,
                sight.examined,
            )
        };
        let uncompiled = starved(compile);
        assert!(!uncompiled.are_compiled());
        assert!(uncompiled.sets[1].1.is_empty(), "no rules are none");
        let (postponed, ready, examined) = readiness(&uncompiled, None);
        assert!(postponed && !ready, "{examined:?}");
        assert_eq!(examined.conditions[0].type_, "Ready");
        assert!(
            examined.conditions[0].message.contains("no thread"),
            "{examined:?}"
        );
        let compiled = compile();
        assert!(compiled.are_compiled());
        let (postponed, ready, unexamined) = starved(|| readiness(&compiled, Some(&examined)));
        assert!(postponed && !ready, "{unexamined:?}");
        let (postponed, ready, examined) = readiness(&compiled, Some(&unexamined));
        assert!(!postponed && ready, "{examined:?}");
        assert_eq!(examined.feedback.len(), 1);
    }

    /// Counts and conditions that are of the revision before must not be told of this one. Values are what they are.
    #[test]
    fn what_its_controller_has_not_seen_says_nothing_of_its_pods_and_its_conditions() {
        let config = json!({"resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": "x", "name": "*"},
            "conditionRules": [{"condition": "Serves", "type": "CEL", "celExpressions": ["object.status.readyReplicas == 3"]}],
            "feedbackRules": [{"type": "CEL", "celExpressions": [{"name": "n", "expression": "object.status.readyReplicas"}]}]});
        let rules = Rules::within(&[from_value(config).unwrap()], Allowance::default());
        let key = ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            ..ObjectKey::default()
        };
        let at = |observed: i64, written| {
            let live = json!({"metadata": {"generation": 2}, "spec": {"replicas": 3},
                "status": {"observedGeneration": observed, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3}});
            let sight = crate::observe::look(&key, "v1", &live, written, Some(&rules.sets[0].1), None);
            let (workload, examined) = (sight.workload.unwrap(), sight.examined);
            assert!(!examined.postponed);
            let holds = examined.conditions[0].status == Status::True;
            ((workload.updated, workload.ready), holds, examined.feedback.len())
        };
        assert_eq!(at(2, None), ((3, 3), true, 1));
        assert_eq!(at(2, Some(2)), ((3, 3), true, 1));
        for (observed, written) in [(1, None), (2, Some(3))] {
            assert_eq!(at(observed, written), ((0, 3), false, 1));
        }
    }
}
