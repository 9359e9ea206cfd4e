//! Attempts on the server's own home: credentials, stored threads, configuration.

use super::{Class::*, Line};

pub const LINES: &[Line] = &[
    ("read-credentials", Denied, "grep -q 'escape-secret[-]value' $SERVER_HOME/auth.json"),
    (
        "read-credentials-through-root",
        Denied,
        "grep -q 'escape-secret[-]value' /proc/self/root$SERVER_HOME/auth.json",
    ),
    (
        "read-credentials-through-link",
        Denied,
        "ln -s $SERVER_HOME $SRC/l && grep -q 'escape-secret[-]value' $SRC/l/auth.json",
    ),
    (
        "read-credentials-by-hard-link",
        Denied,
        "ln $SERVER_HOME/auth.json $SRC/hard && grep -q 'escape-secret[-]value' $SRC/hard",
    ),
    ("read-server-credentials", Denied, "grep -q 'escape-secret[-]value' $SERVER_HOME/.credentials.json"),
    ("read-configured-token", Denied, "grep -q 'escape-secret[-]value' $SERVER_HOME/config.toml"),
    ("read-stored-threads", Denied, "cat \"$(find $SERVER_HOME/sessions -name '*.jsonl' | head -n 1)\""),
    (
        "lock-stored-threads",
        Denied,
        "py: f = [os.path.join(d, n) for d, _, names in os.walk(path('SERVER_HOME', 'sessions')) for n in names]; fcntl.flock(os.open(f[0], os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    (
        "lock-anything-of-home",
        Denied,
        "py: found = [os.path.join(d, n) for d, _, names in os.walk(path('SERVER_HOME')) for n in names if n.endswith('.lock') or 'sqlite' in n]; fcntl.flock(os.open(found[0], os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    ("read-index", Denied, "head -c 1 $(find $SERVER_HOME -name '*sqlite*' | head -n 1) | grep -q ."),
    ("write-configuration", Denied, "echo '# x' >> $SERVER_HOME/config.toml"),
    (
        "replace-configuration",
        Denied,
        "cp $SERVER_HOME/config.toml $SRC/c && mv $SRC/c $SERVER_HOME/config.toml",
    ),
    (
        "write-rules",
        Denied,
        "mkdir -p $SERVER_HOME/rules && echo > $SERVER_HOME/rules/escape.rules && rm $SERVER_HOME/rules/escape.rules",
    ),
    ("write-hooks", Denied, "echo '{}' > $SERVER_HOME/hooks.json && rm $SERVER_HOME/hooks.json"),
    ("write-skills", Denied, "mkdir -p $SERVER_HOME/skills/escape && rmdir $SERVER_HOME/skills/escape"),
    ("write-instructions", Denied, "echo x > $SERVER_HOME/AGENTS.md && rm $SERVER_HOME/AGENTS.md"),
    ("write-stored-threads", Denied, "d=$SERVER_HOME/sessions/escape && mkdir -p $d && rmdir $d"),
];
