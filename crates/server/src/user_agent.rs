//! The `User-Agent` of requests to upstream services on behalf of a client.

use std::{env, fs, sync::LazyLock};

use crate::clients::ClientSession;

/// Returns `NAME/VERSION (OS VERSION; ARCH) TERMINAL (NAME; CLIENTVERSION)`. Clients parse its beginning.
pub fn user_agent(session: &ClientSession, announced_version: &str) -> String {
    let ClientSession { name, version: client_version, .. } = session;
    let os = &*OPERATING_SYSTEM;
    let arch = env::consts::ARCH;
    let terminal = terminal();
    let agent = format!("{name}/{announced_version} ({os}; {arch}) {terminal} ({name}; {client_version})");
    // The client's name may contain any character, but an HTTP header may not.
    agent
        .chars()
        .map(|letter| if letter == ' ' || letter.is_ascii_graphic() { letter } else { '_' })
        .collect()
}

/// Read once: it does not change while the server runs, and every turn needs it.
static OPERATING_SYSTEM: LazyLock<String> = LazyLock::new(|| {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let name = value("NAME").unwrap_or_else(|| env::consts::OS.to_owned());
    let version = value("VERSION_ID").unwrap_or_else(|| "unknown".to_owned());
    format!("{name} {version}")
});

fn terminal() -> String {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    match (set("TERM_PROGRAM"), set("TERM_PROGRAM_VERSION")) {
        (Some(program), Some(version)) => format!("{program}/{version}"),
        (Some(program), None) => program,
        (None, _) => set("TERM").unwrap_or_else(|| "unknown".to_owned()),
    }
}
