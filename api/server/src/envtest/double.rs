//! Doubles of `etcd` and `kube-apiserver`, where no real ones are: what starts those, and what runs on them, is run with these.
//!
//! The double of `kube-apiserver` takes its flags and becomes `roundhouse apiserver` with the same certificates: nothing is learned
//! about Kubernetes by it, only that the tests would run there.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use super::{Directory, EnvtestError, io};

const ETCD: &str = "#!/bin/sh
exec sleep 86400
";

/// The flags as `server_flags` has them; the certificates are the ones of the server that this becomes.
const SERVER: &str = r#"#!/bin/sh
for flag; do
  case $flag in
    --secure-port=*) port=${flag#*=} ;;
    --bind-address=*) address=${flag#*=} ;;
    --client-ca-file=*) ca=${flag#*=} ;;
  esac
done
directory=${ca%/*}
data=$directory/data
roundhouse=$(dirname "$0")/roundhouse
# A data directory with an authority and no objects is refused: first there are some.
"$roundhouse" apiserver --data-dir "$data" --listen 127.0.0.1:0 >&2 &
until [ -s "$data/admin.kubeconfig" ]; do kill -0 $! || exit 1; sleep 0.1; done
kill $!; wait $!
cp "$ca" "$directory/ca.key" "$data" || exit 1
exec "$roundhouse" apiserver --strict --data-dir "$data" --listen "$address:$port"
"#;

fn assets(directory: &Path, roundhouse: &Path) -> std::io::Result<()> {
    for (name, script) in [("etcd", ETCD), ("kube-apiserver", SERVER)] {
        let path = directory.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
    }
    std::os::unix::fs::symlink(roundhouse, directory.join("roundhouse"))
}

/// Runs a test of the running binary once more, in a process of its own, with the doubles in place of real API servers, which
/// become the binary `roundhouse`. Returns what the test wrote to standard error.
///
/// # Errors
/// [`EnvtestError::Again`] if the test fails, or there is none of that name.
pub fn told_again(roundhouse: &Path, test: &str, real_members: usize) -> Result<String, EnvtestError> {
    let directory = Directory::create("doubles")?;
    assets(&directory.0, roundhouse).map_err(io("writing doubles of etcd and kube-apiserver"))?;
    let this = std::env::current_exe().map_err(io("looking for the binary of this test"))?;
    let ran = Command::new(this)
        .args(["--exact", test, "--nocapture"])
        .env("KUBEBUILDER_ASSETS", &directory.0)
        .env("ROUNDHOUSE_REAL_MEMBERS", real_members.to_string())
        .stdin(Stdio::null())
        .output()
        .map_err(io(format!("running {test} once more")))?;
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    if ran.status.success() && out.contains("test result: ok. 1 passed") {
        return Ok(err.into_owned());
    }
    Err(EnvtestError::Again {
        test: test.to_owned(),
        status: ran.status,
        said: format!("{out}{err}"),
    })
}
