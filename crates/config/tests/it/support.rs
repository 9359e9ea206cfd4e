//! A machine in a temporary directory: a home, a system directory and a project.

use std::{
    fs,
    path::{Path, PathBuf},
};

use codicil_config::{
    CommandLineFlags, ConfigError, ConfigQuery, ConfigSources, ConfigStore, EffectiveConfig, HomeDirectory,
    Strictness, SystemFiles, WriteError,
};
use codicil_protocol::{
    ConfigReadParams, ConfigReadResponse, ConfigValueWriteParams, ConfigWriteResponse, MergeStrategy,
};
use serde_json::{Value, json};

pub struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["home", "etc", "ws"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        Self { dir }
    }

    /// Returns a machine with a user `config.toml`.
    pub fn with_config(text: &str) -> Self {
        let machine = Self::new();
        machine.write("home/config.toml", text);
        machine
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(below)
    }

    pub fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn file(&self, below: &str) -> String {
        fs::read_to_string(self.path(below)).unwrap()
    }

    pub fn config(&self) -> String {
        self.file("home/config.toml")
    }

    /// Creates a project in `ws` with a marker and a configuration.
    pub fn with_project(self, text: &str) -> Self {
        fs::create_dir(self.path("ws/.git")).unwrap();
        self.write("ws/.codex/config.toml", text);
        self
    }

    pub fn trusting(self, below: &str) -> Self {
        let entry = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", self.path(below));
        let config = fs::read_to_string(self.path("home/config.toml")).unwrap_or_default();
        self.write("home/config.toml", &format!("{config}\n{entry}"));
        self
    }

    pub fn sources(&self) -> ConfigSources {
        ConfigSources {
            home: HomeDirectory::new(self.path("home")).unwrap(),
            system: SystemFiles {
                config: vec![self.path("etc/config.toml")],
                requirements: vec![self.path("etc/requirements.toml")],
            },
            flags: CommandLineFlags::default(),
            strictness: Strictness::Lenient,
        }
    }

    pub fn store(&self) -> ConfigStore {
        ConfigStore::new(self.sources())
    }

    pub fn store_with_flags(&self, flags: &[&str]) -> ConfigStore {
        let flags = CommandLineFlags::parse(flags, &self.path("ws")).unwrap();
        ConfigStore::new(ConfigSources { flags, ..self.sources() })
    }

    pub fn strict(&self) -> ConfigStore {
        ConfigStore::new(ConfigSources { strictness: Strictness::Strict, ..self.sources() })
    }

    pub fn load(&self) -> Result<EffectiveConfig, ConfigError> {
        self.store().load(&ConfigQuery::default())
    }

    /// Replaces the paths of this run, so that texts can be compared.
    pub fn clean(&self, text: &str) -> String {
        text.replace(self.path("").to_str().unwrap(), "/machine/").replace("//", "/")
    }
}

pub fn query(cwd: Option<&Path>, overrides: Value) -> ConfigQuery {
    let Value::Object(overrides) = overrides else { panic!("overrides are an object") };
    ConfigQuery { cwd: cwd.map(Path::to_owned), overrides }
}

pub fn read(store: &ConfigStore, cwd: Option<&Path>) -> ConfigReadResponse {
    let cwd = cwd.map(|cwd| cwd.to_str().unwrap().to_owned());
    store.read(&ConfigReadParams { include_layers: true, cwd }).unwrap()
}

pub fn write(store: &ConfigStore, key: &str, value: Value) -> Result<ConfigWriteResponse, WriteError> {
    store.write_value(&replace(key, value))
}

pub fn replace(key: &str, value: Value) -> ConfigValueWriteParams {
    ConfigValueWriteParams {
        key_path: key.to_owned(),
        value,
        merge_strategy: MergeStrategy::Replace,
        file_path: None,
        expected_version: None,
    }
}

/// Returns the response to a client: the result, or the message and data of the error.
pub fn answer(result: Result<ConfigWriteResponse, WriteError>) -> Value {
    match result {
        Ok(response) => json!({ "status": response.status }),
        Err(error) => json!({ "message": error.to_string(), "data": error.data() }),
    }
}
