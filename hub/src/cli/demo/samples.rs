//! The samples, as they are in `e2e/samples`.

use crate::cli::Failure;
use kube::{Api, Client, ResourceExt, api::PostParams};
use roundhouse_api::application::Application;

/// The application whose delivery is judged.
pub(super) const SEED: &str = include_str!("../../../../e2e/samples/01-seed.yaml");
/// What the interactive demo applies next.
pub(super) const OTHERS: [&str; 2] = [
    include_str!("../../../../e2e/samples/02-app.yaml"),
    include_str!("../../../../e2e/samples/03-regions.yaml"),
];

/// Reads a sample.
pub(super) fn read(yaml: &str) -> Result<Application, Failure> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(yaml, options)
        .map_err(|error| Failure::new("E-SAMPLE", "a sample cannot be read").because(error))
}

/// Creates a sample on the hub.
pub(super) async fn create(client: &Client, application: &Application) -> Result<(), Failure> {
    let namespace = application.namespace().unwrap_or_default();
    let api: Api<Application> = Api::namespaced(client.clone(), &namespace);
    let created = api.create(&PostParams::default(), application).await;
    created.map(drop).map_err(|error| {
        let name = application.name_any();
        Failure::new(
            "E-SAMPLE",
            format!("application {namespace}/{name} was not created"),
        )
        .because(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::application::validate;

    /// Not applied by the demo.
    const TRAITS: &str = include_str!("../../../../e2e/samples/04-traits.yaml");

    #[test]
    fn every_sample_is_valid() {
        for yaml in [SEED, TRAITS].iter().chain(&OTHERS) {
            let application = read(yaml).unwrap();
            let spec = serde_json::to_value(&application.spec).unwrap();
            let valid = validate(&spec).unwrap_or_else(|violations| panic!("{violations:?}"));
            assert!(!valid.steps.is_empty());
        }
    }
}
