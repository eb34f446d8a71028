//! The same as JSON or YAML.

use super::{Subject, Verdict};
use crate::{
    explain::{
        Aim, Arithmetic, Condition, Consequence, Flip, Mark, Reason, RuleArithmetic, arithmetic as of,
        by_frequency,
    },
    words,
};
use serde_json::{Value, json};

/// The arithmetic of every step.
pub(super) fn arithmetic(subject: &Subject) -> Value {
    let steps = subject
        .steps
        .iter()
        .filter_map(|step| subject.decisions.get(*step));
    let steps = steps.map(|decided| {
        let decision = &decided.decision;
        let workloads = of(&subject.setting, decision);
        let held = Some(subject.holds(decision)).filter(|held| !held.is_empty());
        json!({
            "step": decision.step,
            "stored": decided.stored,
            "satisfied": decision.satisfied && held.is_none(),
            "held": held,
            "clusters": decision.clusters,
            "workloads": workloads.iter().map(workload).collect::<Vec<_>>(),
            "notChosen": by_frequency(&decision.excluded)
                .iter()
                .map(|e| json!({"reason": e.reason, "count": e.count, "words": words::not_chosen(&e.reason)}))
                .collect::<Vec<_>>(),
            "reasons": decision.reasons,
        })
    });
    json!({"application": subject.setting.application, "steps": steps.collect::<Vec<_>>()})
}

fn workload(workload: &Arithmetic) -> Value {
    json!({
        "workload": workload.workload,
        "replicas": workload.replicas,
        "placed": workload.placed,
        "unplaced": workload.unplaced,
        "unclaimed": workload.held,
        "overcommitted": workload.overcommitted,
        "rules": workload.rules.iter().map(rule).collect::<Vec<_>>(),
    })
}

fn rule(rule: &RuleArithmetic) -> Value {
    let decimal = |quota: &Option<String>| quota.as_deref().map(words::decimal);
    let rows = rule.rows.iter().map(|row| {
        json!({
            "name": row.cluster,
            "weight": row.weight,
            "quota": row.quota,
            "quotaDecimal": decimal(&row.quota),
            "replicas": row.replicas,
            "bound": row.bound,
            "previous": row.previous,
            "delta": row.delta(),
            "tie": row.tie,
        })
    });
    json!({
        "rule": rule.rule,
        "share": rule.share,
        "quota": rule.quota,
        "quotaDecimal": decimal(&rule.quota),
        "seats": rule.seats,
        "total": rule.total,
        "tie": rule.tie,
        "differsFromQuota": rule.off,
        "clusters": rows.collect::<Vec<_>>(),
    })
}

/// One cluster in every step.
pub(super) fn cluster(subject: &Subject, cluster: &str, verdicts: &[Verdict]) -> Value {
    let steps = verdicts.iter().map(|verdict| {
        let answer = &verdict.answer;
        let detail = match answer.reason {
            Reason::ZeroShare(code) if verdict.kept.is_none() => Some(code),
            _ => None,
        };
        let decisive = answer.conditions.iter().find(|condition| condition.decisive);
        let flips = verdict.search.as_ref().map(|search| {
            json!({
                "to": match verdict.aim { Aim::Include => "include", Aim::Exclude => "exclude" },
                "complete": search.complete,
                "ways": search.flips.iter().map(|f| flip(subject, cluster, f)).collect::<Vec<_>>(),
            })
        });
        let mut value = json!({
            "step": answer.step,
            "placed": verdict.kept.as_ref().map_or(answer.reason.is_placed(), |kept| kept.placed),
            "reason": verdict.kept.as_ref().map_or(answer.reason.code(), |_| "Held"),
            "detail": detail,
            "replicas": verdict.kept.as_ref().map_or_else(|| answer.replicas(), |kept| kept.replicas),
            "held": verdict.kept.as_ref().map(|kept| kept.hold.lines()),
            "heldBy": verdict.kept.as_ref().map(|kept| kept.hold.about()),
            "decisive": decisive.map(condition),
            "conditions": answer.conditions.iter().map(condition).collect::<Vec<_>>(),
            "flips": flips,
        });
        if verdict.ended {
            value["runEnded"] = json!(true);
        }
        value
    });
    json!({
        "application": subject.setting.application,
        "cluster": cluster,
        "steps": steps.collect::<Vec<_>>(),
    })
}

fn condition(condition: &Condition) -> Value {
    json!({
        "mark": match condition.mark {
            Mark::Holds => "holds",
            Mark::Fails => "fails",
            Mark::NotAsked => "notAsked",
        },
        "decisive": condition.decisive,
        "about": condition.about,
        "rule": condition.rule,
        "asks": condition.asks,
        "found": condition.found,
    })
}

fn flip(subject: &Subject, cluster: &str, flip: &Flip) -> Value {
    let advice = subject.source.advice(&flip.changes, &subject.setting, cluster);
    let changes = advice
        .iter()
        .map(|advice| json!({"kind": advice.kind, "what": advice.words, "command": advice.command}));
    let Consequence {
        here,
        others,
        unplaced,
        leaving,
    } = &flip.consequence;
    let others = others
        .iter()
        .map(|moved| json!({"cluster": moved.cluster, "delta": moved.delta}));
    json!({
        "changes": changes.collect::<Vec<_>>(),
        "here": here,
        "others": others.collect::<Vec<_>>(),
        "unplaced": unplaced,
        "leaving": leaving,
    })
}
