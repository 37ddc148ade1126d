//! Kernel threads that work on behalf of a process.

/// The processes of kernel threads whose names begin with one of these.
pub(crate) fn kernel_thread_pids(names: &[&str]) -> Vec<u32> {
    let proc = quell_host::proc::Proc::new("/");
    if names.is_empty() {
        return Vec::new();
    }
    let pids = proc.list_pids().unwrap_or_default();
    let is_daemon = |pid: &u32| {
        let of_the_kernel = proc.stat(*pid).is_ok_and(|s| s.ppid == 2);
        of_the_kernel
            && proc
                .comm(*pid)
                .is_ok_and(|comm| names.iter().any(|n| comm.starts_with(n)))
    };
    pids.into_iter().filter(is_daemon).collect()
}
