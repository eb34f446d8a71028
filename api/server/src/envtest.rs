//! A real API server for tests: `etcd` and `kube-apiserver` from the directory that `KUBEBUILDER_ASSETS` names (the
//! convention of envtest).
//!
//! Neither a controller manager nor a kubelet runs: nothing collects garbage, namespaces do not finish terminating and
//! workloads have no status unless the workload simulator plays it. What a test needs of that, it must do itself.

use crate::{Authority, AuthorityError, Identity, Kubeconfig, write_private};
use jiff::Timestamp;
use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

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
}

fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> EnvtestError {
    let what = what.into();
    move |source| EnvtestError::Io { what, source }
}

/// A running `etcd` and `kube-apiserver`; both end when this is dropped, or when this process ends without dropping it.
#[derive(Debug)]
pub struct Envtest {
    children: Vec<Child>,
    warden: Option<Child>,
    kubeconfig: String,
    directory: Directory,
}

/// A directory that is removed when dropped.
#[derive(Debug)]
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Drop for Envtest {
    fn drop(&mut self) {
        for child in self.warden.iter_mut().chain(self.children.iter_mut().rev()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The directory of the programs, if the environment names one.
pub fn assets() -> Option<PathBuf> {
    std::env::var_os("KUBEBUILDER_ASSETS")
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}

impl Envtest {
    /// Starts both programs on free loopback ports. The server needs some seconds before it answers: wait for `/readyz`.
    /// Its log is `kube-apiserver.log` in a temporary directory that goes when this is dropped.
    ///
    /// # Errors
    /// [`EnvtestError`] if a program is missing or a file cannot be written.
    pub fn start(assets: &Path, now: Timestamp) -> Result<Self, EnvtestError> {
        let path = std::env::temp_dir().join(format!("roundhouse-envtest-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir_all(&path).map_err(io(format!("creating {}", path.display())))?;
        let directory = Directory(path);
        let (etcd_port, api_port) = (free_port()?, free_port()?);
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let file = |name: &str| directory.0.join(name).display().to_string();

        let authority = Authority::generate(now)?;
        let server = authority.server_certificate(&["127.0.0.1".to_owned()], now)?;
        let client = authority.issue(&Identity::admin(), Duration::from_secs(86_400), now)?;
        // Any key signs service account tokens; the CA's is at hand.
        let files = [
            ("ca.crt", authority.certificate()),
            ("server.crt", &server.certificate),
            ("server.key", &server.key),
            ("accounts.key", authority.key()),
        ];
        for (name, content) in files {
            write_private(&directory.0.join(name), content).map_err(io(format!("writing {name}")))?;
        }

        let mut etcd = Command::new(assets.join("etcd"));
        etcd.arg(format!("--data-dir={}", file("etcd")))
            .arg(format!("--listen-client-urls={etcd_url}"))
            .arg(format!("--advertise-client-urls={etcd_url}"))
            .args([
                "--listen-peer-urls=http://127.0.0.1:0",
                "--unsafe-no-fsync",
                "--log-level=error",
            ]);
        let mut api = Command::new(assets.join("kube-apiserver"));
        api.arg(format!("--etcd-servers={etcd_url}"))
            .arg(format!("--secure-port={api_port}"))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .args(["--authorization-mode=RBAC", "--allow-privileged=true"])
            .args([
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount",
            ])
            .arg(format!("--client-ca-file={}", file("ca.crt")))
            .arg(format!("--tls-cert-file={}", file("server.crt")))
            .arg(format!("--tls-private-key-file={}", file("server.key")))
            .arg(format!("--service-account-key-file={}", file("accounts.key")))
            .arg(format!(
                "--service-account-signing-key-file={}",
                file("accounts.key")
            ))
            .arg("--service-account-issuer=https://127.0.0.1");

        let url = format!("https://127.0.0.1:{api_port}");
        let mut this = Envtest {
            children: Vec::new(),
            warden: None,
            kubeconfig: Kubeconfig::new("envtest", &url, &authority, client).to_string(),
            directory,
        };
        this.spawn(etcd, "etcd.log")?;
        this.spawn(api, "kube-apiserver.log")?;
        this.warden = Some(this.watch_over().map_err(io("starting sh"))?);
        Ok(this)
    }

    /// Starts a shell that outlives this process by a moment: what a static holds is never dropped, and a process that
    /// is killed drops nothing. Its standard input ends with this process; then it ends the programs.
    fn watch_over(&self) -> std::io::Result<Child> {
        let script = "cat; kill -9 \"$@\"; rm -rf \"$0\"";
        let mut warden = Command::new("sh");
        warden.args(["-c", script]).arg(&self.directory.0);
        warden.args(self.children.iter().map(|child| child.id().to_string()));
        warden
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }

    fn spawn(&mut self, mut command: Command, log: &str) -> Result<(), EnvtestError> {
        let log = std::fs::File::create(self.directory.0.join(log)).map_err(io(format!("creating {log}")))?;
        let what = format!("starting {}", command.get_program().display());
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log))
            .spawn();
        self.children.push(child.map_err(io(what))?);
        Ok(())
    }

    /// A kubeconfig of an administrator (`system:masters`).
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

fn free_port() -> Result<u16, EnvtestError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("looking for a free port"))?;
    Ok(listener
        .local_addr()
        .map_err(io("looking for a free port"))?
        .port())
}
