//! Tests that are run once more on doubles of real API servers.

use crate::binaries::binaries;
use anyhow::Result;
use roundhouse_apiserver::envtest;

/// Runs a test of the running binary once more with doubles of `etcd` and `kube-apiserver` ([`envtest::told_again`]). It says what
/// it wrote to standard error. Where real ones are, the test is run on those anyway: then nothing is done.
///
/// # Errors
/// The test fails, or there is none of that name.
pub fn told_again(test: &str, real_members: usize) -> Result<Option<String>> {
    if envtest::assets().is_some() {
        return Ok(None);
    }
    let said = envtest::told_again(&binaries()?.roundhouse, test, real_members)?;
    Ok(Some(said))
}
