//! `kubectl`, as a person calls it.

use crate::process::{DEADLINE, Process, soon};
use anyhow::{Context, Result, bail};
use std::{
    fmt::Display,
    path::{Path, PathBuf},
};
use tokio::process::Command;

/// kubectl with one kubeconfig. Its cache is kept beside the kubeconfig.
#[derive(Debug, Clone)]
pub struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    /// Whether kubectl is installed; if not, why nothing is tested.
    ///
    /// # Errors
    /// The text to print: kubectl does not start.
    pub async fn installed() -> std::result::Result<(), String> {
        let version = Command::new("kubectl")
            .args(["version", "--client"])
            .output()
            .await;
        match version {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("skipped: kubectl version ended with {}", output.status)),
            Err(error) => Err(format!("skipped: kubectl does not start ({error})")),
        }
    }

    /// kubectl for a kubeconfig.
    pub fn new(kubeconfig: &Path) -> Kubectl {
        let home = kubeconfig.parent().unwrap_or(Path::new(".")).join("kubectl");
        Kubectl {
            kubeconfig: kubeconfig.to_owned(),
            home,
        }
    }

    /// Runs `kubectl` with these words and returns what it prints.
    ///
    /// # Errors
    /// It fails or hangs: the error has what it wrote to standard error.
    pub async fn run(&self, words: &[&str]) -> Result<String> {
        self.run_with(words, &[]).await
    }

    /// As [`Kubectl::run`], with variables in its environment.
    ///
    /// # Errors
    /// As [`Kubectl::run`].
    pub async fn run_with(&self, words: &[&str], environment: &[(&str, &str)]) -> Result<String> {
        let mut command = Command::new("kubectl");
        command.args(words).env("KUBECONFIG", &self.kubeconfig);
        command.env("HOME", &self.home).envs(environment.iter().copied());
        let ended = Process::spawn(command)?.wait().await?;
        if !ended.status.success() {
            bail!("kubectl {}: {}{}", words.join(" "), ended.stdout, ended.stderr);
        }
        Ok(ended.stdout)
    }

    /// Runs a command until what it prints is `wanted`.
    ///
    /// # Errors
    /// [`DEADLINE`] passed: the error has what it printed last.
    pub async fn until(&self, words: &[&str], wanted: impl Display) -> Result<()> {
        let wanted = wanted.to_string();
        let what = format!("{wanted:?} from kubectl {}", words.join(" "));
        soon(&what, async || {
            let printed = self.run(words).await?;
            Ok(if printed.trim() == wanted {
                Ok(())
            } else {
                Err(printed)
            })
        })
        .await
        .with_context(|| format!("within {DEADLINE:?}"))
    }
}

/// A table as kubectl prints it: the words of the header, and each row's cells.
///
/// Cells are cut at the columns of the header, so that an empty cell stays a cell.
pub fn table(text: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut lines = text.lines();
    let header: Vec<char> = lines.next().unwrap_or_default().chars().collect();
    let is_start = |&at: &usize| {
        let before = at.checked_sub(1).and_then(|before| header.get(before));
        header.get(at).is_some_and(|c| *c != ' ') && before.is_none_or(|c| *c == ' ')
    };
    let mut starts: Vec<usize> = (0..header.len()).filter(is_start).collect();
    if let Some(first) = starts.first_mut() {
        *first = 0;
    }
    let cells = |line: &[char]| -> Vec<String> {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cell = |(start, end): (&usize, usize)| {
            let text: String = line.iter().take(end).skip(*start).collect();
            text.trim().to_owned()
        };
        starts.iter().zip(ends).map(cell).collect()
    };
    let rows = lines
        .map(|line| cells(&line.chars().collect::<Vec<_>>()))
        .collect();
    (cells(&header), rows)
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn an_empty_cell_stays_a_cell() {
        let (header, rows) =
            table("NAMESPACE   NAME     AGE\n            east-1   4s\ndefault     web      \n");
        assert_eq!(header, ["NAMESPACE", "NAME", "AGE"]);
        assert_eq!(rows, [["", "east-1", "4s"], ["default", "web", ""]]);
    }
}
