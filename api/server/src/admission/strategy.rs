//! Checks of how workloads roll out (`ValidateDeploymentSpec` and its like in Kubernetes).

use serde_json::Value;

use super::pod_spec::{not_negative, one_of, text};
use crate::{error::Cause, object::at, schema::join};

const NULL: &Value = &Value::Null;

/// What is wrong with the strategy and the times of a workload of `apps/v1`, defaults included.
pub(super) fn check_rollout(kind: &str, value: &Value, out: &mut Vec<Cause>) {
    let spec = value.get("spec").unwrap_or(NULL);
    not_negative(spec, "minReadySeconds", "spec", out);
    not_negative(spec, "revisionHistoryLimit", "spec", out);
    let of = |key: &'static str| (spec.get(key).unwrap_or(NULL), join("spec", key));
    match kind {
        "Deployment" => {
            let (strategy, path) = of("strategy");
            one_of(strategy, "type", &path, &["Recreate", "RollingUpdate"], out);
            match strategy.get("rollingUpdate") {
                Some(_) if text(strategy, "type") == "Recreate" => {
                    let why = "may not be specified when strategy `type` is 'Recreate'";
                    out.push(Cause::forbidden(join(&path, "rollingUpdate"), why));
                }
                Some(rolling) => moves(rolling, &join(&path, "rollingUpdate"), out),
                None => {}
            }
            let seconds = |key: &str| at(spec, &[key]).and_then(Value::as_i64);
            let deadline = spec.get("progressDeadlineSeconds");
            if seconds("progressDeadlineSeconds")
                .is_some_and(|deadline| deadline <= seconds("minReadySeconds").unwrap_or(0))
            {
                let why = "must be greater than minReadySeconds";
                out.push(Cause::invalid_value(
                    "spec.progressDeadlineSeconds",
                    deadline,
                    why,
                ));
            }
        }
        "DaemonSet" => {
            let (strategy, path) = of("updateStrategy");
            one_of(strategy, "type", &path, &["OnDelete", "RollingUpdate"], out);
            if let Some(rolling) = strategy.get("rollingUpdate") {
                moves(rolling, &join(&path, "rollingUpdate"), out);
            }
        }
        "StatefulSet" => {
            let (strategy, path) = of("updateStrategy");
            one_of(strategy, "type", &path, &["OnDelete", "RollingUpdate"], out);
            one_of(
                spec,
                "podManagementPolicy",
                "spec",
                &["OrderedReady", "Parallel"],
                out,
            );
            if let Some(rolling) = strategy.get("rollingUpdate") {
                not_negative(rolling, "partition", &join(&path, "rollingUpdate"), out);
            }
        }
        _ => {}
    }
}

/// `maxUnavailable` and `maxSurge`: numbers or percentages, and not both nothing.
fn moves(rolling: &Value, path: &str, out: &mut Vec<Cause>) {
    let before = out.len();
    for key in ["maxUnavailable", "maxSurge"] {
        let Some(found) = rolling.get(key) else { continue };
        let field = join(path, key);
        match found {
            Value::String(text) => {
                let percent = text.strip_suffix('%').filter(|digits| !digits.is_empty());
                let percent = percent.filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
                let Some(percent) = percent else {
                    let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                    out.push(Cause::invalid_value(field, Some(found), why));
                    continue;
                };
                if key == "maxUnavailable" && percent.parse::<u64>().map_or(true, |percent| percent > 100) {
                    out.push(Cause::invalid_value(
                        field,
                        Some(found),
                        "must not be greater than 100%",
                    ));
                }
            }
            _ => not_negative(rolling, key, path, out),
        }
    }
    let nothing = |key: &str| match rolling.get(key) {
        Some(Value::String(text)) => text.trim_end_matches('%').bytes().all(|b| b == b'0'),
        Some(number) => number.as_i64() == Some(0),
        None => false,
    };
    if out.len() == before && nothing("maxUnavailable") && nothing("maxSurge") {
        let why = "may not be 0 when `maxSurge` is 0";
        let field = join(path, "maxUnavailable");
        out.push(Cause::invalid_value(field, rolling.get("maxUnavailable"), why));
    }
}
