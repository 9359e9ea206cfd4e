//! A temporary directory with a home and a workspace for the demo.

use std::{fs, io, path::PathBuf};

use codicil_client::ServerLaunch;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::database::STORE_VARIABLE;

const SCRIPT: &str = include_str!("script.toml");

pub struct DemoHome {
    root: TempDir,
    base: PathBuf,
}

impl DemoHome {
    pub fn new() -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("codicil-demo-").tempdir()?;
        // The server resolves links, so the paths here must be resolved too.
        let base = root.path().canonicalize()?;
        let demo = Self { root, base };
        fs::create_dir(demo.home())?;
        fs::create_dir(demo.work())?;
        fs::write(demo.work().join("greeting.txt"), "Helo, world!\n")?;
        fs::write(demo.home().join("script.toml"), SCRIPT)?;
        fs::write(demo.home().join("config.toml"), demo.config())?;
        Ok(demo)
    }

    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// The working directory of the agent.
    pub fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// A path outside the workspace, where writing needs an approval.
    pub fn outside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Returns the command line of the server: this program, with the demo's home. The shell only writes the id of the
    /// process down and becomes the server.
    pub fn server(&self) -> io::Result<ServerLaunch> {
        let program = std::env::current_exe()?;
        let script = "echo $$ > \"$1\" && exec \"$0\" app-server";
        let launch = ServerLaunch::command(["sh", "-c", script]).arg(program).arg(self.process_file());
        // Never in a database: the demo leaves nothing behind.
        Ok(launch.env("CODICIL_HOME", self.home()).env(STORE_VARIABLE, "").cwd(self.work()))
    }

    /// Kills the server, as a crash or the operating system would.
    pub fn kill_server(&self) -> io::Result<()> {
        let id = fs::read_to_string(self.process_file())?;
        let id = id.trim().parse().ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the id of the server's process is unknown"))?;
        Ok(kill_process(id, Signal::KILL)?)
    }

    fn process_file(&self) -> PathBuf {
        self.base.join("server.pid")
    }

    /// Returns the configuration. The workspace is below the temporary directory, which commands may usually
    /// write to, so that is excluded. Login shells are off, so that the user's profile does not print into
    /// the demo.
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
