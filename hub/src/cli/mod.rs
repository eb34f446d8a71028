//! The command line: one file per verb.
//!
//! Data goes to stdout, talk to stderr. Exit status 0 is done, 1 is an error; other values are a verb's own.

mod accept;
mod age;
mod apiserver;
mod apply;
mod backup;
mod clusters;
mod columns;
mod control;
mod cordon;
mod crds;
mod demo;
mod diff;
mod documents;
mod explain;
mod failure;
mod format;
mod history;
mod hub;
mod impact;
mod inventory;
mod join;
mod kubeconfig;
mod label;
mod leave;
mod logging;
mod merge;
mod metadata;
mod plan;
mod proposals;
mod reshape;
mod restore;
mod serve;
mod signal;
mod simulate;
mod snapshot;
mod status;
mod subject;
mod taint;
mod tenancy;
mod terminal;
mod test;
mod top;
mod version;
mod watch;

pub use failure::Failure;

use clap::{Parser, Subcommand, error::ErrorKind};
use std::process::ExitCode;

/// Sends workloads from one hub to many Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "roundhouse", version, max_term_width = 110)]
struct Cli {
    /// What is logged to stderr, as in `info` or `roundhouse_hub=debug,warn`
    #[arg(long, global = true, env = "RUST_LOG", value_name = "FILTER")]
    log: Option<String>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Demo(demo::Args),
    Serve(serve::Args),
    Apiserver(apiserver::Args),
    Plan(plan::Args),
    Apply(apply::Args),
    Test(test::Args),
    Simulate(simulate::Args),
    Crds(crds::Args),
    Merge(merge::Args),
    Diff(diff::Args),
    Explain(explain::Args),
    Status(status::Args),
    Watch(watch::Args),
    Suspend(control::SuspendArgs),
    Resume(control::ResumeArgs),
    Terminate(control::TerminateArgs),
    Restart(control::RestartArgs),
    Approve(control::ApproveArgs),
    History(history::Args),
    Rollback(history::RollbackArgs),
    Clusters(clusters::Args),
    Top(top::Args),
    Join(join::Args),
    Accept(accept::Args),
    Revoke(accept::RevokeArgs),
    Leave(leave::Args),
    Cordon(cordon::Args),
    Uncordon(cordon::UncordonArgs),
    Taint(taint::Args),
    Label(label::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Version(version::Args),
}

/// Parses the arguments of the process, runs the verb, and says how it ended.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage)
            if usage.use_stderr() && usage.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand =>
        {
            // Clap's own status of 2 means "in progress" or "changes" here.
            terminal::tell(format_args!("{}", misused(&usage)));
            return ExitCode::FAILURE;
        }
        Err(asked) => {
            // Nothing is left to be done if the terminal is gone.
            let _ = asked.print();
            return if asked.use_stderr() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let outcome = logging::start(cli.log.as_deref(), cli.verb.default_log()).and_then(|()| cli.verb.run());
    match outcome {
        Ok(code) => code,
        Err(failure) => {
            terminal::tell(format_args!("{failure}"));
            ExitCode::from(failure.status())
        }
    }
}

/// A usage error of clap in our own form: its first line is the cause, the rest is what may be written instead.
fn misused(usage: &clap::Error) -> Failure {
    let text = usage.render().to_string();
    let text = text.trim_start_matches("error: ");
    let (cause, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let lines = rest.lines().map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("tip: ").unwrap_or(line);
        line.strip_prefix("Usage: ").unwrap_or(line)
    });
    let mut advice: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("For more information"))
        .collect();
    if advice.is_empty() {
        advice.push("--help behind the verb, to see what it takes");
    }
    Failure::new("E-USAGE", "the command line is not understood")
        .because(cause.trim())
        .advise(advice.join("; "))
}

impl Verb {
    /// What is logged where the user says nothing.
    fn default_log(&self) -> &'static str {
        match self {
            // They tell their own story.
            Verb::Demo(_) | Verb::Simulate(_) => "off",
            // The client would log whole lists that it cannot read, with the Secrets in them.
            Verb::Serve(_) | Verb::Apiserver(_) => "info,kube_client::client=off",
            // What the client says of a request that failed the verb says too, and better.
            _ => "warn,kube_client::client=off",
        }
    }

    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Verb::Demo(args) => block_on(demo::run(args)),
            Verb::Serve(args) => block_on(serve::run(args)),
            Verb::Apiserver(args) => block_on(apiserver::run(args)),
            Verb::Plan(args) => block_on(plan::run(args)),
            Verb::Apply(args) => block_on(apply::run(args)),
            Verb::Test(args) => test::run(&args),
            Verb::Simulate(args) => simulate::run(&args),
            Verb::Crds(args) => crds::run(&args),
            Verb::Merge(args) => merge::run(&args),
            Verb::Diff(args) => block_on(diff::run(args)),
            Verb::Explain(args) => block_on(explain::run(args)),
            Verb::Status(args) => block_on(status::run(args)),
            Verb::Watch(args) => block_on(watch::run(args)),
            Verb::Suspend(args) => block_on(control::suspend(args)),
            Verb::Resume(args) => block_on(control::resume(args)),
            Verb::Terminate(args) => block_on(control::terminate(args)),
            Verb::Restart(args) => block_on(control::restart(args)),
            Verb::Approve(args) => block_on(control::approve(args)),
            Verb::History(args) => block_on(history::run(args)),
            Verb::Rollback(args) => block_on(history::rollback(args)),
            Verb::Clusters(args) => block_on(clusters::run(args)),
            Verb::Top(args) => block_on(top::run(args)),
            Verb::Join(args) => block_on(join::run(args)),
            Verb::Accept(args) => block_on(accept::run(args)),
            Verb::Revoke(args) => block_on(accept::revoke(args)),
            Verb::Leave(args) => block_on(leave::run(args)),
            Verb::Cordon(args) => block_on(cordon::run(args)),
            Verb::Uncordon(args) => block_on(cordon::uncordon(args)),
            Verb::Taint(args) => block_on(taint::run(args)),
            Verb::Label(args) => block_on(label::run(args)),
            Verb::Backup(args) => backup::run(&args),
            Verb::Restore(args) => block_on(restore::run(args)),
            Verb::Version(args) => version::run(&args),
        }
    }
}

fn block_on(verb: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime
        .map_err(|error| Failure::new("E-RUNTIME", "the process has no resources left").because(error))?;
    // Boxed: the future of a whole fleet is large.
    runtime.block_on(Box::pin(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_is_none_is_told_how_one_is_written() {
        let words = ["roundhouse", "plan", "-f", "f", "--at", "yesterday"];
        let failure = misused(&Cli::try_parse_from(words).unwrap_err()).to_string();
        assert!(
            failure.contains("in RFC 3339: write it like 2026-03-01T12:00:00Z"),
            "{failure}"
        );
    }

    #[test]
    fn what_is_missing_is_told_with_everything_that_would_do() {
        for (words, parts) in [
            (
                &["serve"][..],
                &["--embedded", "--kubeconfig <F>", "--in-cluster"][..],
            ),
            (&["restore"], &["--from <B>", "--confirm"]),
            (&["serve", "--embedded"], &["--data-dir <D>"]),
            (&["restore", "--from", "b"], &["--data-dir <D>"]),
            (
                &["serve", "--in-cluster", "--kubeconfig", "f"],
                &["'--in-cluster' cannot be used with '--kubeconfig <F>'"],
            ),
            (
                &["serve", "--embedded", "--data-dir", "d", "--in-cluster"],
                &["'--embedded' cannot be used with '--in-cluster'"],
            ),
            (
                &["restore", "--from", "b", "--data-dir", "d", "--confirm"],
                &["'--from <B>' cannot be used with '--confirm'"],
            ),
        ] {
            let usage = Cli::try_parse_from(["roundhouse"].iter().chain(words)).unwrap_err();
            let failure = misused(&usage).to_string();
            let (cause, _) = failure.split_once("\ntry:").unwrap();
            for part in parts {
                assert!(
                    cause.contains(part),
                    "{words:?}: {part:?} is missing in\n{failure}"
                );
            }
        }
        for words in [
            &["serve", "--in-cluster"][..],
            &["serve", "--kubeconfig", "f"],
            &["serve", "--embedded", "--data-dir", "d"],
            &["restore", "--confirm"],
            &["restore", "--from", "b", "--data-dir", "d"],
        ] {
            let parsed = Cli::try_parse_from(["roundhouse"].iter().chain(words));
            assert!(parsed.is_ok(), "{words:?}: {parsed:?}");
        }
    }
}
