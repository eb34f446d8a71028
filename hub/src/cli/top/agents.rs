//! When each agent was last heard.

use super::cut;
use crate::cli::{Failure, age, columns, format::Format, hub};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ListParams};
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::{AVAILABLE, Cluster, DEAF},
    condition,
};
use serde_json::{Value, json};
use std::cmp::Reverse;

/// One agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AgentRow {
    pub(super) name: String,
    pub(super) version: Option<String>,
    pub(super) kubernetes: Option<String>,
    pub(super) available: bool,
    /// Whether it is heard, and does not hear.
    pub(super) deaf: bool,
    /// When it renewed its Lease last, by its own clock.
    pub(super) renewed: Option<Timestamp>,
}

/// All of them, and when they were looked at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct AgentsView {
    rows: Vec<AgentRow>,
    now: Timestamp,
}

/// Reads Clusters and the Leases of their agents.
///
/// # Errors
/// The hub refuses a list.
pub(super) async fn read(client: &Client) -> Result<AgentsView, Failure> {
    let failed = |what: &str, error: kube::Error| {
        Failure::new("E-LIST", format!("{what} cannot be listed"))
            .because(error)
            .advise("kubectl auth can-i list with this kubeconfig, to see what its user may")
    };
    let clusters = Api::<Cluster>::all(client.clone());
    let clusters = clusters.list(&ListParams::default()).await;
    let clusters = clusters.map_err(|error| failed("clusters", error))?;
    let renewed = hub::heard(client).await;
    let renewed = renewed.map_err(|error| failed("the Leases of agents", error))?;
    let rows = clusters.items.into_iter().map(|cluster| {
        let name = cluster.name_any();
        let status = cluster.status.unwrap_or_default();
        AgentRow {
            renewed: renewed.get(&name).copied(),
            name,
            available: condition::is_true(&status.conditions, AVAILABLE),
            deaf: condition::is_true(&status.conditions, DEAF),
            version: status.agent_version,
            kubernetes: status.kubernetes_version,
        }
    });
    Ok(AgentsView::of(rows.collect(), SystemClock.now()))
}

impl AgentsView {
    /// Those silent for longest first; one that was never heard is silent for ever.
    pub(super) fn of(mut rows: Vec<AgentRow>, now: Timestamp) -> AgentsView {
        rows.sort_by_cached_key(|row| (Reverse(!row.available), row.renewed, row.name.clone()));
        AgentsView { rows, now }
    }

    /// Seconds since an agent renewed its Lease; clocks may differ, and nothing is in the future.
    fn silent(&self, row: &AgentRow) -> Option<f64> {
        let renewed = row.renewed?;
        Some(self.now.duration_since(renewed).as_secs_f64().max(0.0))
    }

    /// The silence that so many of the agents that were ever heard stay below.
    fn quantile(&self, part: f64) -> Option<f64> {
        let mut all: Vec<f64> = self.rows.iter().filter_map(|row| self.silent(row)).collect();
        all.sort_by(f64::total_cmp);
        let last = all.len().checked_sub(1)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rank among as many as fit into memory, never below 0"
        )]
        let rank = (all.len() as f64 * part).ceil() as usize;
        all.get(rank.saturating_sub(1).min(last)).copied()
    }

    /// For scripts.
    pub(super) fn structured(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "name": row.name,
                "available": row.available,
                "deaf": row.deaf,
                "agentVersion": row.version,
                "kubernetesVersion": row.kubernetes,
                "silentSeconds": self.silent(row),
            })
        });
        let (p50, p99) = (self.quantile(0.5), self.quantile(0.99));
        json!({
            "heartbeat": {"p50Seconds": p50, "p99Seconds": p99},
            "agents": rows.collect::<Vec<_>>(),
        })
    }
}

/// For people.
pub(super) fn draw(view: &AgentsView, format: Format) -> String {
    let (rows, more) = cut(&view.rows, format);
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let row = |row: &AgentRow| {
        let mut cells = vec![
            row.name.clone(),
            row.available.to_string(),
            age::ago(row.renewed, view.now),
            or_none(&row.version),
        ];
        if format == Format::Wide {
            cells.extend([row.deaf.to_string(), or_none(&row.kubernetes)]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
    let mut header = vec!["NAME", "AVAILABLE", "HEARD", "AGENT"];
    if format == Format::Wide {
        header.extend(["DEAF", "KUBERNETES"]);
    }
    let seconds = |time: Option<f64>| time.map_or("-".to_owned(), |time| format!("{time:.1} s"));
    let available = view.rows.iter().filter(|row| row.available).count();
    let all = format!(
        "{} agents, {available} available; last heard p50 {}, p99 {} ago\n",
        view.rows.len(),
        seconds(view.quantile(0.5)),
        seconds(view.quantile(0.99))
    );
    all + &columns::draw(&header, &rows, &[]) + &more
}
