//! The system calls that a node never makes, refused by the kernel with EPERM from start to end (seccomp).
//!
//! The filter lists what is refused, not what is allowed: the C library, the allocator and the cryptography library
//! choose calls that differ between their versions, and a node that dies of an update protects nobody. What is on the
//! list reaches other processes, mounts, namespaces, devices, the kernel's modules and programs, other users' rights, or
//! parts of the kernel that a node does not use.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Why the filter cannot be set up.
#[derive(Debug, thiserror::Error)]
pub(super) enum FilterError {
    /// The filter cannot be compiled, such as for a processor that the compiler does not know.
    #[error("the system call filter cannot be compiled: {0}")]
    Compile(#[from] BackendError),
    /// The kernel does not take the filter.
    #[error("the kernel does not accept the system call filter: {0}")]
    Apply(#[from] seccompiler::Error),
}

/// Calls that a node never makes, on every processor.
const REFUSED: &[libc::c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Programs that are in no folder, such as in memory alone; an upgrade starts one by its path.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_execveat,
    // What Landlock lets pass: owners and attributes of files by their paths. The database changes the owners of files that
    // it has opened.
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    // The kernel itself.
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_syslog,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    // Large parts of the kernel that a node does not use; io_uring also gets around this filter.
    libc::SYS_userfaultfd,
    libc::SYS_fanotify_init,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // The machine's clock and name.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    // Other users' rights.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
];

/// The same, where the processor has them.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_mknod,
    libc::SYS_uselib,
    libc::SYS_chown,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[libc::c_long] = &[];

/// Calls that start a program, which a node makes for an upgrade alone.
const START: &[libc::c_long] = &[libc::SYS_execve];

/// Added to the number of a call by programs with 32-bit pointers on x86-64, where the kernel takes them.
const X32: libc::c_long = if cfg!(target_arch = "x86_64") { 0x4000_0000 } else { 0 };
/// Calls above that have another number there: ptrace, kexec_load, process_vm_readv, process_vm_writev and execveat.
const X32_REFUSED: [libc::c_long; 5] = [521, 528, 539, 540, 545];
/// The same of the calls that start a program.
const X32_START: [libc::c_long; 1] = [520];

/// The families of sockets that a node uses; name resolution asks the kernel for addresses by netlink.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Flags of `clone` that make a namespace.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refuses the calls to this thread and all that it starts from now on, for good; also those that start a program unless
/// `may_start_programs`. No program that is started gains rights by its file (no_new_privs).
pub(super) fn restrict(may_start_programs: bool) -> Result<(), FilterError> {
    // The library of threads turns to `clone` if this is not there, and only that shows its flags to a filter.
    let absent: Rules = both(&[libc::SYS_clone3]).map(|call| (call, Vec::new())).collect();
    let not_there = compiled(absent, libc::ENOSYS)?;
    let refused = compiled(refused(may_start_programs)?, libc::EPERM)?;
    seccompiler::apply_filter(&not_there)?;
    seccompiler::apply_filter(&refused)?;
    Ok(())
}

/// How many calls are refused whatever their arguments are.
pub(super) fn refused_count(may_start_programs: bool) -> usize {
    REFUSED.len() + REFUSED_HERE.len() + if may_start_programs { 0 } else { START.len() }
}

fn refused(may_start_programs: bool) -> Result<Rules, BackendError> {
    let always = both(REFUSED).chain(both(REFUSED_HERE)).chain(of_x32(&X32_REFUSED));
    let start = both(START).chain(of_x32(&X32_START)).filter(|_| !may_start_programs);
    let mut rules: Rules = always.chain(start).map(|call| (call, Vec::new())).collect();
    let other_families = FAMILIES.iter().map(|family| argument(SeccompCmpOp::Ne, *family));
    let other_families = SeccompRule::new(other_families.collect::<Result<_, _>>()?)?;
    for call in both(&[libc::SYS_socket]) {
        rules.insert(call, vec![other_families.clone()]);
    }
    let makes = |flag: &libc::c_int| SeccompRule::new(vec![argument(masked(*flag), *flag)?]);
    let namespaces = NAMESPACES.iter().map(makes).collect::<Result<Vec<_>, _>>()?;
    for call in both(&[libc::SYS_clone]) {
        rules.insert(call, namespaces.clone());
    }
    Ok(rules)
}

/// A condition on the first argument.
fn argument(op: SeccompCmpOp, value: libc::c_int) -> Result<SeccompCondition, BackendError> {
    SeccompCondition::new(0, SeccompCmpArgLen::Dword, op, bits(value))
}

fn masked(flag: libc::c_int) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(bits(flag))
}

fn bits(value: libc::c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

/// The numbers of calls, by each way that they can be made.
fn both(calls: &'static [libc::c_long]) -> impl Iterator<Item = i64> {
    calls.iter().copied().chain(of_x32(calls))
}

/// The numbers that programs with 32-bit pointers have to write; none but on x86-64.
fn of_x32(calls: &'static [libc::c_long]) -> impl Iterator<Item = i64> {
    calls.iter().filter(|_| X32 != 0).map(|call| call | X32)
}

fn compiled(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let action = SeccompAction::Errno(errno.cast_unsigned());
    BpfProgram::try_from(SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?)
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests; a thread of its own is the only one that the filter holds"
)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What `perl` prints of calls with arguments that no call takes: `number errno` each. It is started by a thread that
    /// is held by the filter if `held`, and so is held too.
    fn errors(calls: Vec<i64>, held: bool) -> Vec<(i64, i32)> {
        let probe = "for (@ARGV) { syscall($_, -1, -1, -1, -1, -1, -1); printf(\"%d %d\\n\", $_, $!) }";
        let run = move || {
            if held {
                restrict(true).unwrap();
            }
            Command::new("perl").args(["-e", probe]).args(calls.iter().map(i64::to_string)).output().unwrap()
        };
        let output = std::thread::spawn(run).join().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let pair = |line: &str| {
            let (call, errno) = line.split_once(' ').unwrap();
            (call.parse().unwrap(), errno.parse().unwrap())
        };
        lines.lines().map(pair).collect()
    }

    #[test]
    fn every_call_on_the_list_is_refused_inside() {
        let calls: Vec<i64> = REFUSED.iter().chain(REFUSED_HERE).copied().collect();
        let wrong: Vec<_> =
            errors(calls.clone(), true).into_iter().filter(|(_, errno)| *errno != libc::EPERM).collect();
        assert_eq!(wrong, [], "calls that are made all the same, with their errors");
        assert_eq!(errors(calls.clone(), true).len(), calls.len());
    }

    #[test]
    fn outside_the_kernel_looks_at_what_is_asked() {
        // Harmless by their arguments.
        let calls = vec![libc::SYS_mount, libc::SYS_setns, libc::SYS_init_module, libc::SYS_unshare];
        let refused: Vec<_> =
            errors(calls, false).into_iter().filter(|(_, errno)| *errno == libc::EPERM).collect();
        assert_eq!(refused, [], "the calls above fail because of the filter");
    }

    /// What a shell says that runs inside.
    fn inside(may_start_programs: bool, program: &'static str, args: &'static [&'static str]) -> String {
        let run = move || {
            restrict(may_start_programs).unwrap();
            match Command::new(program).args(args).output() {
                Ok(output) => format!(
                    "{}{}{}",
                    output.status,
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                ),
                Err(error) => error.to_string(),
            }
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn programs_start_inside_only_if_they_may() {
        assert!(inside(true, "true", &[]).contains("exit status: 0"));
        assert!(inside(false, "true", &[]).contains("Operation not permitted"));
    }

    #[test]
    fn a_node_opens_sockets_of_its_own_families_alone() {
        let probe = "use Socket; for (1, 2, 10, 16, 17, 40) { \
                     print \"$_ \", (socket(my $s, $_, SOCK_DGRAM, 0) ? 0 : $!+0), \"\\n\" }";
        let said = inside(true, "perl", Box::leak(Box::new(["-e", probe])));
        for family in FAMILIES {
            assert!(said.contains(&format!("{family} 0\n")), "{said}");
        }
        for family in [libc::AF_PACKET, libc::AF_VSOCK] {
            assert!(said.contains(&format!("{family} {}\n", libc::EPERM)), "{said}");
        }
    }

    #[test]
    fn threads_start_and_namespaces_do_not() {
        let threads = std::thread::spawn(|| {
            restrict(true).unwrap();
            std::thread::spawn(|| 7).join().unwrap()
        });
        assert_eq!(threads.join().unwrap(), 7);
        // clone(CLONE_NEWUSER | SIGCHLD): a child would print a second line.
        let clone = format!(
            "syscall({}, {}, 0, 0, 0, 0); print $!+0, \"\\n\"",
            libc::SYS_clone,
            libc::CLONE_NEWUSER | libc::SIGCHLD
        );
        let said = inside(true, "perl", Box::leak(Box::new(["-e", &*clone.leak()])));
        assert!(said.ends_with(&format!("{}\n", libc::EPERM)), "{said}");
    }
}
