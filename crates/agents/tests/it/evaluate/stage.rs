//! The real server, in the ways in which it can run.

use std::{
    collections::BTreeMap,
    env,
    future::ready,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_agents::{
    client::Endpoint,
    evaluate::{ClientConfig, Evaluator, ModelConfig},
};
use codicil_server::{Server, connect};
use codicil_testkit::{ModelServer, Script, TestHome, built_program, skipped};

use super::soon;

/// A real server with its own home and model, and an evaluator for it.
pub struct Stage {
    pub name: &'static str,
    pub evaluator: Evaluator,
    pub model: ModelServer,
    pub server: Option<Server>,
    pub home: TestHome,
}

/// Returns a stage for every available server. Reports those that are not available.
pub async fn stages(script: impl Fn() -> Script, config: &ClientConfig) -> Vec<Stage> {
    stages_with(script, config, "").await
}

/// Like [`stages`], with additional keys for the model provider.
pub async fn stages_with(script: impl Fn() -> Script, config: &ClientConfig, provider: &str) -> Vec<Stage> {
    let mut stages = vec![Stage::in_process(script(), config, provider).await];
    match built_program("codicil") {
        Some(program) => stages.push(Stage::process("codicil", &program, script(), config, provider).await),
        None => skipped("with codicil: the binary is not built"),
    }
    match on_path("codex") {
        Some(program) => stages.push(Stage::process("codex", &program, script(), config, provider).await),
        None => skipped("with codex: there is none on the path"),
    }
    stages
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

impl Stage {
    pub async fn in_process(script: Script, config: &ClientConfig, provider: &str) -> Self {
        let model = ModelServer::start(script).await;
        let home = TestHome::new("", Some(model.base_url()), provider);
        let server = home.server();
        let config = ClientConfig { cwd: Some(home.workspace().to_owned()), ..config.clone() };
        let evaluator = Evaluator::new(config, ModelConfig::new("mock-model")).unwrap().connect_with({
            let server = server.clone();
            move || {
                let (to_server, from_server) = connect(&server).split();
                ready(Ok(Endpoint::channels(to_server, from_server)))
            }
        });
        Self { name: "in process", evaluator, model, server: Some(server), home }
    }

    async fn process(
        name: &'static str,
        program: &Path,
        script: Script,
        config: &ClientConfig,
        provider: &str,
    ) -> Self {
        let model = ModelServer::start(script).await;
        let home = TestHome::new("", Some(model.base_url()), provider);
        let variables = ["CODICIL_HOME", "CODEX_HOME", "HOME"];
        let env = variables.map(|name| (name.to_owned(), home.path().to_str().unwrap().to_owned()));
        let config = ClientConfig {
            program: program.to_owned(),
            cwd: Some(home.workspace().to_owned()),
            env: BTreeMap::from(env),
            startup_timeout: Duration::from_secs(40),
            ..config.clone()
        };
        let evaluator = Evaluator::new(config, ModelConfig::new("mock-model")).unwrap();
        Self { name, evaluator, model, server: None, home }
    }

    pub async fn stop(self) {
        if let Some(server) = self.server {
            soon(server.stop()).await;
        }
    }
}
