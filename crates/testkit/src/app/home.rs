//! A temporary directory with a server's home and a workspace.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A server's home and a workspace, which are removed when this value is dropped.
pub struct TestHome {
    _root: TempDir,
    home: PathBuf,
    workspace: PathBuf,
}

/// The two directories, for clients and transcripts.
#[derive(Clone)]
pub(super) struct HomePlaces {
    pub home: PathBuf,
    pub workspace: PathBuf,
}

impl TestHome {
    /// Writes `config.toml` with these keys and, if there is a model, its provider with the keys in
    /// `provider`.
    pub fn new(config: &str, model_url: Option<String>, provider: &str) -> Self {
        let root = tempfile::Builder::new().prefix("codicil-").tempdir().expect("a temporary directory");
        // The server resolves links, so the paths here must be resolved too.
        let base = root.path().canonicalize().expect("the directory exists");
        let home = base.join("home");
        let workspace = base.join("work");
        fs::create_dir(&home).expect("the directory is new");
        fs::create_dir(&workspace).expect("the directory is new");
        fs::write(home.join("config.toml"), configuration(config, model_url, provider))
            .expect("the home is writable");
        Self { _root: root, home, workspace }
    }

    /// Returns the directory with configuration and threads.
    pub fn path(&self) -> &Path {
        &self.home
    }

    /// Returns the default working directory of threads.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn places(&self) -> HomePlaces {
        HomePlaces { home: self.home.clone(), workspace: self.workspace.clone() }
    }
}

fn configuration(keys: &str, model_url: Option<String>, provider: &str) -> String {
    let Some(url) = model_url else { return keys.to_owned() };
    // Commands must not depend on the shell profile of the user.
    let mut text =
        "model = \"mock-model\"\nmodel_provider = \"mock\"\nallow_login_shell = false\n".to_owned();
    // Keys of the top level must come before the first table, the test's own tables may follow.
    text.push_str(keys);
    let _ = write!(
        text,
        "\n[model_providers.mock]\nname = \"mock\"\nbase_url = \"{url}\"\nwire_api = \"responses\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n{provider}"
    );
    text
}
