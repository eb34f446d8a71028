//! Where the binaries under test are: built by the cargo that runs the tests.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

/// Paths of the binaries.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `roundhouse`
    pub roundhouse: PathBuf,
    /// `roundhouse-agent`
    pub agent: PathBuf,
}

/// The binaries, in the profile and the target directory of the running test; built at most once per process.
///
/// # Errors
/// They do not build.
pub fn binaries() -> Result<Binaries> {
    static BUILT: OnceLock<Result<Binaries, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

fn build() -> Result<Binaries> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // A test among the targets, and the whole workspace: so features are unified as `cargo test --workspace` does, which
    // has built exactly these already. Without them the binaries would be linked a second time, with other features.
    command
        .args(["build", "--workspace", "--message-format=json"])
        .args([
            "--bin",
            "roundhouse",
            "--bin",
            "roundhouse-agent",
            "--test",
            "demo",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null());
    // What cargo tells a test of its package makes ring's build script run again, and again at the next `cargo test`.
    for (name, _) in std::env::vars_os() {
        let is_about_package = |name: &str| {
            ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_EXE_"]
                .iter()
                .any(|prefix| name.starts_with(prefix))
        };
        if name.to_str().is_some_and(is_about_package) {
            command.env_remove(name);
        }
    }
    if let Some(place) = Place::of(&std::env::current_exe()?) {
        command.args(["--profile", &place.profile]);
        if let Some(directory) = place.target_directory {
            command.arg("--target-dir").arg(directory);
        }
    }
    let output = command.output().context("cargo does not start")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("the binaries do not build:\n{stderr}\n{}", rendered(&stdout));
    }
    Ok(Binaries {
        roundhouse: executable(&stdout, "roundhouse")?,
        agent: executable(&stdout, "roundhouse-agent")?,
    })
}

fn messages(stdout: &str) -> impl Iterator<Item = Value> {
    stdout.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// What the compiler had to say.
fn rendered(stdout: &str) -> String {
    let texts = messages(stdout).filter_map(|m| m["message"]["rendered"].as_str().map(str::to_owned));
    texts.collect()
}

fn executable(stdout: &str, name: &str) -> Result<PathBuf> {
    messages(stdout)
        .filter(|m| {
            m["target"]["name"] == name && m["target"]["kind"][0] == "bin" && m["profile"]["test"] == false
        })
        .find_map(|m| m["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo built no binary {name}"))
}

/// What the path of a test executable, `<target directory>/<profile>/deps/<test>-<hash>`, says of its build.
struct Place {
    profile: String,
    /// Absent where a target triple is in between: then cargo's settings decide.
    target_directory: Option<PathBuf>,
}

impl Place {
    fn of(executable: &Path) -> Option<Place> {
        let deps = executable.parent().filter(|parent| parent.ends_with("deps"))?;
        let profile_directory = deps.parent()?;
        let profile = match profile_directory.file_name()?.to_str()? {
            "debug" => "dev",
            other => other,
        };
        let target = profile_directory.parent()?;
        // Cargo leaves this file in the target directory itself.
        let is_target = target.join(".rustc_info.json").exists();
        Some(Place {
            profile: profile.to_owned(),
            target_directory: is_target.then(|| target.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_test_tells_the_profile() {
        let profile = |path: &str| Place::of(Path::new(path)).map(|place| place.profile);
        assert_eq!(profile("/t/debug/deps/demo-1a").as_deref(), Some("dev"));
        assert_eq!(profile("/t/release/deps/demo-1a").as_deref(), Some("release"));
        assert_eq!(profile("/usr/bin/demo"), None);
        let own = Place::of(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(own.profile == "release", !cfg!(debug_assertions));
    }

    #[test]
    fn a_binary_is_not_its_unit_tests() {
        let line = |test: bool, path: &str| {
            format!(
                r#"{{"target":{{"name":"roundhouse","kind":["bin"]}},"profile":{{"test":{test}}},"executable":"{path}"}}"#
            )
        };
        let text = format!(
            "{}\n{}",
            line(true, "/deps/roundhouse-1"),
            line(false, "/roundhouse")
        );
        assert_eq!(executable(&text, "roundhouse").unwrap(), Path::new("/roundhouse"));
        assert!(executable(&text, "roundhouse-agent").is_err());
    }
}
