//! Reading k8s-openapi's generated Rust, whose layout is regular enough for line-wise parsing.

use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// One generated struct.
pub(crate) struct Struct {
    pub(crate) name: String,
    /// `apiVersion` and `kind`, for a resource.
    pub(crate) gvk: Option<(String, String)>,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) json: String,
    /// How k8s-openapi merges it, for a list that it merges.
    pub(crate) list: Option<ListKind>,
    /// Path of the struct it holds, directly or as list element or map value.
    pub(crate) child: Option<String>,
    pub(crate) container: Container,
    /// Whether the type says it is always there.
    pub(crate) required: bool,
    /// Whether it is a map that is one thing (`x-kubernetes-map-type: atomic`).
    pub(crate) atomic_map: bool,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Container {
    Direct,
    List,
    Map,
}

/// A list that merges: of objects by the JSON name of a key, or of scalars.
pub(crate) enum ListKind {
    Map(String),
    Set,
}

/// Newest first; a type that several versions have is taken from the first. 1.36 is what Roundhouse is built against,
/// the older ones add kinds that a member cluster may still serve.
const VERSIONS: [&str; 4] = ["v1_36", "v1_35", "v1_34", "v1_33"];

/// All structs by path (`crate::api::core::v1::PodSpec`).
pub(crate) fn read() -> Result<BTreeMap<String, Struct>, Box<dyn Error>> {
    let mut structs = BTreeMap::new();
    let sources = sources()?;
    for version in VERSIONS {
        let mut folders = vec![(sources.join(version), "crate".to_owned())];
        while let Some((folder, module)) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let stem = path
                    .file_stem()
                    .and_then(|stem| stem.to_str())
                    .unwrap_or_default();
                if path.is_dir() {
                    let module = format!("{module}::{stem}");
                    folders.push((path, module));
                } else if let Some(parsed) = parse(&fs::read_to_string(&path)?) {
                    structs
                        .entry(format!("{module}::{}", parsed.name))
                        .or_insert(parsed);
                }
            }
        }
    }
    Ok(structs)
}

/// The sources of k8s-openapi in cargo's own copy.
fn sources() -> Result<PathBuf, Box<dyn Error>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let manifest = packages
        .filter(|package| package["name"] == "k8s-openapi")
        .find_map(|package| package["manifest_path"].as_str())
        .ok_or("k8s-openapi is not among the workspace's dependencies")?;
    Ok(Path::new(manifest).with_file_name("src"))
}

fn parse(text: &str) -> Option<Struct> {
    let (_, body) = text.split_once("\npub struct ")?;
    let (head, body) = body.split_once(" {\n")?;
    // Generic structs (`List<T>`) and newtypes (`Time(...)`) hold nothing to merge by.
    let name = Some(head)
        .filter(|head| !head.contains(['<', '(', ';']))?
        .to_owned();
    let (body, _) = body.split_once("\n}")?;

    let json: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.trim().strip_suffix(',')?.split_once(" => Field::Key_"))
        .map(|(json, rust)| (rust, json.trim_matches('"')))
        .collect();
    let json = |rust: &str| (*json.get(rust).unwrap_or(&rust)).to_owned();
    let lists = merged_lists(text);
    let fields = body
        .lines()
        .filter_map(|line| line.strip_prefix("    pub ")?.strip_suffix(',')?.split_once(": "))
        .map(|(rust, kind)| {
            let rust = rust.trim_start_matches("r#");
            let list = lists.get(rust).map(|key| match key {
                Some(key) => ListKind::Map(key_json(key)),
                None => ListKind::Set,
            });
            let container = match kind {
                kind if kind.contains("Vec<") => Container::List,
                kind if kind.contains("BTreeMap<") => Container::Map,
                _ => Container::Direct,
            };
            let child = kind
                .find("crate::")
                .and_then(|at| kind[at..].split('>').next())
                .map(str::to_owned);
            Field {
                json: json(rust),
                list,
                child,
                container,
                required: !kind.starts_with("Option<"),
                atomic_map: text.contains(&format!("map::atomic(&mut self.{rust},")),
            }
        })
        .collect();
    let constant = |name: &str| {
        let (_, rest) = text.split_once(&format!("const {name}: &'static str = \""))?;
        rest.split('"').next().map(str::to_owned)
    };
    let gvk = constant("API_VERSION").zip(constant("KIND"));
    Some(Struct { name, gvk, fields })
}

/// The lists the merge code does not replace, with the first field of their key; `None` for a set.
fn merged_lists(text: &str) -> BTreeMap<&str, Option<&str>> {
    let mut lists = BTreeMap::new();
    for call in text.split("merge_strategies::list::").skip(1) {
        let call = call.split(';').next().unwrap_or_default();
        let Some(name) = call
            .split("&mut self.")
            .nth(1)
            .and_then(|rest| rest.split(',').next())
        else {
            continue;
        };
        if call.starts_with("set") {
            lists.insert(name.trim(), None);
        } else if call.starts_with("map") {
            let key = call
                .split("lhs.")
                .nth(1)
                .and_then(|rest| rest.split(['(', ' ', '.']).next());
            lists.insert(name.trim(), key);
        }
    }
    lists
}

/// A key's JSON name from its Rust name: `container_port` is `containerPort`, `type_` is `type`.
fn key_json(rust: &str) -> String {
    let mut words = rust.trim_end_matches('_').split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |json, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        json + &head.to_uppercase() + tail
    })
}
