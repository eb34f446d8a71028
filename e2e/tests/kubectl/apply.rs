//! `kubectl apply --server-side` against `roundhouse apiserver`, and what stands between it and plain `kubectl apply`.

use super::bare::Bare;
use anyhow::Result;

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: 'nginx:1', ports: [{containerPort: 80}]}
";

/// `manager/operation/subresource` of every entry.
const MANAGERS: &str =
    "jsonpath={range .metadata.managedFields[*]}{.manager}/{.operation}/{.subresource} {end}";

impl Bare {
    /// Writes a manifest; its path.
    fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.home.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    async fn get(&self, what: &str) -> Result<String> {
        let words = ["get", "deployment", "web", "--show-managed-fields", "-o", what];
        Ok(self.kubectl.run(&words).await?.trim().to_owned())
    }

    /// What kubectl says when it fails.
    async fn refused(&self, words: &[&str]) -> Result<String> {
        match self.kubectl.run(words).await {
            Ok(printed) => anyhow::bail!("{words:?} should be refused, but: {printed}"),
            Err(error) => Ok(error.to_string()),
        }
    }
}

#[tokio::test]
async fn server_side_apply_first_again_conflict_and_force() -> Result<()> {
    let Some(bare) = Bare::start().await? else {
        return Ok(());
    };
    let web = bare.file("web.yaml", WEB)?;
    let apply = ["apply", "--server-side", "-f", &web];
    bare.kubectl.run(&apply).await?;
    assert_eq!(bare.get(MANAGERS).await?, "kubectl/Apply/");
    let version = "jsonpath={.metadata.resourceVersion}";
    let first = bare.get(version).await?;
    bare.kubectl.run(&apply).await?;
    assert_eq!(bare.get(version).await?, first);

    bare.kubectl
        .run(&["scale", "deployment", "web", "--replicas=5"])
        .await?;
    assert_eq!(bare.get(MANAGERS).await?, "kubectl/Apply/ kubectl/Update/scale");
    bare.kubectl
        .run(&["set", "image", "deployment/web", "web=nginx:9"])
        .await?;
    let said = bare.refused(&apply).await?;
    for line in [
        "Apply failed with 2 conflicts: conflicts with \"kubectl\" with subresource \"scale\" using apps/v1:",
        "- .spec.replicas",
        "conflicts with \"kubectl-set\" using apps/v1:",
        "- .spec.template.spec.containers[name=\"web\"].image",
    ] {
        assert!(said.contains(line), "{line:?} is missing in {said}");
    }
    bare.kubectl
        .run(&["apply", "--server-side", "--force-conflicts", "-f", &web])
        .await?;
    let taken = "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}";
    assert_eq!(bare.get(taken).await?, "2 nginx:1");
    assert_eq!(bare.get(MANAGERS).await?, "kubectl/Apply/");

    // Another manager shares what it sets alike.
    let other = ["apply", "--server-side", "--field-manager=other", "-f", &web];
    bare.kubectl.run(&other).await?;
    assert_eq!(bare.get(MANAGERS).await?, "kubectl/Apply/ other/Apply/");
    let diff = bare.file("two.yaml", &WEB.replace("nginx:1", "nginx:2"))?;
    let said = bare.refused(&["apply", "--server-side", "-f", &diff]).await?;
    assert!(
        said.contains("conflict with \"other\": .spec.template.spec.containers[name=\"web\"].image"),
        "{said}"
    );
    bare.end().await
}

#[tokio::test]
async fn from_client_side_apply_to_server_side_and_back() -> Result<()> {
    let Some(bare) = Bare::start().await? else {
        return Ok(());
    };
    let web = bare.file("web.yaml", WEB)?;
    bare.kubectl.run(&["apply", "-f", &web]).await?;
    assert_eq!(bare.get(MANAGERS).await?, "kubectl-client-side-apply/Update/");
    let three = bare.file("three.yaml", &WEB.replace("replicas: 2", "replicas: 3"))?;
    bare.kubectl
        .run(&["apply", "--server-side", "-f", &three])
        .await?;
    assert_eq!(bare.get("jsonpath={.spec.replicas}").await?, "3");
    let managers = bare.get(MANAGERS).await?;
    // Entries of one second are ordered by name, others by time.
    assert!(managers.contains("kubectl/Apply/"), "{managers}");
    assert!(!managers.contains("kubectl-client-side-apply"), "{managers}");

    let gone = bare.file(
        "gone.yaml",
        &WEB.replace("  replicas: 3\n", "")
            .replace("{app: web}}\nspec:", "{}}\nspec:"),
    )?;
    bare.kubectl.run(&["apply", "--server-side", "-f", &gone]).await?;
    assert_eq!(bare.get("jsonpath={.metadata.labels}").await?, "");

    bare.kubectl.run(&["apply", "-f", &web]).await?;
    assert_eq!(
        bare.get("jsonpath={.spec.replicas} {.metadata.labels.app}")
            .await?,
        "2 web"
    );
    let said = bare.refused(&["diff", "--server-side", "-f", &three]).await?;
    assert!(said.contains("conflict") || said.contains("replicas"), "{said}");
    bare.end().await
}
