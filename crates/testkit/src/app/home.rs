//! A temporary directory with the server's home and a workspace in it.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

/// A home for a server and a workspace beside it; both are removed with this value.
pub struct TestHome {
    _root: TempDir,
    home: PathBuf,
    workspace: PathBuf,
}

/// The two directories, for those who must know or hide them.
#[derive(Clone)]
pub(super) struct HomePlaces {
    pub home: PathBuf,
    pub workspace: PathBuf,
}

impl TestHome {
    /// Writes `config.toml`: the given keys and, if there is one, the model's provider with more keys of its own.
    pub fn new(config: &str, model_url: Option<String>, provider: &str) -> Self {
        let root = tempfile::Builder::new().prefix("codicil-").tempdir().expect("a temporary directory");
        // Servers resolve links; names must be the same on both sides.
        let base = root.path().canonicalize().expect("the directory exists");
        let (home, workspace) = (base.join("home"), base.join("work"));
        fs::create_dir(&home).expect("the directory is new");
        fs::create_dir(&workspace).expect("the directory is new");
        fs::write(home.join("config.toml"), configuration(config, model_url, provider))
            .expect("the home is writable");
        Self { _root: root, home, workspace }
    }

    /// The directory with configuration and threads.
    pub fn path(&self) -> &Path {
        &self.home
    }

    /// Where threads work that name no directory.
    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    pub(super) fn places(&self) -> HomePlaces {
        HomePlaces { home: self.home.clone(), workspace: self.workspace.clone() }
    }
}

fn configuration(keys: &str, model_url: Option<String>, provider: &str) -> String {
    let Some(url) = model_url else { return keys.to_owned() };
    // Commands must not depend on the profile of whoever runs the test.
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
