//! Attempts to change the machine: kernel settings, devices, mounts, namespaces, and system calls with a history of
//! vulnerabilities.
//!
//! Harmful ones are made with arguments that the kernel refuses after it has checked the privilege.

use std::{fs::OpenOptions, os::unix::fs::OpenOptionsExt, path::Path};

use crate::{
    context::{Outcome, c, call},
    files::mknod,
    table::{Attempt, Class::*},
};

/// Not a valid address: nothing is read or written.
const NOWHERE: usize = 1;

pub const ATTEMPTS: &[Attempt] = &[
    ("proc-sys", Forbidden, |_| open_to_write("/proc/sys/vm/swappiness")),
    ("proc-sys-kernel", Forbidden, |_| open_to_write("/proc/sys/kernel/core_pattern")),
    ("proc-sysrq", Forbidden, |_| open_to_write("/proc/sysrq-trigger")),
    ("proc-own-limits", Forbidden, |s| open_to_write(&format!("/proc/{}/oom_score_adj", s.server()))),
    ("sys-kernel", Forbidden, |_| open_to_write("/sys/kernel/mm/transparent_hugepage/enabled")),
    ("sys-power", Forbidden, |_| open_to_write("/sys/power/state")),
    ("sys-cgroup", Forbidden, |_| std::fs::create_dir("/sys/fs/cgroup/attempt")),
    ("memory-device", Forbidden, |_| open_to_write("/dev/mem")),
    ("kernel-log", Forbidden, |_| open_to_write("/dev/kmsg")),
    ("disk", Forbidden, |_| {
        let disks = std::fs::read_dir("/sys/block")?.flatten();
        let disks = disks.map(|disk| Path::new("/dev").join(disk.file_name())).collect::<Vec<_>>();
        let mut last = Err(std::io::Error::from_raw_os_error(libc::ENOENT));
        for disk in disks {
            last = open_to_write(disk.to_str().unwrap());
            if last.is_ok() {
                break;
            }
        }
        last
    }),
    ("character-device", Forbidden, |s| mknod(&s.inside().join("device"), libc::S_IFCHR)),
    ("block-device", Forbidden, |s| mknod(&s.inside().join("device"), libc::S_IFBLK)),
    ("mount", Filtered, |s| {
        let kind = c"tmpfs".as_ptr() as usize;
        let target = c(&s.inside());
        call(libc::SYS_mount, &[kind, target.as_ptr() as usize, kind]).map(drop)
    }),
    ("mount-writable-again", Filtered, |_| {
        let root = c"/".as_ptr() as usize;
        call(libc::SYS_mount, &[0, root, 0, (libc::MS_REMOUNT | libc::MS_BIND) as usize]).map(drop)
    }),
    ("unmount", Filtered, |s| {
        let target = c(&s.repository().join(".git"));
        call(libc::SYS_umount2, &[target.as_ptr() as usize, libc::MNT_DETACH as usize]).map(drop)
    }),
    ("new-mount", Filtered, |_| call(libc::SYS_fsopen, &[c"tmpfs".as_ptr() as usize]).map(drop)),
    ("configure-mount", Filtered, |_| call(libc::SYS_fsconfig, &[0]).map(drop)),
    ("finish-mount", Filtered, |_| call(libc::SYS_fsmount, &[0]).map(drop)),
    ("pick-mount", Filtered, |_| call(libc::SYS_fspick, &[0, NOWHERE]).map(drop)),
    ("copy-mount", Filtered, |_| {
        call(libc::SYS_open_tree, &[libc::AT_FDCWD as usize, c"/".as_ptr() as usize, 1]).map(drop)
    }),
    ("copy-mount-with-attributes", Filtered, |_| call(467, &[0]).map(drop)),
    ("move-mount", Filtered, |_| call(libc::SYS_move_mount, &[0]).map(drop)),
    ("mount-attributes", Filtered, |_| {
        call(libc::SYS_mount_setattr, &[libc::AT_FDCWD as usize, c"/".as_ptr() as usize, 0, NOWHERE, 32])
            .map(drop)
    }),
    ("change-root", Filtered, |s| call(libc::SYS_chroot, &[c(&s.inside()).as_ptr() as usize]).map(drop)),
    ("pivot-root", Filtered, |_| call(libc::SYS_pivot_root, &[NOWHERE, NOWHERE]).map(drop)),
    ("unshare-user", Filtered, |_| unshare(libc::CLONE_NEWUSER)),
    ("unshare-mount", Filtered, |_| unshare(libc::CLONE_NEWNS)),
    ("unshare-network", Filtered, |_| unshare(libc::CLONE_NEWNET)),
    ("unshare-nothing", Filtered, |_| unshare(0)),
    ("clone-user", Filtered, |_| clone(libc::CLONE_NEWUSER)),
    ("clone-mount", Filtered, |_| clone(libc::CLONE_NEWNS)),
    ("clone-pid", Filtered, |_| clone(libc::CLONE_NEWPID)),
    ("clone-network", Filtered, |_| clone(libc::CLONE_NEWNET)),
    ("clone-ipc", Filtered, |_| clone(libc::CLONE_NEWIPC)),
    ("clone-uts", Filtered, |_| clone(libc::CLONE_NEWUTS)),
    ("clone-cgroup", Filtered, |_| clone(libc::CLONE_NEWCGROUP)),
    ("clone3", Filtered, |_| call(libc::SYS_clone3, &[NOWHERE, 64]).map(drop)),
    ("join-namespace", Filtered, |_| call(libc::SYS_setns, &[0, 0]).map(drop)),
    ("io-uring", Filtered, |_| call(libc::SYS_io_uring_setup, &[1, NOWHERE]).map(drop)),
    ("io-uring-enter", Filtered, |_| call(libc::SYS_io_uring_enter, &[0]).map(drop)),
    ("io-uring-register", Filtered, |_| call(libc::SYS_io_uring_register, &[0]).map(drop)),
    ("bpf", Filtered, |_| call(libc::SYS_bpf, &[0, NOWHERE, 8]).map(drop)),
    ("keyctl", Filtered, |_| call(libc::SYS_keyctl, &[0]).map(drop)),
    ("add-key", Filtered, |_| call(libc::SYS_add_key, &[NOWHERE, NOWHERE]).map(drop)),
    ("request-key", Filtered, |_| call(libc::SYS_request_key, &[NOWHERE, NOWHERE]).map(drop)),
    ("performance-events", Filtered, |_| call(libc::SYS_perf_event_open, &[NOWHERE]).map(drop)),
    ("page-faults", Filtered, |_| call(libc::SYS_userfaultfd, &[0]).map(drop)),
    ("file-events", Filtered, |_| call(libc::SYS_fanotify_init, &[0, 0]).map(drop)),
    ("open-by-handle", Filtered, |_| call(libc::SYS_open_by_handle_at, &[0, NOWHERE]).map(drop)),
    ("kexec", Filtered, |_| call(libc::SYS_kexec_load, &[0, 0, 0, usize::MAX]).map(drop)),
    ("load-module", Filtered, |_| call(libc::SYS_init_module, &[NOWHERE, 0, NOWHERE]).map(drop)),
    ("load-module-file", Filtered, |_| call(libc::SYS_finit_module, &[usize::MAX, NOWHERE]).map(drop)),
    ("unload-module", Filtered, |_| call(libc::SYS_delete_module, &[NOWHERE]).map(drop)),
    ("reboot", Filtered, |_| call(libc::SYS_reboot, &[0, 0, 0]).map(drop)),
    ("swap", Filtered, |_| call(libc::SYS_swapon, &[NOWHERE]).map(drop)),
    ("accounting", Filtered, |_| call(libc::SYS_acct, &[NOWHERE]).map(drop)),
    ("quota", Filtered, |_| call(libc::SYS_quotactl, &[usize::MAX]).map(drop)),
    ("kernel-messages", Filtered, |_| call(libc::SYS_syslog, &[10]).map(drop)),
    ("clock", Filtered, |_| call(libc::SYS_clock_settime, &[0, NOWHERE]).map(drop)),
    ("time-of-day", Filtered, |_| call(libc::SYS_settimeofday, &[NOWHERE]).map(drop)),
    ("host-name", Filtered, |_| call(libc::SYS_sethostname, &[NOWHERE, 1]).map(drop)),
    ("hang-up", Filtered, |_| call(libc::SYS_vhangup, &[]).map(drop)),
    #[cfg(target_arch = "x86_64")]
    ("ports", Filtered, |_| call(libc::SYS_iopl, &[3]).map(drop)),
    #[cfg(target_arch = "x86_64")]
    ("second-numbering", Filtered, |_| call(0x4000_0000 | libc::SYS_getpid, &[]).map(drop)),
    #[cfg(target_arch = "x86_64")]
    ("foreign-architecture", Forbidden, |_| {
        let result: u32;
        // SAFETY: number 20 of the 32-bit table is getpid, which takes nothing.
        unsafe { std::arch::asm!("int 0x80", inlateout("eax") 20u32 => result) };
        // If the call returns at all, it is the id of this process.
        assert_eq!(result, std::process::id());
        Ok(())
    }),
];

fn open_to_write(path: &str) -> Outcome {
    OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path).map(drop)
}

fn unshare(flags: i32) -> Outcome {
    call(libc::SYS_unshare, &[flags as usize]).map(drop)
}

fn clone(flag: i32) -> Outcome {
    // The child, if there is one, has its own memory, as after `fork`.
    match call(libc::SYS_clone, &[(flag | libc::SIGCHLD) as u32 as usize])? {
        // SAFETY: ends the child at once.
        0 => unsafe { libc::_exit(0) },
        _ => Ok(()),
    }
}
