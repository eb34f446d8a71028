//! Rules: the `conditionRules` and `feedbackRules` of a bundle, compiled once per content, and what they say of a live
//! object.

use super::conditions::{self, ConditionRule, RuleCondition};
use super::expression::{Subject, with_stack};
use super::feedback::{self, FeedbackRule, Synced};
use crate::apply::strategy::identifies;
use crate::kinds::Kind;
use crate::object::ObjectKey;
use roundhouse_api::bundle::{COMPLETE, FeedbackValue, ManifestConfig, ResourceIdentifier};
use roundhouse_api::condition::Status;
use serde_json::Value;

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
pub(crate) struct Rules(Vec<(ResourceIdentifier, RuleSet)>);

/// The rules for the objects of one `manifestConfig`.
#[derive(Debug, Default)]
pub(crate) struct RuleSet {
    conditions: Vec<ConditionRule>,
    feedback: Vec<FeedbackRule>,
}

impl Rules {
    /// Compiles. A rule that does not compile is kept as what is wrong with it.
    pub(crate) fn compile(configs: &[ManifestConfig]) -> Self {
        if configs
            .iter()
            .all(|config| config.condition_rules.is_empty() && config.feedback_rules.is_empty())
        {
            return Rules(
                configs
                    .iter()
                    .map(|config| (config.resource_identifier.clone(), RuleSet::default()))
                    .collect(),
            );
        }
        let compile = || {
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
            };
            configs
                .iter()
                .map(|config| (config.resource_identifier.clone(), compile(config)))
                .collect()
        };
        with_stack(compile).map(Rules).unwrap_or_else(|| {
            tracing::error!("no thread for compiling the rules of a bundle: none of them counts");
            Rules::default()
        })
    }

    /// The rules for an object: those of the first entry that matches.
    pub(crate) fn of(&self, kind: &Kind, key: &ObjectKey) -> Option<&RuleSet> {
        let first = self
            .0
            .iter()
            .find(|(identifier, _)| identifies(identifier, kind, key));
        first.map(|(_, rules)| rules).filter(|rules| !rules.is_empty())
    }
}

impl RuleSet {
    fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.feedback.is_empty()
    }

    /// Whether the object has an end, by a rule with condition `Complete`.
    pub(crate) fn completes(&self) -> bool {
        self.conditions.iter().any(ConditionRule::completes)
    }

    /// Looks at a live object of API version `version`.
    pub(crate) fn examine(&self, key: &ObjectKey, version: &str, live: &Value) -> Examined {
        let examine = || {
            let subject = self.needs_expressions().then(|| Subject::new(live));
            let (feedback, synced) = feedback::collect(&self.feedback, key, version, live, subject.as_ref());
            Examined {
                conditions: conditions::evaluate(&self.conditions, key, live, subject.as_ref()),
                feedback,
                synced,
            }
        };
        if !self.needs_expressions() {
            return examine();
        }
        with_stack(examine).unwrap_or_else(|| self.unexamined("the system has no thread to evaluate it in"))
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
