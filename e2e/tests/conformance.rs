//! The embedded server answers as Kubernetes 1.36 did.

use anyhow::Result;
use roundhouse_apiserver::Server;
use roundhouse_e2e::conformance::{InProcess, cases, run_case};

const FILES: [&str; 8] = [
    include_str!("../testdata/conformance/01-crud.json"),
    include_str!("../testdata/conformance/02-list.json"),
    include_str!("../testdata/conformance/03-patch.json"),
    include_str!("../testdata/conformance/04-watch.json"),
    include_str!("../testdata/conformance/05-lifecycle.json"),
    include_str!("../testdata/conformance/06-crd.json"),
    include_str!("../testdata/conformance/07-discovery.json"),
    include_str!("../testdata/conformance/08-builtin.json"),
];

/// Time is paused: nothing here waits for anything but the server, which waits for nothing.
#[tokio::test(start_paused = true)]
async fn recorded_cases() -> Result<()> {
    let server = InProcess(Server::builder().seed(1).build().service());
    let (mut passed, mut wrong) = (0, vec![]);
    for (i, (name, case)) in FILES
        .iter()
        .map(|f| cases(f))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .enumerate()
    {
        let differences = run_case(&server, &case, &format!("{}", 1_000 + i)).await?;
        match differences.first() {
            None => passed += 1,
            Some(first) => wrong.push(format!(
                "{name}: step {} {}\n  want {}\n  got  {}",
                first.step, first.request, first.want, first.got
            )),
        }
    }
    println!("{passed} passed, {} failed", wrong.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    Ok(())
}
