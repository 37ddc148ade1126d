//! Keeps quell's memory out of a child that becomes a command.

use std::path::Path;

use quell_host::maps;

/// The kernel's name for the mapping of a BPF map (kernel/bpf/syscall.c, Linux 5.15 to 6.18).
const BPF_MAP_MAPPING: &str = "anon_inode:bpf-map";

/// Keeps the probe's buffers, over 100 MB, out of children.
///
/// A child begins with the memory of its parent, and the most of it that was ever resident stays with the process
/// through execve(2) (`exec_mmap` in fs/exec.c hands it to `signal->maxrss`): with them a command of 5 MB would be
/// said to have had 140. Where that can't be done it is only that.
pub(super) fn leave_buffers_out() {
    let Ok(mappings) = maps::read_maps(Path::new("/"), std::process::id()) else {
        return;
    };
    for one in mappings
        .iter()
        .filter(|m| m.path.as_deref() == Some(Path::new(BPF_MAP_MAPPING)))
    {
        let length = usize::try_from(one.end - one.start).unwrap_or(0);
        // SAFETY: MADV_DONTFORK changes nothing in this process, and no child uses them: it has only the code up to
        // execve(2), which does not.
        let _ = unsafe { libc::madvise(one.start as *mut _, length, libc::MADV_DONTFORK) };
    }
}
