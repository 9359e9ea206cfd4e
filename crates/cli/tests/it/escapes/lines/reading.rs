//! Policies that restrict reading, or writing altogether.

use super::{Class::*, Line};

/// Nothing outside of the workspace can be read but what programs need.
pub const RESTRICTED: &[Line] = &[
    ("restricted-read", Denied, "cat $OUT/file"),
    ("restricted-list", Denied, "ls $OUT"),
    ("restricted-read-secret", Denied, "cat $OUTSIDE/secret"),
    ("restricted-read-through-link", Denied, "ln -s $OUT/file $SRC/l && cat $SRC/l"),
    ("restricted-read-through-known-link", Denied, "cat $WORK/link/secret"),
    ("restricted-read-by-hard-link", Denied, "ln $OUT/file $SRC/hard && cat $SRC/hard"),
    ("restricted-read-by-renaming", Denied, "mv $OUT/file $SRC/taken && cat $SRC/taken"),
    ("restricted-read-through-root", Denied, "cat /proc/self/root$OUT/file"),
    ("restricted-read-through-server", Denied, "cat /proc/$SERVER/root$OUT/file"),
    ("restricted-read-through-neighbour", Denied, "cat /proc/$NEIGHBOUR/root$OUT/file"),
    ("restricted-read-in-namespace", Denied, "unshare -Ur cat $OUT/file"),
    ("restricted-run", Denied, "cp /bin/true $OUT/program && $OUT/program"),
    ("restricted-credentials", Denied, "cat $SERVER_HOME/auth.json"),
    ("restricted-write-outside", Denied, "echo x > $OUT/file"),
    ("restricted-read-inside", Allowed, "cat $SRC/mine"),
    ("restricted-write-inside", Allowed, "echo x > $SRC/new && cat $SRC/new"),
    ("restricted-programs", Allowed, "ls /usr/bin >/dev/null && echo a | sed s/a/b/ | grep -q b"),
];

/// Nothing can be written.
pub const READ_ONLY: &[Line] = &[
    ("read-only-write-inside", Denied, "echo x > $SRC/new"),
    ("read-only-change-inside", Denied, "echo x >> $SRC/mine"),
    ("read-only-remove-inside", Denied, "rm $SRC/mine"),
    ("read-only-write-outside", Denied, "echo x > $OUT/file"),
    ("read-only-write-tmp", Denied, "f=/tmp/codicil-escape-$$ && echo x > $f && rm $f"),
    ("read-only-write-tmpdir", Denied, "f=$TMPDIR/codicil-escape-$$ && echo x > $f && rm $f"),
    (
        "read-only-lock-stored-threads",
        Denied,
        "py: f = [os.path.join(d, n) for d, _, names in os.walk(path('SERVER_HOME', 'sessions')) for n in names]; fcntl.flock(os.open(f[0], os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    ),
    ("read-only-read", Allowed, "cat $SRC/mine $OUT/file /etc/passwd"),
    ("read-only-pipes", Allowed, "echo a | sed s/a/b/ | grep -q b"),
];
