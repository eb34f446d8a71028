//! Checks of Services (`ValidateService` of Kubernetes).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    container::port_name,
    pod_spec::{items, one_of, text},
};
use crate::{
    error::Cause,
    names::dns_label,
    object::at,
    schema::{join, join_index},
};

const PORT: &str = "must be between 1 and 65535, inclusive";

/// What is wrong with a Service, defaults included.
pub(super) fn check_service(value: &Value, out: &mut Vec<Cause>) {
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(spec, "type", "spec", &types, out);
    one_of(spec, "sessionAffinity", "spec", &["ClientIP", "None"], out);
    let ty = text(spec, "type");
    if ty == "ExternalName" && text(spec, "externalName").is_empty() {
        out.push(Cause::required("spec.externalName", "Required value"));
    }
    let headless = at(value, &["spec", "clusterIP"]).and_then(Value::as_str) == Some("None");
    let count = items(spec, "ports").count();
    if count == 0 && !headless && ty != "ExternalName" {
        out.push(Cause::required("spec.ports", "Required value"));
    }
    let (mut names, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for (i, port) in items(spec, "ports").enumerate() {
        let path = join_index("spec.ports", i);
        let name = text(port, "name");
        if name.is_empty() {
            if count > 1 {
                out.push(Cause::required(join(&path, "name"), "Required value"));
            }
        } else if let Some(why) = dns_label(name).first() {
            out.push(Cause::invalid_value(join(&path, "name"), port.get("name"), why));
        } else if !names.insert(name) {
            let why = format!("Duplicate value: {name:?}");
            out.push(Cause::duplicate(join(&path, "name"), why));
        }
        one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"], out);
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        in_range(number, &join(&path, "port"), out);
        if !taken.insert((number, text(port, "protocol"))) {
            let why = format!(
                "Duplicate value: {{\"port\":{number},\"protocol\":{:?}}}",
                text(port, "protocol")
            );
            out.push(Cause::duplicate(&path, why));
        }
        match port.get("targetPort") {
            Some(Value::String(name)) => {
                if let Some(why) = port_name(name) {
                    out.push(Cause::invalid_value(
                        join(&path, "targetPort"),
                        port.get("targetPort"),
                        why,
                    ));
                }
            }
            Some(number) => in_range(number.as_i64().unwrap_or(0), &join(&path, "targetPort"), out),
            None => {}
        }
        if ty == "ClusterIP"
            && port
                .get("nodePort")
                .and_then(Value::as_i64)
                .is_some_and(|n| n != 0)
        {
            let why = "may not be used when `type` is 'ClusterIP'";
            out.push(Cause::forbidden(join(&path, "nodePort"), why));
        }
    }
}

fn in_range(port: i64, field: &str, out: &mut Vec<Cause>) {
    if !(1..=65_535).contains(&port) {
        out.push(Cause::invalid_value(field, Some(&port.into()), PORT));
    }
}
