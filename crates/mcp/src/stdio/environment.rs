//! The environment of a server process: a few default variables and those that its configuration names.

use codicil_exec::ProcessEnvironment;

use crate::config::StdioConfig;

/// Variables that every server inherits. The whole environment would expose the keys of model providers.
const INHERITED: [&str; 14] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "__CF_USER_TEXT_ENCODING",
];

/// Builds the environment of a server from this process's own.
pub(super) fn of(config: &StdioConfig, own: &ProcessEnvironment) -> ProcessEnvironment {
    let names = INHERITED.iter().copied().chain(config.env_vars.iter().map(String::as_str));
    let mut env: ProcessEnvironment =
        names.filter_map(|name| own.get_key_value(name.as_ref() as &std::ffi::OsStr)).map(cloned).collect();
    env.extend(config.env.iter().map(|(name, value)| (name.into(), value.into())));
    env
}

fn cloned<A: Clone, B: Clone>((name, value): (&A, &B)) -> (A, B) {
    (name.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_server_gets_default_and_named_variables() {
        let own = ["PATH", "OPENAI_API_KEY", "WANTED", "LANG"];
        let own: ProcessEnvironment = own.iter().map(|name| (name.into(), "own".into())).collect();
        let config = StdioConfig {
            command: "x".into(),
            args: vec![],
            env: BTreeMap::from([("LANG".into(), "set".into()), ("NEW".into(), "set".into())]),
            env_vars: vec!["WANTED".into(), "MISSING".into()],
            cwd: None,
        };
        let env = of(&config, &own);
        let shown: Vec<String> =
            env.iter().map(|(name, value)| format!("{}={}", name.display(), value.display())).collect();
        assert_eq!(shown, ["LANG=set", "NEW=set", "PATH=own", "WANTED=own"]);
    }
}
