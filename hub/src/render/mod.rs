//! Components and their traits -> manifests; pure.
//!
//! | step | function |
//! | --- | --- |
//! | components to manifests, their traits merged into the workload | [`render`] |
//! | components that differ for the clusters of a step | [`variants()`] |
//! | what is recorded of a revision, and back | [`split_secrets`], [`to_config_map_data`], [`from_config_map_data`] |
//! | objects of steps | [`step_object`], [`read_object`] |
//! | which of them are divided | [`workloads`], [`component_workloads`], [`replica_count`], [`ReplicaPaths`] |
//! | one cluster's share | [`set_share`] |
//! | bookkeeping of a revision | [`component_hash`], [`stamp`] |

mod container;
mod job;
mod metadata;
mod record;
mod replica_paths;
mod replicas;
mod stamps;
mod traits;
mod variants;

pub use record::{MAX_PART_BYTES, RecordError, from_config_map_data, split_secrets, to_config_map_data};
pub use replica_paths::ReplicaPaths;
pub use replicas::{
    JobShare, component_workloads, count_paths, is_divided_once, replica_count, replicas_of, set_share,
    workload_ref, workloads,
};
pub use stamps::{Stamps, component_hash, stamp};
pub use variants::{Variants, component_hashes, part_variants, variants, with_variants};

use roundhouse_api::{
    application::{ComponentKind, ValidApplication, ValidComponent},
    names::{annotation, label},
};
use serde_json::Value;

/// What an application renders to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rendered {
    /// One entry per component, in order.
    pub components: Vec<RenderedComponent>,
    /// Where the count of kinds lives that are not built in; no part of what is recorded.
    pub replica_paths: ReplicaPaths,
}

/// What a component renders to, without stamps and before division.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RenderedComponent {
    /// Component name.
    pub name: String,
    /// Its manifests; one that is no object with kind and name is kept as it is and fails alone at the agent.
    pub manifests: Vec<Value>,
}

/// Renders every component: manifests with the labels `app.oam.dev/{name,namespace,component,resourceType}` and
/// `workload.oam.dev/type`, in the application's namespace where they name none. The labels are on the objects
/// themselves only: in a pod template or a selector they would restart pods or lose them.
pub fn render(namespace: &str, app: &str, application: &ValidApplication) -> Rendered {
    render_components(namespace, app, &application.components)
}

/// Renders these components as those of the application.
fn render_components(namespace: &str, app: &str, components: &[ValidComponent]) -> Rendered {
    let components = components.iter().map(|component| {
        let name = &component.name;
        let mut manifests = match &component.kind {
            ComponentKind::Objects(properties) => properties.objects.clone(),
            ComponentKind::Webservice(properties) => container::webservice(name, properties),
            ComponentKind::Worker(properties) => vec![container::worker(name, properties)],
            ComponentKind::Task(properties) => vec![job::task(name, properties)],
            ComponentKind::CronTask(properties) => vec![job::cron_task(name, properties)],
        };
        traits::apply(name, &component.traits, &mut manifests);
        for manifest in &mut manifests {
            let origin = metadata::Origin {
                namespace,
                app,
                component: name,
                component_type: component.kind.type_name(),
            };
            metadata::complete(manifest, origin);
        }
        RenderedComponent {
            name: name.clone(),
            manifests,
        }
    });
    Rendered {
        components: components.collect(),
        ..Rendered::default()
    }
}

/// The object of a step as clusters get it: in the application's namespace where it names none, with the application's and
/// the step's labels.
pub fn step_object(namespace: &str, app: &str, step: &str, mut manifest: Value) -> Value {
    let labels = [
        (label::APP_NAME, app),
        (label::APP_NAMESPACE, namespace),
        (label::STEP, step),
    ];
    metadata::add(&mut manifest, namespace, &labels);
    manifest
}

/// What names an object that is only read, for one run: in another run it is another content, so that no earlier report
/// is about it.
pub fn read_object(namespace: &str, run: &str, mut manifest: Value) -> Value {
    metadata::add(&mut manifest, namespace, &[]);
    if let Some(map) = manifest.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata::insert(map, "annotations", &[(annotation::RUN, run)]);
    }
    manifest
}

#[cfg(test)]
mod tests;
