//! The definitions in `crds/` are those of the binaries.

use crate::charts;
use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use roundhouse_api::crds;
use roundhouse_e2e::{
    binaries::binaries,
    charts::{files, generated, yaml},
};
use std::{collections::BTreeMap, process::Command};

/// What `roundhouse crds` prints, by name of the definition, byte by byte.
fn printed() -> Result<BTreeMap<String, String>> {
    let output = Command::new(&binaries()?.roundhouse).arg("crds").output()?;
    ensure!(output.status.success(), "roundhouse crds: {output:?}");
    let text = String::from_utf8(output.stdout)?;
    let documents = text.split("---\n").filter(|document| !document.is_empty());
    let named = documents.map(|document| {
        let name = yaml(document)?["metadata"]["name"].as_str().map(str::to_owned);
        Ok((name.context("a definition has no name")?, document.to_owned()))
    });
    named.collect()
}

#[test]
fn definitions_are_byte_by_byte_those_that_the_binary_prints() -> Result<()> {
    let printed = printed()?;
    let names =
        |definitions: Vec<_>| -> Vec<String> { definitions.iter().map(ResourceExt::name_any).collect() };
    for ((chart, _), expected) in charts()?.iter().zip([names(crds::hub()), names(crds::member())]) {
        let directory = chart.directory.join("crds");
        for name in &expected {
            let text = printed
                .get(name)
                .with_context(|| format!("{name} is not printed"))?;
            generated::file(&directory.join(format!("{name}.yaml")), text)?;
        }
        let there = files(&directory)?;
        let there: Vec<_> = there
            .iter()
            .filter_map(|path| path.file_stem()?.to_str())
            .collect();
        let mut sorted = expected.clone();
        sorted.sort();
        assert_eq!(there, sorted, "{}", directory.display());
    }
    assert_eq!(printed.len(), crds::all().len());
    Ok(())
}
