//! The process `chromedriver`, which starts browsers and talks WebDriver.

use std::{env, path::PathBuf, process::Stdio, sync::Arc};

use codicil_testkit::skipped;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A running `chromedriver`. Ended with its browsers when dropped.
pub struct DriverProcess {
    _child: Child,
    pub url: String,
}

impl DriverProcess {
    /// Starts the driver on a free port. Returns `None`, and reports the test as skipped, where there is none.
    pub async fn start() -> Option<Arc<Self>> {
        let (Some(driver), Some(_)) = (program("chromedriver"), program("chromium")) else {
            skipped("chromium or chromedriver is not installed");
            return None;
        };
        let mut command = Command::new(driver);
        command
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("chromedriver starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        while let Some(line) = lines.next_line().await.expect("chromedriver writes text") {
            if let Some((_, port)) = line.split_once("started successfully on port ") {
                let url = format!("http://127.0.0.1:{}", port.trim_end_matches('.'));
                return Some(Arc::new(Self { _child: child, url }));
            }
        }
        panic!("chromedriver ended before it was ready");
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
