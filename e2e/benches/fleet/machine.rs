//! The machine, and what processes take of it: read from `/proc`.

use anyhow::{Context, Result};
use serde::Serialize;
use std::{fmt, path::Path};
use tokio::time::Instant;

/// Ticks of a second in `/proc/PID/stat`: the same on every Linux that this runs on.
const TICKS: f64 = 100.0;

/// Where it was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    cores: usize,
    processor: String,
    #[serde(rename = "memoryMiB")]
    memory: u64,
    kernel: String,
    /// What hands out memory, see the feature `jemalloc`.
    allocator: &'static str,
    /// Processes that wanted to run on average in the minute before.
    load: String,
}

impl Machine {
    pub(crate) fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpus = read("/proc/cpuinfo");
        let model = cpus.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split_once(": ")).map(|(_, name)| name);
        Machine {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: model.unwrap_or("an unnamed processor").to_owned(),
            memory: field(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0) / 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            allocator: if cfg!(feature = "jemalloc") {
                "jemalloc"
            } else {
                "the system's allocator"
            },
            load: read("/proc/loadavg")
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores of {}, {} MiB, Linux {}, {}, load before {}",
            self.cores, self.processor, self.memory, self.kernel, self.allocator, self.load
        )
    }
}

/// A field in KiB of `/proc/PID/status` or `/proc/meminfo`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// Resident memory of a process, now and at its highest, in MiB.
pub(crate) fn memory(pid: u32) -> Result<(f64, f64)> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    let mib = |name| field(&text, name).map(|kib| kib as f64 / 1024.0);
    mib("VmRSS:")
        .zip(mib("VmHWM:"))
        .with_context(|| format!("{path} says no memory"))
}

/// Bytes of the files below a directory.
pub(crate) fn disk(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        // A segment that is dropped meanwhile takes nothing.
        let Ok(about) = entry.metadata() else { continue };
        bytes += match about.is_dir() {
            true => disk(&entry.path())?,
            false => about.len(),
        };
    }
    Ok(bytes)
}

/// Seconds of the processor that a process has taken, in its own code and in the kernel.
fn time(pid: u32) -> Result<Cores> {
    let path = format!("/proc/{pid}/stat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name, in brackets, may contain anything.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = ticks(11)
        .zip(ticks(12))
        .with_context(|| format!("{path} says no times"))?;
    Ok(Cores {
        own: user / TICKS,
        kernel: system / TICKS,
    })
}

/// Processor time that the whole machine was busy, and that it did not get from who runs it, summed over its cores.
fn busy() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|t| t.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal: idle and iowait are not busy, and what is stolen others have.
    let sum = |range: std::ops::Range<usize>| ticks.get(range).unwrap_or_default().iter().sum::<f64>();
    ((sum(0..3) + sum(5..7)) / TICKS, sum(7..8) / TICKS)
}

/// What some processes and the whole machine take from now on.
#[derive(Debug)]
pub(crate) struct Usage {
    since: Instant,
    /// Busy and stolen.
    busy: (f64, f64),
    processes: Vec<(&'static str, u32, Cores)>,
}

/// Cores that a process kept busy on average, or the seconds of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Cores {
    /// With its own code (`utime`).
    pub(crate) own: f64,
    /// With what the kernel does for it (`stime`).
    pub(crate) kernel: f64,
}

impl Cores {
    pub(crate) fn all(self) -> f64 {
        self.own + self.kernel
    }
}

/// Cores that were busy on average.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Used {
    all: f64,
    /// What others on the same machine took of it.
    stolen: f64,
    each: Vec<(&'static str, Cores)>,
}

impl Usage {
    pub(crate) fn begin(processes: &[(&'static str, u32)]) -> Result<Usage> {
        let read = |(name, pid): &(&'static str, u32)| Ok((*name, *pid, time(*pid)?));
        Ok(Usage {
            since: Instant::now(),
            busy: busy(),
            processes: processes.iter().map(read).collect::<Result<_>>()?,
        })
    }

    pub(crate) fn end(&self) -> Result<Used> {
        let wall = self.since.elapsed().as_secs_f64();
        let of = |(name, pid, before): &(&'static str, u32, Cores)| {
            let now = time(*pid)?;
            let cores = Cores {
                own: (now.own - before.own) / wall,
                kernel: (now.kernel - before.kernel) / wall,
            };
            Ok((*name, cores))
        };
        let busy = busy();
        Ok(Used {
            all: (busy.0 - self.busy.0) / wall,
            stolen: (busy.1 - self.busy.1) / wall,
            each: self.processes.iter().map(of).collect::<Result<_>>()?,
        })
    }
}

impl Used {
    /// Cores of one process.
    pub(crate) fn of(&self, name: &str) -> Cores {
        let of = self.each.iter().find(|(n, _)| *n == name);
        of.map(|(_, cores)| *cores).unwrap_or_default()
    }
}

/// The processor bounds what is measured where this part of the cores is busy.
const BUSY: f64 = 0.9;
/// As many cores are told of.
const SEEN: f64 = 0.005;

/// How many cores were busy and with what, and whether the processor bounds what was measured.
impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let how = if self.all >= BUSY * cores as f64 {
            "bounds"
        } else {
            "does not bound"
        };
        write!(
            f,
            "the processor {how} it: {:.2} of {cores} cores were busy",
            self.all
        )?;
        if self.stolen >= SEEN {
            write!(f, ", and {:.2} were others' on the same machine", self.stolen)?;
        }
        for (name, cores) in &self.each {
            write!(
                f,
                ", {name} {:.2} ({:.2} of it in the kernel)",
                cores.all(),
                cores.kernel
            )?;
        }
        Ok(())
    }
}
