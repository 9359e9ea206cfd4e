//! Attempts on the kernel and its settings, and with namespaces.

use super::{Class::*, Line};

pub const LINES: &[Line] = &[
    ("user-namespace", Denied, "unshare -U true"),
    ("mount-namespace", Denied, "unshare -m true"),
    ("network-namespace", Denied, "unshare -n true"),
    ("process-namespace", Denied, "unshare -p --fork true"),
    ("control-group-namespace", Denied, "unshare -C true"),
    (
        "namespace-of-neighbour",
        Denied,
        "py: call('setns', os.open('/proc/%d/ns/net' % number('NEIGHBOUR'), os.O_RDONLY), 0)",
    ),
    ("new-file-system", Denied, "py: reaches('fsopen', b'tmpfs', 0)"),
    ("kernel-setting", Denied, "f=/proc/sys/vm/swappiness; v=$(cat $f) && echo $v > $f"),
    ("core-pattern", Denied, "f=/proc/sys/kernel/core_pattern; v=$(cat $f) && echo \"$v\" > $f"),
    ("module-helper", Denied, "f=/proc/sys/kernel/modprobe; v=$(cat $f) && echo \"$v\" > $f"),
    (
        "device-setting",
        Denied,
        "f=/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs; v=$(cat $f) && echo $v > $f",
    ),
    ("control-group", Denied, "mkdir /sys/fs/cgroup/codicil-escape && rmdir /sys/fs/cgroup/codicil-escape"),
    ("system-request", Denied, ": >> /proc/sysrq-trigger"),
    ("host-name", Denied, "py: socket.sethostname(socket.gethostname())"),
    ("load-module", Denied, "py: reaches('init_module', None, 0, b'')"),
    ("load-program", Denied, "py: reaches('bpf', 0, None, 0)"),
    ("queue-of-calls", Denied, "py: reaches('io_uring_setup', 0, None)"),
    ("page-faults", Denied, "py: reaches('userfaultfd', 0)"),
    ("add-key", Denied, "py: call('add_key', b'user', b'codicil-escape', b'x', 1, -2)"),
    ("join-keyring", Denied, "py: call('keyctl', 1, 0, 0, 0, 0)"),
    ("watch-files", Denied, "py: call('fanotify_init', 0, 0)"),
    ("kernel-log", Denied, "py: call('syslog', 10, 0, 0)"),
    ("write-kernel-log", Denied, "py: os.open('/dev/kmsg', os.O_WRONLY)"),
    ("kernel-memory", Denied, "py: os.open('/dev/mem', os.O_RDONLY)"),
    (
        "raw-disk",
        Denied,
        "for d in /dev/vd? /dev/sd? /dev/nvme?n1; do test -b $d && head -c 1 $d && exit 0; done; exit 1",
    ),
    ("disk-device-inside", Denied, "mknod $SRC/disk b $(stat -c '%Hd %Ld' $SRC) && head -c 1 $SRC/disk"),
    ("character-device-inside", Denied, "mknod $SRC/null c 1 3"),
    ("tunnel-device", Denied, "py: os.open('/dev/net/tun', os.O_RDWR)"),
    ("file-system-device", Denied, "py: os.open('/dev/fuse', os.O_RDWR)"),
    ("loop-device", Denied, "py: os.open('/dev/loop-control', os.O_RDWR)"),
];
