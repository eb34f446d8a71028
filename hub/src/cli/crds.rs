//! `roundhouse crds`

use super::{Failure, terminal};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Print the CustomResourceDefinitions of hub and members
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Output format: YAML documents, or one JSON List
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let text = match args.output {
        Format::Yaml => yaml(&definitions()?)?,
        Format::Json => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions()?});
            serde_json::to_string_pretty(&list).map_err(not_printable)? + "\n"
        }
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn definitions() -> Result<Vec<Value>, Failure> {
    let values = roundhouse_api::crds::all().into_iter().map(serde_json::to_value);
    values.collect::<Result<_, _>>().map_err(not_printable)
}

/// Documents without folded strings: a description is one line, as kubectl prints it.
fn yaml(documents: &[Value]) -> Result<String, Failure> {
    let options = serde_saphyr::ser_options! { min_fold_chars: usize::MAX, prefer_block_scalars: false };
    serde_saphyr::to_string_multiple_with_options(documents, options).map_err(not_printable)
}

fn not_printable(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::new("E-CRDS", "the definitions could not be printed").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yaml_reads_back_as_the_definitions() {
        let definitions = definitions().unwrap();
        let text = yaml(&definitions).unwrap();
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let back: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
        assert_eq!(back, definitions);
        let names: Vec<&str> = back
            .iter()
            .filter_map(|crd| crd["metadata"]["name"].as_str())
            .collect();
        for name in [
            "applications.core.oam.dev",
            "applicationrevisions.core.oam.dev",
            "componentdefinitions.core.oam.dev",
            "clusters.roundhouse.dev",
            "clusterreports.roundhouse.dev",
            "placements.roundhouse.dev",
            "decisions.roundhouse.dev",
            "bundles.roundhouse.dev",
            "appliedbundles.roundhouse.dev",
        ] {
            assert!(names.contains(&name), "{name} is missing from {names:?}");
        }
    }
}
