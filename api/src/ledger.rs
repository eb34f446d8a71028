//! `AppliedBundle`: the agent's ledger in the member, written before the member is touched.

use crate::bundle::{DeleteOption, ServiceAccountRef};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The ledger of one bundle, named `<hub id>.<bundle>`. It has no spec and no status subresource, so that it is created
/// and changed in one write.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "roundhouse.dev",
    version = "v1alpha1",
    kind = "AppliedBundle",
    derive = "PartialEq",
    category = "roundhouse",
    printcolumn = r#"{"name":"Bundle","type":"string","jsonPath":".spec.bundle"}"#,
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".spec.state"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct AppliedBundleSpec {
    /// The hub.
    pub hub_id: String,
    /// Name of the Bundle on the hub.
    pub bundle: String,
    /// Uid of the Bundle on the hub.
    pub bundle_uid: String,
    /// Resource version of that Bundle when it was first obeyed at this epoch. One of that name with another uid and an earlier
    /// version went before it, whoever shows it: Kubernetes orders the resource versions of a kind as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bundle_version: Option<String>,
    /// Generation of the Bundle that is being, or was, applied.
    pub generation: i64,
    /// Highest epoch obeyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,
    /// The application revision, if the Bundle names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Whether the Bundle was written by dispatch (it had an `applicationRef`): then only `deletion` lets its objects go.
    #[serde(default)]
    pub dispatched: bool,
    /// On whose behalf the objects were last written, and are removed if the Bundle vanishes meanwhile; absent: on the
    /// agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<ServiceAccountRef>,
    /// What the Bundle said of objects that go, for a removal that goes on when the Bundle is there no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,
    /// Where the ledger stands.
    pub state: LedgerState,
    /// Union of what is intended and what was applied, until removals are confirmed.
    #[serde(default)]
    pub objects: Vec<LedgerEntry>,
}

/// Where a ledger stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerState {
    /// Intentions are written, the member may be half-way.
    #[default]
    Applying,
    /// Everything intended was tried, outcomes are written.
    Applied,
    /// The Bundle vanished without evidence for deletion: the objects are held.
    Orphaned,
}

/// One object of a ledger.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerEntry {
    /// API group, empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// API version last used.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Uid of the live object, once known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Desired hash of the manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Generation of the live object that our last write produced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_generation: Option<i64>,
    /// Component revision of the manifest that was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Last applied manifest where it cannot live in an annotation, without long texts; for Secrets only its keys. Where a
    /// ledger would weigh more than 1 MiB, the largest copies are left out: what the next content drops from these
    /// objects then stays on them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::any_value")]
    pub last_applied: Option<serde_json::Value>,
    /// Generation of the Application that was applied (annotation `app.oam.dev/generation`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_generation: Option<String>,
    /// Values that were kept when this content was applied (apply-once rules with `onUpdate`), by JSON pointer into the
    /// manifest: repairing drift restores these, not what the manifest says. Never those of a Secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::any_object")]
    pub kept: BTreeMap<String, serde_json::Value>,
    /// What an object that came to a bad end said, because the object itself may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The object of this uid is gone, but a request to make one was not answered and may still arrive: it is looked for, and
    /// removed, by an agent that is started meanwhile, too. The field manager that it is applied as; empty for the agent's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unanswered: Option<String>,
    /// What became of it.
    pub outcome: LedgerOutcome,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LedgerOutcome {
    /// Intended, not yet tried.
    #[default]
    Intended,
    /// Applied.
    Applied,
    /// It ran to its end: a Job, or an object that its rules call complete.
    Completed,
    /// Refused or failed; the object, if there is one, is not ours.
    Failed,
    /// Only looked at (`ReadOnly`, `CreateOnly` of an object that somebody else made): it is never removed.
    Observed,
    /// To be removed, not yet confirmed.
    Removing,
    /// To be removed under apply-once, but nobody has confirmed that: it goes once it asks for no replicas. If its Bundle
    /// vanishes meanwhile it is held.
    Unconfirmed,
}
