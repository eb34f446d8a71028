//! What is reached over the network.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Column, NAME, column,
    read::{get, integer, joined, labels, list, or, or_none, selector, string},
    wide,
};
use crate::object::text;

pub(super) const SERVICE: &[Column] = &[
    NAME,
    column("Type", |v, _| string(v, &["spec", "type"])),
    column("Cluster-IP", |v, _| or_none(v, &["spec", "clusterIP"])),
    column("External-IP", external_ip),
    column("Port(s)", ports),
    AGE,
    wide("Selector", |v, _| labels(v, &["spec", "selector"])),
];

pub(super) const ENDPOINTS: &[Column] = &[
    NAME,
    column("Endpoints", |v, _| {
        let mut all = vec![];
        for subset in list(v, &["subsets"]) {
            for port in list(subset, &["ports"]) {
                for address in list(subset, &["addresses"]) {
                    all.push(format!("{}:{}", get(address, &["ip"]), integer(port, &["port"])));
                }
            }
        }
        at_most_three(&all, "<none>")
    }),
    AGE,
];

pub(super) const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    column("AddressType", |v, _| string(v, &["addressType"])),
    column("Ports", |v, _| {
        let ports: Vec<String> = list(v, &["ports"])
            .iter()
            .map(|p| match integer(p, &["port"]) {
                0 => "*".to_owned(),
                n => n.to_string(),
            })
            .collect();
        at_most_three(&ports, "<unset>")
    }),
    column("Endpoints", |v, _| {
        let all: Vec<String> = list(v, &["endpoints"])
            .iter()
            .flat_map(|e| list(e, &["addresses"]))
            .filter_map(|a| a.as_str().map(str::to_owned))
            .collect();
        at_most_three(&all, "<unset>")
    }),
    AGE,
];

pub(super) const INGRESS: &[Column] = &[
    NAME,
    column("Class", |v, _| or_none(v, &["spec", "ingressClassName"])),
    column("Hosts", |v, _| {
        let hosts: Vec<String> = list(v, &["spec", "rules"])
            .iter()
            .filter_map(|r| text(r, &["host"]).filter(|h| !h.is_empty()).map(str::to_owned))
            .collect();
        at_most_three(&hosts, "*")
    }),
    column("Address", |v, _| {
        let all = list(v, &["status", "loadBalancer", "ingress"]);
        joined(all.iter().filter_map(address), "")
    }),
    column("Ports", |v, _| {
        if list(v, &["spec", "tls"]).is_empty() {
            "80".into()
        } else {
            "80, 443".into()
        }
    }),
    AGE,
];

pub(super) const INGRESS_CLASS: &[Column] = &[
    NAME,
    column("Controller", |v, _| string(v, &["spec", "controller"])),
    column("Parameters", |v, _| {
        let part = |key: &str| get(v, &["spec", "parameters", key]);
        match (part("kind"), part("apiGroup"), part("name")) {
            ("", _, _) => "<none>".into(),
            (kind, "", name) => format!("{kind}/{name}").into(),
            (kind, group, name) => format!("{kind}.{group}/{name}").into(),
        }
    }),
    AGE,
];

pub(super) const NETWORK_POLICY: &[Column] = &[
    NAME,
    column("Pod-Selector", |v, _| selector(v, &["spec", "podSelector"])),
    AGE,
];

fn at_most_three(all: &[String], otherwise: &str) -> Value {
    match all {
        [] => otherwise.into(),
        [a, b, c, rest @ ..] if !rest.is_empty() => format!("{a},{b},{c} + {} more...", rest.len()).into(),
        all => all.join(",").into(),
    }
}

fn address(ingress: &Value) -> Option<&str> {
    let given = |key: &str| text(ingress, &[key]).filter(|t| !t.is_empty());
    given("ip").or(given("hostname"))
}

fn external_ip(value: &Value, _: Timestamp) -> Value {
    let ingress = list(value, &["status", "loadBalancer", "ingress"]);
    let given = list(value, &["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str);
    match get(value, &["spec", "type"]) {
        "ExternalName" => or(value, &["spec", "externalName"], "<none>"),
        "LoadBalancer" => joined(ingress.iter().filter_map(address).chain(given), "<pending>"),
        _ => joined(given, "<none>"),
    }
}

fn ports(value: &Value, _: Timestamp) -> Value {
    let port = |p: &Value| {
        let node = integer(p, &["nodePort"]);
        let node = if node > 0 {
            format!(":{node}")
        } else {
            String::new()
        };
        format!("{}{node}/{}", integer(p, &["port"]), get(p, &["protocol"]))
    };
    let all: Vec<String> = list(value, &["spec", "ports"]).iter().map(port).collect();
    joined(all.iter().map(String::as_str), "<none>")
}
