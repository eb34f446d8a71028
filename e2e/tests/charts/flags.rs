//! The binaries take the arguments that the charts give them.

use crate::{Case, cases, container, strings};
use anyhow::{Context, Result, bail, ensure};
use roundhouse_e2e::binaries::binaries;
use std::{path::PathBuf, process::Command};

fn binary(case: &Case) -> Result<PathBuf> {
    let binaries = binaries()?;
    Ok(match case.name.split(' ').next() {
        Some("roundhouse-hub") => binaries.roundhouse,
        Some("roundhouse-agent") => binaries.agent,
        _ => bail!("{} is of no chart", case.name),
    })
}

/// What the binary says to arguments with `--help` behind them: it reads arguments and their values until it comes to that.
fn told(binary: &PathBuf, arguments: &[&str]) -> Result<Result<(), String>> {
    let output = Command::new(binary)
        .args(arguments)
        .arg("--help")
        .env("NO_COLOR", "1")
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(stderr)
    })
}

#[test]
fn the_binaries_know_every_argument_and_take_its_value() -> Result<()> {
    for case in cases()? {
        let binary = binary(&case)?;
        let arguments = strings(&container(&case.objects)?["args"]);
        ensure!(arguments.len() > 5, "{}: {arguments:?}", case.name);
        if let Err(refusal) = told(&binary, &arguments)? {
            bail!("{}: {arguments:?}: {refusal}", case.name);
        }
    }
    Ok(())
}

#[test]
fn an_argument_that_is_unknown_or_has_a_wrong_value_is_noticed() -> Result<()> {
    let binaries = binaries()?;
    for (binary, arguments) in [
        (&binaries.roundhouse, &["serve", "--no-such-flag"][..]),
        (&binaries.roundhouse, &["serve", "--tenancy=maybe"][..]),
        (&binaries.roundhouse, &["serve", "--agent-identity=maybe"][..]),
        (&binaries.agent, &["--no-such-flag"][..]),
        (&binaries.agent, &["--apply-once-only=maybe"][..]),
    ] {
        ensure!(told(binary, arguments)?.is_err(), "{arguments:?} was taken");
    }
    Ok(())
}

#[test]
fn probes_and_services_ask_the_port_that_is_listened_on() -> Result<()> {
    for Case { name, objects } in cases()? {
        let container = container(&objects)?;
        let arguments = strings(&container["args"]);
        let listen = arguments.iter().find_map(|argument| {
            let (flag, address) = argument.split_once('=')?;
            ["--metrics-listen", "--health-listen"]
                .contains(&flag)
                .then_some(address)
        });
        let address: std::net::SocketAddr = listen.with_context(|| format!("{name}: no port"))?.parse()?;
        let port = &container["ports"][0];
        assert_eq!(port["containerPort"], address.port(), "{name}");
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            let get = &container[probe]["httpGet"];
            assert_eq!(
                (get["path"].as_str(), &get["port"]),
                (Some(path), &port["name"]),
                "{name}"
            );
        }
        for service in crate::of_kind(&objects, "Service") {
            assert_eq!(service["spec"]["ports"][0]["targetPort"], port["name"], "{name}");
        }
    }
    Ok(())
}
