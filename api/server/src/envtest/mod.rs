//! A real API server for tests: `etcd` and `kube-apiserver` from the directory that `KUBEBUILDER_ASSETS` names (the
//! convention of envtest), and `kube-controller-manager` if it is there.
//!
//! No kubelet runs: workloads have no status unless the workload simulator plays it. Without a controller manager nothing
//! collects garbage, namespaces do not finish terminating and requests for certificates are not signed either; what a test
//! needs of that, it must do itself, with [`Envtest::sign`] for the last.

mod double;
mod program;
mod sign;
pub mod skipped;

pub use double::told_again;
pub use sign::signed_status;

use std::{
    io::Write,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use jiff::Timestamp;
use program::Program;
use serde_json::Value;

use crate::{Authority, AuthorityError, Identity, Kubeconfig, write_private};

/// How long a server may take until it is ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often it is asked.
const LOOK: Duration = Duration::from_millis(100);
/// How long the certificates that are issued here are good for.
const DAY: Duration = Duration::from_secs(86_400);

/// Controllers that stay away: the workload simulator plays them, and there are no nodes.
const PLAYED: [&str; 7] = [
    "cronjob",
    "daemonset",
    "deployment",
    "job",
    "pod-garbage-collector",
    "replicaset",
    "statefulset",
];

/// Why no real API server could be started.
#[derive(Debug, thiserror::Error)]
pub enum EnvtestError {
    /// A file could not be written or a program not be started.
    #[error("{what}: {source}; check that KUBEBUILDER_ASSETS names a directory with etcd and kube-apiserver")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A certificate could not be made.
    #[error(transparent)]
    Certificate(#[from] AuthorityError),
    /// A program ended, or does not answer.
    #[error("{path} {what}; check that it is of a version that has these flags: {flags}\nthe end of its log:\n{log}", path = path.display())]
    Program {
        /// The program.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What it was started with.
        flags: String,
        /// The last lines of its log.
        log: String,
    },
    /// A test did not pass on doubles of real API servers.
    #[error(
        "{test} with doubles of real API servers: {status}; check that there is a test of that name\n{said}"
    )]
    Again {
        /// The test.
        test: String,
        /// How its process ended.
        status: ExitStatus,
        /// What it wrote.
        said: String,
    },
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> EnvtestError {
    let what = what.into();
    move |source| EnvtestError::Io { what, source }
}

/// A running `etcd` and `kube-apiserver`; all end when this is dropped, or when this process ends without dropping it.
#[derive(Debug)]
pub struct Envtest {
    assets: PathBuf,
    url: String,
    authority: Authority,
    kubeconfig: String,
    etcd: Program,
    api: Program,
    controllers: Option<Program>,
    warden: Warden,
    directory: Directory,
}

/// A directory that is removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    /// One of its own below the directory for temporary files.
    fn create(what: &str) -> Result<Self, EnvtestError> {
        let path = std::env::temp_dir().join(format!("roundhouse-{what}-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).map_err(io(format!("creating {}", path.display())))?;
        Ok(Directory(path))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A shell that outlives this process by a moment: what a static holds is never dropped, and a process that is killed
/// drops nothing. Its standard input, by which it learns of the programs, ends with this process; then it ends them.
#[derive(Debug)]
struct Warden(Child);

impl Warden {
    fn start(directory: &Path) -> std::io::Result<Self> {
        let script = "while read -r id; do ids=\"$ids $id\"; done; kill -9 $ids; rm -rf \"$0\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(directory);
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }

    fn watch(&mut self, program: &Program) -> Result<(), EnvtestError> {
        let Some(input) = &mut self.0.stdin else {
            return Ok(());
        };
        writeln!(input, "{}", program.id()).map_err(io("telling sh of a program"))
    }
}

impl Drop for Envtest {
    fn drop(&mut self) {
        let _ = self.warden.0.kill();
        let _ = self.warden.0.wait();
        for program in self.controllers.iter_mut().chain([&mut self.api, &mut self.etcd]) {
            program.kill();
        }
    }
}

/// The directory of the programs, if the environment names one.
pub fn assets() -> Option<PathBuf> {
    std::env::var_os("KUBEBUILDER_ASSETS")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

/// Whether `kube-controller-manager` is among the programs.
pub fn has_controllers(assets: &Path) -> bool {
    assets.join("kube-controller-manager").exists()
}

impl Envtest {
    /// Starts `etcd` and `kube-apiserver` on free loopback ports. The server needs some seconds before it answers: see
    /// [`Envtest::until_ready`]. Logs are in a temporary directory that goes when this is dropped.
    ///
    /// # Errors
    /// [`EnvtestError`] if a program is missing or a file cannot be written.
    pub fn start(assets: &Path, now: Timestamp) -> Result<Self, EnvtestError> {
        let directory = Directory::create("envtest")?;
        let (etcd_port, api_port) = (free_port()?, free_port()?);
        let (etcd_url, url) = (
            format!("http://127.0.0.1:{etcd_port}"),
            format!("https://127.0.0.1:{api_port}"),
        );
        let authority = Authority::generate(now)?;
        let server = authority.server_certificate(&["127.0.0.1".to_owned()], now)?;
        let admin = authority.issue(&Identity::admin(), DAY, now)?;
        let kubeconfig = Kubeconfig::new("envtest", &url, &authority, admin).to_string();
        for (name, content) in [
            ("ca.crt", authority.certificate()),
            ("ca.key", authority.key()),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            // Any key signs service account tokens; the CA's is at hand.
            ("accounts.key", authority.key()),
            ("admin.kubeconfig", &kubeconfig),
        ] {
            write_private(&directory.0.join(name), content).map_err(io(format!("writing {name}")))?;
        }
        let mut warden = Warden::start(&directory.0).map_err(io("starting sh"))?;
        let mut etcd = Program::spawn(assets, "etcd", etcd_flags(&directory.0, &etcd_url), &directory.0)?;
        let flags = server_flags(&directory.0, &etcd_url, api_port);
        let api = warden
            .watch(&etcd)
            .and_then(|()| Program::spawn(assets, "kube-apiserver", flags, &directory.0));
        let api = api.inspect_err(|_| etcd.kill())?;
        let mut this = Self {
            assets: assets.to_owned(),
            url,
            authority,
            kubeconfig,
            etcd,
            api,
            controllers: None,
            warden,
            directory,
        };
        this.warden.watch(&this.api)?;
        Ok(this)
    }

    /// Asks until `answers` says that the server is ready; then starts `kube-controller-manager`, if it is
    /// there.
    ///
    /// # Errors
    /// [`EnvtestError::Program`] if a program has ended, or does not become ready within two minutes: it names the program,
    /// its flags and the end of its log.
    pub async fn until_ready(&mut self, answers: impl AsyncFn() -> bool) -> Result<(), EnvtestError> {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !answers().await {
            self.check()?;
            if tokio::time::Instant::now() > end {
                return Err(self.api.failed(format!("is not ready after {PATIENCE:?}")));
            }
            tokio::time::sleep(LOOK).await;
        }
        if self.controllers.is_none() && has_controllers(&self.assets) {
            let flags = controller_flags(&self.directory.0);
            let program = Program::spawn(&self.assets, "kube-controller-manager", flags, &self.directory.0)?;
            self.warden.watch(self.controllers.insert(program))?;
        }
        Ok(())
    }

    /// Whether all of the programs run.
    ///
    /// # Errors
    /// [`EnvtestError::Program`] of the first that does not.
    pub fn check(&mut self) -> Result<(), EnvtestError> {
        self.etcd.check()?;
        self.api.check()?;
        self.controllers.as_mut().map_or(Ok(()), Program::check)
    }

    /// Whether a controller manager runs.
    pub fn has_controllers(&self) -> bool {
        self.controllers.is_some()
    }

    /// The process id of `kube-apiserver`, for tests that stop it or end it.
    pub fn id(&self) -> u32 {
        self.api.id()
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A kubeconfig of an administrator (`system:masters`).
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// A kubeconfig of somebody, good for a day.
    ///
    /// # Errors
    /// If the identity has more than one group.
    pub fn kubeconfig_of(&self, identity: &Identity, now: Timestamp) -> Result<String, EnvtestError> {
        let issued = self.authority.issue(identity, DAY, now)?;
        Ok(Kubeconfig::new("envtest", &self.url, &self.authority, issued).to_string())
    }

    /// What `kube-controller-manager` would make of a CertificateSigningRequest: see [`signed_status`]. `None` where one runs.
    pub fn sign(&self, request: &Value, now: Timestamp) -> Option<Value> {
        if self.has_controllers() {
            return None;
        }
        signed_status(&self.authority, request, now)
    }
}

fn etcd_flags(directory: &Path, url: &str) -> Vec<String> {
    vec![
        format!("--data-dir={}", directory.join("etcd").display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=error".to_owned(),
    ]
}

fn server_flags(directory: &Path, etcd_url: &str, port: u16) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--etcd-servers={etcd_url}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--service-account-key-file={}", file("accounts.key")),
        format!("--service-account-signing-key-file={}", file("accounts.key")),
        "--service-account-issuer=https://127.0.0.1".to_owned(),
    ]
}

fn controller_flags(directory: &Path) -> Vec<String> {
    let file = |name: &str| directory.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("admin.kubeconfig")),
        // It serves nothing itself.
        "--secure-port=0".to_owned(),
        "--leader-elect=false".to_owned(),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        format!("--service-account-private-key-file={}", file("accounts.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        format!(
            "--controllers=*,{}",
            PLAYED.map(|name| format!("-{name}-controller")).join(",")
        ),
    ]
}

fn free_port() -> Result<u16, EnvtestError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("looking for a free port"))?;
    Ok(listener
        .local_addr()
        .map_err(io("looking for a free port"))?
        .port())
}

#[cfg(test)]
mod tests;
