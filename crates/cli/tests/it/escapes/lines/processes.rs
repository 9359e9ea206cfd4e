//! Attempts on other processes of the same user: the server, and a program beside it.

use super::{Class::*, Line};
use codicil_sandbox::ConfinementGap::{Ipc, Pipes, Signals, Terminals};

pub const LINES: &[Line] = &[
    ("signal-server", DeniedUnless(Signals), "kill -CONT $SERVER"),
    ("signal-neighbour", DeniedUnless(Signals), "kill -CONT $NEIGHBOUR"),
    (
        "signal-by-descriptor",
        DeniedUnless(Signals),
        "py: signal.pidfd_send_signal(os.pidfd_open(number('NEIGHBOUR')), signal.SIGCONT)",
    ),
    (
        "priority-of-server",
        Denied,
        "py: s = number('SERVER'); os.setpriority(os.PRIO_PROCESS, s, os.getpriority(os.PRIO_PROCESS, s))",
    ),
    (
        "scheduler-of-server",
        Denied,
        "py: s = number('SERVER'); os.sched_setscheduler(s, os.sched_getscheduler(s), os.sched_getparam(s))",
    ),
    (
        "scheduler-parameters-of-server",
        Denied,
        "py: s = number('SERVER'); os.sched_setparam(s, os.sched_getparam(s))",
    ),
    (
        "scheduler-attributes-of-server",
        Denied,
        "py: a = ctypes.create_string_buffer(struct.pack('IIQiIQQQ', 48, 0, 0, 0, 0, 0, 0, 0)); call('sched_setattr', number('SERVER'), a, 0)",
    ),
    (
        "processors-of-server",
        Denied,
        "py: s = number('SERVER'); os.sched_setaffinity(s, os.sched_getaffinity(s))",
    ),
    (
        "disk-priority-of-server",
        Denied,
        "py: s = number('SERVER'); call('ioprio_set', 1, s, call('ioprio_get', 1, s))",
    ),
    (
        "limits-of-server",
        Denied,
        "py: import resource; s = number('SERVER'); resource.prlimit(s, resource.RLIMIT_CORE, resource.prlimit(s, resource.RLIMIT_CORE))",
    ),
    ("out-of-memory-score-of-server", Denied, "f=/proc/$SERVER/oom_score_adj; v=$(cat $f) && echo $v > $f"),
    ("core-filter-of-server", Denied, "f=/proc/$SERVER/coredump_filter; v=$(cat $f) && echo 0x$v > $f"),
    ("forget-pages-of-server", Denied, "echo 1 > /proc/$SERVER/clear_refs"),
    ("memory-of-server", Denied, "py: os.open('/proc/%d/mem' % number('SERVER'), os.O_RDWR)"),
    ("memory-map-of-server", Denied, "grep -q codicil /proc/$SERVER/maps"),
    ("descriptors-of-server", Denied, "ls -l /proc/$SERVER/fd/0"),
    ("environment-of-server", Denied, "grep -qa 'escape-secret[-]value' /proc/$SERVER/environ"),
    ("trace-server", Denied, "py: call('ptrace', 0x4206, number('SERVER'), 0, 0)"),
    ("compare-with-server", Denied, "py: call('kcmp', os.getpid(), number('SERVER'), 1, 0, 0)"),
    ("observe-server", Denied, "py: reaches('perf_event_open', None, number('SERVER'), -1, -1, 0)"),
    ("environment-of-neighbour", Denied, "grep -qa 'escape-secret[-]value' /proc/$NEIGHBOUR/environ"),
    ("environment-of-anybody", AbsentForModels, "grep -qas 'escape-secret[-]value' /proc/[0-9]*/environ"),
    ("trace-neighbour", Denied, "py: call('ptrace', 0x4206, number('NEIGHBOUR'), 0, 0)"),
    (
        "read-memory-of-neighbour",
        Denied,
        "py: b = ctypes.create_string_buffer(16); i = struct.pack('QQ', ctypes.addressof(b), 16); r = struct.pack('QQ', number('ADDRESS'), 16); call('process_vm_readv', number('NEIGHBOUR'), i, 1, r, 1, 0)",
    ),
    (
        "write-memory-of-neighbour",
        Denied,
        "py: b = ctypes.create_string_buffer(b'neighbour-secret'); i = struct.pack('QQ', ctypes.addressof(b), 16); r = struct.pack('QQ', number('ADDRESS'), 16); call('process_vm_writev', number('NEIGHBOUR'), i, 1, r, 1, 0)",
    ),
    (
        "memory-file-of-neighbour",
        Denied,
        "py: write('/proc/%d/fd/%d' % (number('NEIGHBOUR'), number('MEMORY_FILE')))",
    ),
    (
        "descriptor-of-neighbour",
        Denied,
        "py: call('pidfd_getfd', os.pidfd_open(number('NEIGHBOUR')), number('MEMORY_FILE'), 0)",
    ),
    (
        "shared-memory-of-neighbour",
        Denied,
        "py: os.write(os.open(os.environ['SHM'], os.O_WRONLY | os.O_APPEND), b'x')",
    ),
    ("memory-segment-of-neighbour", DeniedUnless(Ipc), "py: call('shmat', number('SEGMENT'), 0, 0)"),
    (
        "message-queue-of-neighbour",
        DeniedUnless(Ipc),
        "py: call('mq_open', os.environ['QUEUE'].encode(), os.O_RDWR, 0, None)",
    ),
    (
        "pipe-of-neighbour",
        DeniedUnless(Pipes),
        "py: os.write(os.open(path('SOCKETS', 'fifo'), os.O_WRONLY | os.O_NONBLOCK), b'x')",
    ),
    (
        "write-terminal-of-neighbour",
        Denied,
        "py: os.write(os.open(os.environ['TERMINAL'], os.O_WRONLY | os.O_NOCTTY), b'x')",
    ),
    (
        "read-terminal-of-neighbour",
        DeniedUnless(Terminals),
        "py: os.open(os.environ['TERMINAL'], os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)",
    ),
    (
        "type-into-terminal-of-neighbour",
        Denied,
        "py: fcntl.ioctl(os.open(os.environ['TERMINAL'], os.O_RDWR | os.O_NOCTTY), 0x5412, b'x')",
    ),
    ("type-into-own-terminal", Absent, "py: fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), 0x5412, b'x')"),
    ("own-environment", AbsentForModels, "env | grep -q 'escape-secret[-]value'"),
    (
        "inherited-descriptors",
        Absent,
        "py: assert [n for n in os.listdir('/proc/self/fd') if int(n) > 2 and os.path.lexists('/proc/self/fd/' + n)]",
    ),
    ("gains-privileges-by-exec", Absent, "grep -q '^NoNewPrivs:.0' /proc/self/status"),
    ("has-capabilities", Absent, "grep -Eq '^Cap(Eff|Prm|Inh|Amb):.*[1-9a-f]' /proc/self/status"),
    ("setuid-program", Denied, "test \"$($SETUID_ID -u)\" != \"$(id -u)\""),
];
