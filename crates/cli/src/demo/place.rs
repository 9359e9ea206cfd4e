//! A temporary directory with a home and a workspace; gone when the demo is over.

use std::{fs, io, path::PathBuf};

use codicil_client::ServerLaunch;
use tempfile::TempDir;

const SCRIPT: &str = include_str!("script.toml");

pub struct DemoHome {
    root: TempDir,
    base: PathBuf,
}

impl DemoHome {
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("codicil-demo-").tempdir()?;
        // Servers resolve links; names must be the same on both sides.
        let base = root.path().canonicalize()?;
        let place = Self { root, base };
        fs::create_dir(place.home())?;
        fs::create_dir(place.work())?;
        fs::write(place.work().join("greeting.txt"), "Helo, world!\n")?;
        fs::write(place.home().join("script.toml"), SCRIPT)?;
        fs::write(place.home().join("config.toml"), place.config())?;
        Ok(place)
    }

    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// Where the agent works.
    pub fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// Beside the workspace, where the agent must not write by itself.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// The server: this program, with the demo's home.
    pub fn server(&self) -> io::Result<ServerLaunch> {
        let program = std::env::current_exe()?;
        Ok(ServerLaunch::new(program).env("CODICIL_HOME", self.home()).cwd(self.work()))
    }

    /// The workspace lies in a temporary directory, which commands may usually write to; here they may not. What
    /// the profile of this machine prints is not the demo's.
    fn config(&self) -> String {
        let script = self.home().join("script.toml");
        format!(
            "model = \"scripted\"\nmodel_provider = \"demo\"\napproval_policy = \"on-request\"\n\
             allow_login_shell = false\nsandbox_mode = \"workspace-write\"\n\n[sandbox_workspace_write]\nexclude_slash_tmp = true\n\
             exclude_tmpdir_env_var = true\n\n[model_providers.demo]\nname = \"The demo's script\"\n\
             wire_api = \"scripted\"\nscript = {}\n",
            serde_json::Value::from(script.to_string_lossy())
        )
    }
}

impl Drop for DemoHome {
    fn drop(&mut self) {
        tracing::debug!("removing {}", self.root.path().display());
    }
}
