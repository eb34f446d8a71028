//! What `roundhouse join` prints for a cluster is what the chart of the agent takes.

use crate::{charts, container, of_kind, strings};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use roundhouse_e2e::{
    binaries::binaries,
    charts::{NAMESPACE, directory, object, yaml},
    process::Process,
};
use serde_json::{Value, json};
use std::path::Path;

/// What `roundhouse join` prints, of a hub in `home`.
async fn printed(home: &Path, admin: &str, words: &[&str]) -> Result<String> {
    let words = [&["join"], words, &["--kubeconfig", admin]].concat();
    let ended = Process::start(&binaries()?.roundhouse, &words, home)?
        .wait()
        .await?;
    ensure!(ended.status.success(), "{words:?}: {}", ended.stderr);
    Ok(ended.stdout)
}

/// The cluster that an invitation is for, as the agent reads it.
fn invites(kubeconfig: &str) -> Result<String> {
    let read = Kubeconfig::from_yaml(kubeconfig)?;
    let context = read.contexts[0].context.as_ref().context("no context")?;
    let extensions = context.extensions.as_ref().context("no extension")?;
    let cluster = extensions[0].extension["cluster"].as_str();
    Ok(cluster.context("no cluster")?.to_owned())
}

/// The values of a command line of Helm. Of `--set` Helm takes what looks like a number or a boolean for one.
fn values(words: &[&str]) -> Result<Value> {
    let mut values = json!({});
    for pair in words.windows(2) {
        if !pair[0].starts_with("--set") {
            continue;
        }
        let (path, text) = pair[1].split_once('=').context("--set without a value")?;
        ensure!(!text.contains([',', '{', '\\']), "Helm reads {text} as a list");
        let value = match pair[0] {
            "--set-string" => Value::from(text),
            _ => yaml(text).unwrap_or_else(|_| Value::from(text)),
        };
        values[path] = value;
    }
    Ok(values)
}

/// The Secret that the pod of the agent mounts, and the key in it that the agent reads.
fn mounted(objects: &[Value]) -> Result<(String, String)> {
    let container = container(objects)?;
    let file = strings(&container["args"])
        .into_iter()
        .find_map(|argument| argument.strip_prefix("--bootstrap-kubeconfig="));
    let (folder, key) = file.and_then(|file| file.rsplit_once('/')).context("no file")?;
    let pod = of_kind(objects, "Deployment").next().context("no Deployment")?;
    let of = |list: &Value, key: &str, is: &str| {
        let found = list.as_array().into_iter().flatten().find(|one| one[key] == is);
        found
            .cloned()
            .with_context(|| format!("none with {key} {is} in {list}"))
    };
    let mount = of(&container["volumeMounts"], "mountPath", folder)?;
    let name = mount["name"].as_str().unwrap_or_default();
    let volume = of(&pod["spec"]["template"]["spec"]["volumes"], "name", name)?;
    let secret = volume["secret"]["secretName"].as_str().context("no Secret")?;
    Ok((secret.to_owned(), key.to_owned()))
}

#[tokio::test]
async fn the_chart_takes_what_join_prints() -> Result<()> {
    let home = tempfile::tempdir()?;
    let words = [
        "serve",
        "--embedded",
        "--data-dir",
        "hub",
        "--listen",
        "127.0.0.1:0",
    ];
    let mut hub = Process::start(&binaries()?.roundhouse, words, home.path())?;
    let admin = hub.stdout_line(|line| line.contains("kubeconfig")).await?;
    let (chart, _) = &charts()?[1];

    // A name that YAML reads as a number.
    for name in ["east-1", "7"] {
        let command = printed(home.path(), &admin, &[name, "--auto-accept", "-o", "helm"]).await?;
        let words: Vec<&str> = command.split_whitespace().collect();
        let [
            "printf",
            "'invitation:",
            "%s\\n'",
            invitation,
            "|",
            "helm",
            "install",
            release,
            folder,
            "--namespace",
            NAMESPACE,
            "--create-namespace",
            sets @ ..,
            "--values",
            "-",
        ] = &words[..]
        else {
            anyhow::bail!("{command}");
        };
        assert_eq!(
            directory().join("..").join(folder).canonicalize()?,
            chart.directory.canonicalize()?
        );
        let mut given = values(sets)?;
        // What the shell prints is a document of values.
        given["invitation"] = yaml(&format!("invitation: {invitation}\n"))?["invitation"].clone();
        let objects = chart.objects(release, &given).with_context(|| command.clone())?;
        let (secret, key) = mounted(&objects)?;
        let data = &object(&objects, "Secret", &secret)?["data"][key];
        let kubeconfig = STANDARD.decode(data.as_str().context("no invitation")?)?;
        assert_eq!(invites(std::str::from_utf8(&kubeconfig)?)?, name);
        let argument = format!("--cluster={name}");
        assert!(
            strings(&container(&objects)?["args"]).contains(&argument.as_str()),
            "{objects:?}"
        );

        let secret = yaml(&printed(home.path(), &admin, &[name, "-o", "manifest"]).await?)?;
        assert_eq!(secret["metadata"]["namespace"], NAMESPACE);
        let named = json!({"cluster": name, "existingSecret": secret["metadata"]["name"]});
        // It has the name that the chart looks for by itself, too.
        for given in [named, json!({"cluster": name})] {
            let objects = chart.objects(release, &given)?;
            let (mounts, key) = mounted(&objects)?;
            assert_eq!(secret["metadata"]["name"], mounts.as_str());
            assert!(
                object(&objects, "Secret", &mounts).is_err(),
                "Helm would not own it"
            );
            let kubeconfig = secret["stringData"][key].as_str().context("no invitation")?;
            assert_eq!(invites(kubeconfig)?, name);
        }
    }
    Ok(())
}
