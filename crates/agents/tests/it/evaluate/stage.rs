//! Where the real server runs, for tests that do not mind.

use std::{
    collections::BTreeMap,
    env, fs,
    future::ready,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_agents::{
    client::Endpoint,
    evaluate::{ClientConfig, Evaluator, ModelConfig},
};
use codicil_config::{ConfigStore, Home, Sources, SystemFiles};
use codicil_server::{PROTOCOL_VERSION, Server, Setup, connect};
use codicil_store::Store;
use codicil_testkit::{ModelServer, Script};
use tempfile::TempDir;

use super::soon;

/// A real server with a home and a model of its own, and an evaluator for it.
pub struct Stage {
    pub name: &'static str,
    pub evaluator: Evaluator,
    pub model: ModelServer,
    pub server: Option<Server>,
    pub work: PathBuf,
    pub home: PathBuf,
    _folder: TempDir,
}

/// A stage for every server that there is. Those that are missing are named.
pub async fn stages(script: impl Fn() -> Script, config: &ClientConfig) -> Vec<Stage> {
    stages_with(script, config, "").await
}

/// The same with more keys for the model's provider.
pub async fn stages_with(script: impl Fn() -> Script, config: &ClientConfig, provider: &str) -> Vec<Stage> {
    let mut stages = vec![Stage::in_process(script(), config, provider).await];
    match built_binary() {
        Some(program) => stages.push(Stage::process("codicil", &program, script(), config, provider).await),
        None => eprintln!("skipped: the codicil binary has not been built"),
    }
    match on_path("codex") {
        Some(program) => stages.push(Stage::process("codex", &program, script(), config, provider).await),
        None => eprintln!("skipped: there is no codex on the path"),
    }
    stages
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Where cargo puts it, beside the tests.
fn built_binary() -> Option<PathBuf> {
    let test = env::current_exe().unwrap();
    test.ancestors().skip(1).take(2).map(|folder| folder.join("codicil")).find(|file| file.is_file())
}

/// A folder with `home` and `work` in it, the former with a configuration for the model.
fn folder(model: &ModelServer, provider: &str) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let (home, work) = (base.join("home"), base.join("work"));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&work).unwrap();
    let text = format!(
        "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
         base_url = \"{}\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n{provider}\n",
        model.base_url()
    );
    fs::write(home.join("config.toml"), text).unwrap();
    (folder, home, work)
}

impl Stage {
    pub async fn in_process(script: Script, config: &ClientConfig, provider: &str) -> Self {
        let model = ModelServer::start(script).await;
        let (folder, home, work) = folder(&model, provider);
        let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
        let server = Server::new(Setup {
            config: ConfigStore::new(Sources { system, ..Sources::of(Home::new(&home).unwrap()) }),
            store: Store::open(&home).unwrap(),
            cwd: work.clone(),
            announced_version: PROTOCOL_VERSION.to_owned(),
            allow_unauthenticated: false,
        });
        let config = ClientConfig { cwd: Some(work.clone()), ..config.clone() };
        let evaluator = Evaluator::new(config, ModelConfig::new("mock-model")).unwrap().connect_with({
            let server = server.clone();
            move || {
                let (to_server, from_server) = connect(&server).split();
                ready(Ok(Endpoint::channels(to_server, from_server)))
            }
        });
        Self { name: "in process", evaluator, model, server: Some(server), work, home, _folder: folder }
    }

    async fn process(
        name: &'static str,
        program: &Path,
        script: Script,
        config: &ClientConfig,
        provider: &str,
    ) -> Self {
        let model = ModelServer::start(script).await;
        let (folder, home, work) = folder(&model, provider);
        let variables = ["CODICIL_HOME", "CODEX_HOME", "HOME"];
        let env = variables.map(|name| (name.to_owned(), home.to_str().unwrap().to_owned()));
        let config = ClientConfig {
            codex_bin: program.to_owned(),
            cwd: Some(work.clone()),
            env: BTreeMap::from(env),
            startup_timeout: Duration::from_secs(40),
            ..config.clone()
        };
        let evaluator = Evaluator::new(config, ModelConfig::new("mock-model")).unwrap();
        Self { name, evaluator, model, server: None, work, home, _folder: folder }
    }

    pub async fn stop(self) {
        if let Some(server) = self.server {
            soon(server.stop()).await;
        }
    }
}
