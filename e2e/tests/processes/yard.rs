//! The processes, and the kubeconfigs that they wrote.

use anyhow::{Context, Result, bail, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::{Application, ApplicationPhase, ApplicationStatus},
    cluster::{AVAILABLE, Cluster},
    condition,
};
use roundhouse_apiserver::{envtest, write_private};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, Signal, client, command, soon},
    real::{self, RealServer},
    skipped,
    world::{SEED, object},
};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tokio::sync::MutexGuard;

pub(crate) const MEMBERS: [(&str, &str); 2] = [("east-1", "east"), ("west-1", "west")];
/// Where the image of the seed's application is.
const IMAGE: &str = "/spec/components/0/properties/objects/0/spec/template/spec/containers/0/image";
/// Where its replicas are.
const REPLICAS: &str = "/spec/components/0/properties/objects/0/spec/replicas";

/// A hub, its members and their agents. The servers of hub and members are embedded ones, or real ones where
/// `KUBEBUILDER_ASSETS` names them, of the members the first ([`real::members`]); kubeconfigs are in the same places.
pub(crate) struct Yard {
    pub(crate) home: TempDir,
    pub(crate) hub: Process,
    /// API servers and agents, in the order of the members.
    pub(crate) members: Vec<Member>,
    pub(crate) agents: Vec<Process>,
    pub(crate) client: Client,
    /// The API server of a hub that has none of its own.
    server: Option<RealServer>,
    _turn: Option<MutexGuard<'static, ()>>,
}

/// The API server of a member.
pub(crate) enum Member {
    Embedded(Process),
    Real(RealServer),
}

impl Member {
    pub(crate) async fn signal(&self, signal: Signal) -> Result<()> {
        match self {
            Member::Embedded(process) => process.signal(signal).await,
            Member::Real(server) => server.signal(signal).await,
        }
    }

    /// Sends a signal and waits until it has ended.
    pub(crate) async fn end(self, signal: Signal) -> Result<()> {
        match self {
            Member::Embedded(process) => process.end(signal).await.map(drop),
            Member::Real(server) => server.end(signal).await,
        }
    }

    /// The process of an embedded one.
    pub(crate) fn process(self) -> Result<Process> {
        match self {
            Member::Embedded(process) => Ok(process),
            Member::Real(_) => bail!("the member is a real API server"),
        }
    }
}

/// Starts `roundhouse VERB` with a data directory in `home` on a free port, and returns with its kubeconfig.
pub(crate) async fn serve(home: &Path, name: &str, verb: &[&str]) -> Result<(Process, PathBuf)> {
    let listen = ["--data-dir", name, "--listen", "127.0.0.1:0"];
    let mut process = Process::start(&binaries()?.roundhouse, verb.iter().chain(&listen), home)?;
    let printed = process.stdout_line(|line| line.contains("kubeconfig")).await?;
    Ok((process, home.join(printed)))
}

/// The variable that a printed command sets first, and the invitation that it has.
pub(crate) fn invitation(printed: &str) -> Result<(&str, &str)> {
    let first = printed.split_whitespace().next().unwrap_or_default();
    first.split_once('=').with_context(|| printed.to_owned())
}

/// Writes a kubeconfig, and returns where.
pub(crate) fn write(home: &Path, name: &str, kubeconfig: &str) -> Result<String> {
    let path = home.join(name);
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    write_private(&path, kubeconfig)?;
    Ok(path.display().to_string())
}

impl Yard {
    /// Runs `roundhouse` with the kubeconfig of the hub.
    pub(crate) async fn roundhouse(&self, words: &[&str]) -> Result<Ended> {
        let hub = self
            .home
            .path()
            .join("hub/admin.kubeconfig")
            .display()
            .to_string();
        let words = words.iter().copied().chain(["--kubeconfig", hub.as_str()]);
        Process::start(&binaries()?.roundhouse, words, self.home.path())?
            .wait()
            .await
    }

    /// Runs it and checks the exit status; returns what it printed.
    pub(crate) async fn ends(&self, code: i32, words: &[&str]) -> Result<String> {
        let ended = self.roundhouse(words).await?;
        ensure!(
            ended.status.code() == Some(code),
            "roundhouse {} ended with {}, not {code}\n{}{}",
            words.join(" "),
            ended.status,
            ended.stdout,
            ended.stderr
        );
        Ok(ended.stdout + &ended.stderr)
    }

    /// Everything started, joined and available.
    pub(crate) async fn start() -> Result<Yard> {
        Yard::make(&[], &MEMBERS).await
    }

    /// With more arguments for the hub.
    pub(crate) async fn with(arguments: &[&str]) -> Result<Yard> {
        Yard::make(arguments, &MEMBERS).await
    }

    /// With other members than [`MEMBERS`].
    pub(crate) async fn of(members: &[(&str, &str)]) -> Result<Yard> {
        Yard::make(&[], members).await
    }

    async fn make(arguments: &[&str], members: &[(&str, &str)]) -> Result<Yard> {
        let home = tempfile::tempdir()?;
        let mut yard = match envtest::assets() {
            Some(assets) => Yard::on_real_server(home, arguments, &assets).await?,
            None => Yard::on_embedded_server(home, arguments).await?,
        };
        for (name, region) in members {
            yard.join(name, region).await?;
        }
        for (name, _) in members {
            yard.until_available(name).await?;
        }
        Ok(yard)
    }

    async fn on_embedded_server(home: TempDir, arguments: &[&str]) -> Result<Yard> {
        let verb = [&["serve", "--embedded", "--strict"], arguments].concat();
        let (hub, admin) = serve(home.path(), "hub", &verb).await?;
        Ok(Yard {
            client: client(&admin).await?,
            home,
            hub,
            members: Vec::new(),
            agents: Vec::new(),
            server: None,
            _turn: None,
        })
    }

    async fn on_real_server(home: TempDir, arguments: &[&str], assets: &Path) -> Result<Yard> {
        let turn = real::turn().await;
        let (server, client) = RealServer::start(assets).await?;
        let admin = write(home.path(), "hub/admin.kubeconfig", &server.kubeconfig)?;
        let mut words = vec!["serve", "--kubeconfig", &admin];
        words.extend(arguments);
        // As an embedded one has it unless it is told.
        if !arguments.contains(&"--tenancy") {
            words.extend(["--tenancy", "open"]);
        }
        let hub = Process::start(&binaries()?.roundhouse, words, home.path())?;
        soon("the hub's definitions", async || {
            let clusters = Api::<Cluster>::all(client.clone());
            Ok(clusters.list_metadata(&Default::default()).await.map(drop))
        })
        .await
        .with_context(|| hub.stderr())?;
        Ok(Yard {
            home,
            hub,
            members: Vec::new(),
            agents: Vec::new(),
            client,
            server: Some(server),
            _turn: Some(turn),
        })
    }

    /// Starts a member with its agent, which is let in at once.
    pub(crate) async fn join(&mut self, name: &str, region: &str) -> Result<()> {
        self.member(name).await?;
        let label = format!("region={region}");
        let printed = self.invite(name, &["--auto-accept", "--label", &label]).await?;
        let agent = self.start_invited(name, &printed, &[])?;
        self.agents.push(agent);
        Ok(())
    }

    /// Starts the API server of a member.
    pub(crate) async fn member(&mut self, name: &str) -> Result<()> {
        let is_real = |member: &&Member| matches!(member, Member::Real(_));
        let room = self.members.iter().filter(is_real).count() < real::members()?;
        let assets = envtest::assets().filter(|_| self.server.is_some());
        if assets.is_some() && !room {
            skipped::embedded(1)?;
        }
        let member = match assets.filter(|_| room) {
            Some(assets) => {
                let (mut member, client) = RealServer::start(&assets).await?;
                member.simulate_workloads(client);
                let admin = format!("{name}/admin.kubeconfig");
                write(self.home.path(), &admin, &member.kubeconfig)?;
                Member::Real(member)
            }
            None => {
                let verb = ["apiserver", "--simulate-workloads", "--strict"];
                Member::Embedded(serve(self.home.path(), name, &verb).await?.0)
            }
        };
        self.members.push(member);
        Ok(())
    }

    /// The command that `roundhouse join` prints.
    pub(crate) async fn invite(&self, name: &str, words: &[&str]) -> Result<String> {
        let join = [&["join", name], words].concat();
        let ended = self.roundhouse(&join).await?;
        ensure!(
            ended.status.success(),
            "roundhouse {}\n{}",
            join.join(" "),
            ended.stderr
        );
        Ok(ended.stdout)
    }

    /// Runs the printed command as it is, in the directory of the yard, for the member of that name.
    pub(crate) fn start_invited(&self, name: &str, printed: &str, more: &[&str]) -> Result<Process> {
        let (variable, invitation) = invitation(printed)?;
        let mut words = printed.split_whitespace().skip(1);
        ensure!(words.next() == Some("roundhouse-agent"), "{printed}");
        let member = self.member_kubeconfig(name).display().to_string();
        let words = words
            .chain(["--member-kubeconfig", &member])
            .chain(more.iter().copied());
        let mut command = command(&binaries()?.agent, self.home.path());
        command.args(words).env(variable, invitation);
        Process::spawn(command)
    }

    pub(crate) async fn until_available(&self, name: &str) -> Result<()> {
        let clusters: Api<Cluster> = Api::all(self.client.clone());
        soon(&format!("cluster {name}"), async || {
            let status = clusters.get(name).await?.status.unwrap_or_default();
            let there = condition::is_true(&status.conditions, AVAILABLE);
            Ok(if there { Ok(()) } else { Err(status) })
        })
        .await
    }

    /// Where the agent of a cluster keeps who it is.
    pub(crate) fn identity(&self, name: &str) -> PathBuf {
        self.home
            .path()
            .join(format!("roundhouse-agent-{name}/identity.json"))
    }

    /// A kubeconfig with the identity that the agent of a cluster has now.
    pub(crate) fn agent_kubeconfig(&self, name: &str) -> Result<PathBuf> {
        let stored: Value = serde_json::from_slice(&std::fs::read(self.identity(name))?)?;
        let encoded = |key: &str| {
            let text = stored["identity"]["credential"]["certificate"][key].as_str();
            text.map(|text| STANDARD.encode(text))
                .context("no certificate is stored")
        };
        let kubeconfig = json!({
            "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": stored["identity"]["hub"]}],
            "users": [{"name": "agent", "user": {
                "client-certificate-data": encoded("certificate")?, "client-key-data": encoded("key")?}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "agent"}}]});
        let path = self.home.path().join(format!("{name}.kubeconfig"));
        std::fs::write(&path, kubeconfig.to_string())?;
        Ok(path)
    }

    pub(crate) fn member_kubeconfig(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("{name}/admin.kubeconfig"))
    }

    /// Starts the agent of a cluster that has joined before.
    pub(crate) fn start_agent(&self, name: &str) -> Result<Process> {
        let place = format!("roundhouse-agent-{name}");
        let member = self.member_kubeconfig(name).display().to_string();
        let words = [
            "--cluster",
            name,
            "--identity-dir",
            &place,
            "--member-kubeconfig",
            &member,
        ];
        Process::start(&binaries()?.agent, words, self.home.path())
    }

    pub(crate) fn applications(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Application>(&());
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    /// Applies 01-seed and waits until it is delivered.
    pub(crate) async fn deliver_seed(&self) -> Result<()> {
        let seed: DynamicObject = serde_json::from_value(object(SEED)?)?;
        self.applications().create(&PostParams::default(), &seed).await?;
        self.delivered("web-v1").await?;
        Ok(())
    }

    pub(crate) async fn set_image(&self, image: &str) -> Result<()> {
        self.replace(IMAGE, &json!(image)).await
    }

    pub(crate) async fn set_replicas(&self, replicas: u32) -> Result<()> {
        self.replace(REPLICAS, &json!(replicas)).await
    }

    /// Replaces a field of the seed's application.
    async fn replace(&self, path: &str, value: &Value) -> Result<()> {
        let operations = json!([{"op": "replace", "path": path, "value": value}]);
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations)?);
        self.applications()
            .patch("web", &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    pub(crate) async fn status(&self) -> Result<ApplicationStatus> {
        let applications: Api<Application> = Api::namespaced(self.client.clone(), "default");
        Ok(applications.get("web").await?.status.unwrap_or_default())
    }

    /// Whether the run of a revision has succeeded and everything is ready.
    pub(crate) fn is_delivered(status: &ApplicationStatus, revision: &str) -> bool {
        let run = status.workflow.clone().unwrap_or_default();
        run.app_revision.as_deref() == Some(revision)
            && run.finished
            && status.phase == Some(ApplicationPhase::Running)
    }

    pub(crate) async fn delivered(&self, revision: &str) -> Result<ApplicationStatus> {
        soon(&format!("the delivery of {revision}"), async || {
            let status = self.status().await?;
            let there = Yard::is_delivered(&status, revision);
            Ok(if there { Ok(status) } else { Err(status) })
        })
        .await
    }

    pub(crate) async fn deployments(&self, name: &str) -> Result<Api<Deployment>> {
        let client = client(&self.member_kubeconfig(name)).await?;
        Ok(Api::namespaced(client, "default"))
    }

    /// Replicas that are asked for and ready in a member, and their image.
    pub(crate) async fn web(&self, name: &str) -> Result<(i32, i32, String)> {
        let web = self.deployments(name).await?.get("web").await?;
        let image = roundhouse_e2e::world::image(&web, "web").context("image")?;
        let asked = web.spec.and_then(|spec| spec.replicas).context("replicas")?;
        let ready = web.status.and_then(|status| status.ready_replicas).unwrap_or(0);
        Ok((asked, ready, image))
    }
}
