//! What an agent reports, checked before it is copied: sizes are bounded and quantities parse.

use roundhouse_api::cluster::ClusterReportSpec;
use std::collections::BTreeMap;

/// At most this many resources in a capacity; more are dropped.
const MAX_RESOURCES: usize = 32;
/// Longest resource name (Kubernetes: a DNS subdomain, `/`, and a label).
const MAX_RESOURCE_NAME: usize = 253 + 1 + 63;
/// Longest quantity.
const MAX_QUANTITY: usize = 32;
/// Longest version.
const MAX_VERSION: usize = 64;

/// The facts of a report that may be copied into the status of its Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Kubernetes version of the member.
    pub kubernetes_version: Option<String>,
    /// Version of the agent.
    pub agent_version: Option<String>,
    /// Capacity.
    pub capacity: BTreeMap<String, String>,
    /// Allocatable.
    pub allocatable: BTreeMap<String, String>,
    /// Names of the facts that were dropped, sorted.
    pub refused: Vec<String>,
}

/// Checks a report. A fact that is no good is dropped and named; the others count.
pub fn checked(report: &ClusterReportSpec) -> Facts {
    let mut facts = Facts::default();
    let mut version = |name: &str, text: Option<&str>| {
        let text = text.filter(|text| !text.is_empty())?;
        if is_version(text) {
            return Some(text.to_owned());
        }
        facts.refused.push(name.to_owned());
        None
    };
    facts.kubernetes_version = version("kubernetesVersion", report.kubernetes_version.as_deref());
    facts.agent_version = version("agentVersion", Some(&report.agent_version));
    let mut quantities = |name: &str, reported: &BTreeMap<String, String>| {
        let mut good = BTreeMap::new();
        for (resource, quantity) in reported {
            if good.len() < MAX_RESOURCES && is_resource_name(resource) && is_quantity(quantity) {
                good.insert(resource.clone(), quantity.clone());
            } else if facts.refused.len() < MAX_RESOURCES {
                let resource: String = resource.chars().take(63).collect();
                facts.refused.push(format!("{name}[{resource}]"));
            }
        }
        good
    };
    facts.capacity = quantities("capacity", &report.capacity);
    facts.allocatable = quantities("allocatable", &report.allocatable);
    facts.refused.sort();
    facts
}

fn is_version(text: &str) -> bool {
    text.len() <= MAX_VERSION
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+-._".contains(&b))
}

fn is_resource_name(name: &str) -> bool {
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-._/".contains(&b);
    !name.is_empty() && name.len() <= MAX_RESOURCE_NAME && name.bytes().all(legal)
}

/// Whether a text is a Kubernetes quantity that is not negative: digits with an optional point, and a binary, decimal
/// or exponent suffix (apimachinery `resource.Quantity`).
fn is_quantity(text: &str) -> bool {
    if text.len() > MAX_QUANTITY {
        return false;
    }
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
        return false;
    }
    const SUFFIXES: [&str; 16] = [
        "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
    ];
    SUFFIXES.contains(&suffix) || is_exponent(suffix)
}

fn is_exponent(suffix: &str) -> bool {
    let Some(digits) = suffix.strip_prefix(['e', 'E']) else {
        return false;
    };
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for good in [
            "0", "1", "1.5", ".5", "5.", "100m", "16Gi", "3k", "1E", "1e3", "2E-3", "+4",
        ] {
            assert!(is_quantity(good), "{good:?}");
        }
        let long = "1".repeat(33);
        for bad in [
            "", ".", "-1", "1.2.3", "1KI", "1 Gi", "Gi", "1e", "1e+", "ten", &long,
        ] {
            assert!(!is_quantity(bad), "{bad:?}");
        }
    }

    #[test]
    fn one_bad_fact_does_not_spoil_the_others() {
        let mut report = ClusterReportSpec {
            kubernetes_version: Some("v1.36.0+k3s1".into()),
            agent_version: "0.1.0\n".into(),
            ..Default::default()
        };
        report.capacity = [("cpu", "4"), ("memory", "lots"), ("replicas", "12")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        report.allocatable = (0..40).map(|n| (format!("gpu-{n:02}"), "1".to_owned())).collect();
        let facts = checked(&report);
        assert_eq!(facts.kubernetes_version.as_deref(), Some("v1.36.0+k3s1"));
        assert_eq!(facts.agent_version, None);
        assert_eq!(facts.capacity.keys().collect::<Vec<_>>(), ["cpu", "replicas"]);
        assert_eq!(facts.allocatable.len(), MAX_RESOURCES);
        assert_eq!(facts.refused.len(), 10);
        assert!(facts.refused.contains(&"capacity[memory]".to_owned()));
        assert!(facts.refused.contains(&"agentVersion".to_owned()));
    }
}
