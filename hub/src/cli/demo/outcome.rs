//! What the demo prints on stdout: the delivered application, and where to look.

use super::{
    access::Access,
    tree::{Style, draw},
    view::View,
};
use serde_json::{Value, json};
use std::{ffi::OsStr, fmt::Write as _, path::Path};

/// Resumes a suspended workflow (the seed's control: the user sets `suspend` to false).
const RESUME: &str = r#"kubectl patch application checkout --subresource status --type merge -p '{"status":{"workflow":{"suspend":false}}}'"#;

/// The last line of `-o json`.
pub(super) fn as_json(view: &View, access: &Access) -> Value {
    let (placed, unplaced) = view.placed();
    let clusters: Vec<Value> = (view.clusters().into_iter())
        .map(|(name, (replicas, ready))| json!({"name": name, "replicas": replicas, "ready": ready}))
        .collect();
    json!({
        "application": view.name,
        "placed": placed,
        "unplaced": unplaced,
        "clusters": clusters,
        "hubKubeconfig": access.hub,
        "memberKubeconfigs": access.members,
    })
}

/// The delivered application as text.
pub(super) fn as_text(view: &View, seconds: f64, style: Style) -> String {
    let clusters = view.clusters();
    let ready: u32 = clusters.values().map(|(_, ready)| ready).sum();
    let (placed, unplaced) = view.placed();
    let mut text = draw(view, style);
    let _ = writeln!(
        text,
        "\n{ready} of {placed} placed replicas are ready in {} clusters, {unplaced} unplaced; {seconds:.1} s after the start",
        view.holders()
    );
    text
}

/// How a shell comes to know this program as `roundhouse`, if the words of its `PATH` do not lead to it already: after
/// `cargo run` they do not.
pub(super) fn on_path(program: &Path, path: Option<&OsStr>) -> Option<String> {
    let directory = program.parent()?;
    let is_known = |path| {
        let mut known = std::env::split_paths(path).map(|directory| directory.join("roundhouse"));
        // The first that is there is the one that is started.
        known.find(|known| known.is_file()).as_deref() == Some(program)
    };
    (!path.is_some_and(is_known)).then(|| format!("export PATH=\"{}:$PATH\"", directory.display()))
}

/// Commands to look around with, ready to be copied. `program` is what makes this program known, as [`on_path`] says.
pub(super) fn where_to_look(access: &Access, program: Option<String>) -> String {
    let hub = access.hub.display();
    let mut text = format!(
        "\nlook around while this runs (Ctrl-C ends it); the hub is at {}\n",
        access.hub_url
    );
    let mut entry = |comment: &str, commands: &[String]| {
        let _ = writeln!(text, "  # {comment}");
        for command in commands {
            let _ = writeln!(text, "  {command}");
        }
    };
    if let Some(program) = program {
        entry("this program, where no other shell knows it yet", &[program]);
    }
    entry(
        "what was decided, and what became of it",
        &[
            format!("export KUBECONFIG={hub}"),
            "kubectl get applications,decisions,bundles,clusters -A".to_owned(),
        ],
    );
    entry(
        "another image makes a revision that reaches every cluster",
        &["kubectl edit application web".to_owned()],
    );
    entry(
        "where an application stands, live, and which revisions it had; and back to the one before",
        &[
            "roundhouse status web".to_owned(),
            "roundhouse watch web".to_owned(),
            "roundhouse history web".to_owned(),
            "roundhouse rollback web".to_owned(),
        ],
    );
    entry(
        "go on after the suspended step of 03-regions; or by the field that the verb writes",
        &["roundhouse resume checkout".to_owned(), RESUME.to_owned()],
    );
    if let Some((name, path)) = access.members.iter().next() {
        entry(
            &format!("what runs in {name}; the agent undoes changes to what it applied"),
            &[
                format!("export MEMBER={}", path.display()),
                "kubectl --kubeconfig $MEMBER get deployments,configmaps,services".to_owned(),
                "kubectl --kubeconfig $MEMBER scale deployment web --replicas 9".to_owned(),
                "kubectl --kubeconfig $MEMBER annotate deployment web team=payments".to_owned(),
                format!("roundhouse diff web --cluster {name} --member-kubeconfig $MEMBER"),
            ],
        );
    }
    let members = access.members.len();
    if members > 1
        && let Some(directory) = access.hub.parent()
    {
        let _ = writeln!(
            text,
            "  # the other members: {}/<cluster>.kubeconfig",
            directory.display()
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_shell_does_not_know_is_made_known() {
        let home = tempfile::tempdir().unwrap();
        let of = |name: &str| home.path().join(name);
        for name in ["target", "bin", "empty"] {
            std::fs::create_dir(of(name)).unwrap();
        }
        for name in ["target", "bin"] {
            std::fs::write(of(name).join("roundhouse"), "").unwrap();
        }
        let program = of("target").join("roundhouse");
        let export = format!("export PATH=\"{}:$PATH\"", of("target").display());
        let told = |words: &[&str]| {
            let path = std::env::join_paths(words.iter().map(|name| of(name))).unwrap();
            on_path(&program, Some(&path))
        };
        assert_eq!(told(&["empty", "target", "bin"]), None);
        assert_eq!(
            told(&["bin", "target"]),
            Some(export.clone()),
            "another one is started"
        );
        assert_eq!(told(&["empty"]), Some(export.clone()));
        assert_eq!(on_path(&program, None), Some(export));
    }
}
