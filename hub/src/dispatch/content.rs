//! Which manifests a cluster gets: divided, overridden, stamped, in parts, hashed.

use super::overrides::{self, Applied, Fault};
use crate::{
    placement::Workload,
    render::{self, JobShare, Rendered, Stamps, Variants},
};
use roundhouse_api::{
    bundle::{MAX_BUNDLE_BYTES, MAX_BUNDLE_OBJECTS, MAX_MANIFEST_BYTES},
    decision::WorkloadRef,
    hash,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// At most this many parts: more cannot be what somebody wants to run as one application.
pub(crate) const MAX_PARTS: usize = 64;

/// What a revision delivers, before division.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// Application namespace.
    pub namespace: String,
    /// Application name.
    pub application: String,
    /// The ApplicationRevision.
    pub revision: String,
    /// Generation of the Application that the objects are stamped with.
    pub generation: i64,
    /// Component name → component revision.
    pub components: BTreeMap<String, String>,
    /// The manifests.
    pub rendered: Rendered,
    /// What the clusters of a step get instead of them, by step.
    pub variants: Variants,
}

impl Content {
    /// What the clusters of a step get.
    pub fn of(&self, step: &str) -> &Rendered {
        self.variants.get(step).unwrap_or(&self.rendered)
    }
}

/// The manifests of one cluster, in parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Divided {
    /// At least one part, but for a Bundle that has no manifests.
    pub parts: Vec<Part>,
}

/// The manifests of one Bundle.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// In the order of the revision.
    pub manifests: Vec<Value>,
    /// [`hash::of_manifests`].
    pub hash: String,
}

/// Why a cluster cannot get its manifests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// One manifest is too large.
    #[error(
        "application {application}: manifest {manifest} weighs {bytes} bytes, more than {MAX_MANIFEST_BYTES}: make it smaller or split it"
    )]
    Manifest {
        /// `<namespace>/<name>`.
        application: String,
        /// Kind, namespace and name.
        manifest: String,
        /// Bytes of canonical JSON.
        bytes: usize,
    },
    /// An override of the placement cannot be applied.
    #[error(transparent)]
    Override(#[from] Fault),
    /// What a step placed before is not known any more.
    #[error(
        "application {application}: the Decision of step {step} is lost, which has placed on it, and the step's placement does not say now what it is to have: the cluster keeps what it has until the run comes to the step; let the placement choose the cluster until then, or restore the Decision"
    )]
    Lost {
        /// `<namespace>/<name>`.
        application: String,
        /// The step.
        step: String,
    },
    /// All of them together are too many.
    #[error(
        "application {application}: its manifests for one cluster need more than {MAX_PARTS} bundles of {MAX_BUNDLE_BYTES} bytes or {MAX_BUNDLE_OBJECTS} objects: split the application"
    )]
    Parts {
        /// `<namespace>/<name>`.
        application: String,
    },
}

/// Replicas before, replicas, and the whole, by workload: clusters with the same counts get the same manifests.
type Counts = Vec<Option<(u32, u32, u32)>>;

/// The variant, the counts and the overrides.
type Key<'a> = (Option<&'a str>, Counts, Vec<String>);

/// A component as a step gives it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    /// The revision that it is of.
    pub(super) content: &'a Content,
    /// Its name.
    pub(super) component: &'a str,
    /// The step, whose clusters may get a variant.
    pub(super) step: &'a str,
    /// What is changed in its objects.
    pub(super) overrides: &'a [Arc<Applied>],
}

/// Divides a content for clusters; clusters with the same counts and the same overrides share the work.
#[derive(Debug)]
pub struct Divider<'a> {
    content: &'a Content,
    done: HashMap<Key<'a>, Result<Arc<Divided>, Refusal>>,
    workloads: Vec<Workload>,
}

impl<'a> Divider<'a> {
    /// Starts with nothing divided.
    pub fn new(content: &'a Content) -> Divider<'a> {
        Divider {
            content,
            done: HashMap::new(),
            workloads: render::workloads(&content.rendered),
        }
    }

    /// The manifests of a step's clusters with these replicas, changed by these overrides. A workload without an entry keeps the count it was
    /// rendered with.
    ///
    /// # Errors
    /// [`Refusal`] names the manifest, the override or the limit.
    pub fn divide(
        &mut self,
        step: &str,
        replicas: &BTreeMap<WorkloadRef, JobShare>,
        overrides: &[Arc<Applied>],
    ) -> Result<Arc<Divided>, Refusal> {
        // Where a cluster stands among the others matters to Jobs only.
        let count = |workload: &Workload| {
            let share = replicas.get(&workload.key)?;
            let before = if workload.once { share.before } else { 0 };
            Some((before, share.replicas, share.of_total))
        };
        let counts: Vec<_> = self.workloads.iter().map(count).collect();
        let variant = self.content.variants.get_key_value(step);
        let key = (
            variant.map(|(step, _)| step.as_str()),
            counts,
            overrides.iter().map(|applied| applied.hash.clone()).collect(),
        );
        if let Some(done) = self.done.get(&key) {
            return done.clone();
        }
        let components = &self.content.of(step).components;
        let pieces: Vec<Piece<'_>> = components
            .iter()
            .map(|component| Piece {
                content: self.content,
                component: &component.name,
                step,
                overrides,
            })
            .collect();
        let divided = match pieces.is_empty() {
            true => Ok(Divided::nothing()),
            false => divide(&pieces, replicas),
        };
        let divided = divided.map(Arc::new);
        self.done.insert(key, divided.clone());
        divided
    }
}

impl Divided {
    /// Whether there is no manifest in any part.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.manifests.is_empty())
    }

    /// What all parts are together, for each of them to say so; `None` where there is but one.
    pub(super) fn parts_hash(&self) -> Option<String> {
        let hashes: Vec<&str> = self.parts.iter().map(|part| part.hash.as_str()).collect();
        (hashes.len() > 1).then(|| hash::of_value(&json!(hashes)))
    }

    fn nothing() -> Divided {
        Divided {
            parts: vec![Part {
                hash: hash::of_manifests(&[]),
                manifests: Vec::new(),
            }],
        }
    }
}

/// The manifests of these pieces, in order.
pub(super) fn divide(
    pieces: &[Piece<'_>],
    replicas: &BTreeMap<WorkloadRef, JobShare>,
) -> Result<Divided, Refusal> {
    let application = || {
        let content = pieces.first().map(|piece| piece.content);
        content.map_or_else(String::new, |content| {
            format!("{}/{}", content.namespace, content.application)
        })
    };
    let mut parts = Vec::new();
    let (mut manifests, mut weight) = (Vec::new(), 0);
    for piece in pieces {
        let (content, overrides) = (piece.content, piece.overrides);
        let components = &content.of(piece.step).components;
        let Some(component) = components
            .iter()
            .find(|component| component.name == piece.component)
        else {
            continue;
        };
        let stamps = Stamps {
            generation: content.generation,
            app_revision: content.revision.clone(),
            component_revision: content
                .components
                .get(&component.name)
                .cloned()
                .unwrap_or_default(),
        };
        for manifest in &component.manifests {
            let mut manifest = manifest.clone();
            if let Some(workload) = render::workload_ref(&manifest)
                && let Some(share) = replicas.get(&workload)
            {
                // A Job without a share is left out: a Job of parallelism 0 would never finish.
                if share.replicas == 0 && render::is_divided_once(&manifest) {
                    continue;
                }
                render::set_share(&mut manifest, share, &content.rendered.replica_paths);
            }
            overrides::apply(&mut manifest, overrides, &content.rendered.replica_paths)?;
            render::stamp(&mut manifest, &stamps);
            let bytes = hash::weight(&manifest);
            if bytes > MAX_MANIFEST_BYTES {
                return Err(Refusal::Manifest {
                    application: application(),
                    manifest: title(&manifest),
                    bytes,
                });
            }
            let full = weight + bytes > MAX_BUNDLE_BYTES || manifests.len() >= MAX_BUNDLE_OBJECTS;
            if full && !manifests.is_empty() {
                parts.push(std::mem::take(&mut manifests));
                weight = 0;
            }
            weight += bytes;
            manifests.push(manifest);
        }
    }
    parts.push(manifests);
    if parts.len() > MAX_PARTS {
        return Err(Refusal::Parts {
            application: application(),
        });
    }
    let parts = parts.into_iter().map(|manifests| Part {
        hash: hash::of_manifests(&manifests),
        manifests,
    });
    Ok(Divided {
        parts: parts.collect(),
    })
}

/// Kind, namespace and name of a manifest, for people.
pub(super) fn title(manifest: &Value) -> String {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str);
    let kind = text("/kind").unwrap_or("(no kind)");
    let name = text("/metadata/name").unwrap_or("(no name)");
    match text("/metadata/namespace") {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}
