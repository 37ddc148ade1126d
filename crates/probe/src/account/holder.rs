//! The action of a thread that holds a lock, in words.

use quell_event::Comm;

use syscalls::Sysno;

use super::layout::{HolderRecord, NR_FAULT, NR_KTHREAD};
use super::system_call::system_call;

/// The text up to the first zero byte.
fn text_up_to_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn page_count_text(bytes: u64) -> String {
    match bytes.div_ceil(4096) {
        1 => "1 page".to_owned(),
        n => format!("{n} pages"),
    }
}

/// The name of an advice by its number (include/uapi/asm-generic/mman-common.h).
pub(super) fn advice_name(number: u64) -> String {
    let name = match number {
        0 => "NORMAL",
        1 => "RANDOM",
        2 => "SEQUENTIAL",
        3 => "WILLNEED",
        4 => "DONTNEED",
        8 => "FREE",
        9 => "REMOVE",
        10 => "DONTFORK",
        11 => "DOFORK",
        12 => "MERGEABLE",
        13 => "UNMERGEABLE",
        14 => "HUGEPAGE",
        15 => "NOHUGEPAGE",
        16 => "DONTDUMP",
        17 => "DODUMP",
        18 => "WIPEONFORK",
        19 => "KEEPONFORK",
        20 => "COLD",
        21 => "PAGEOUT",
        22 => "POPULATE_READ",
        23 => "POPULATE_WRITE",
        24 => "DONTNEED_LOCKED",
        25 => "COLLAPSE",
        102 => "GUARD_INSTALL",
        103 => "GUARD_REMOVE",
        n => return format!("advice {n}"),
    };
    format!("MADV_{name}")
}

/// The file with a space before it, as far as its path is known: `/proc/12/smaps` for a file of a process, else its last two
/// parts.
fn file_suffix(h: &HolderRecord) -> String {
    const FILES_OF_PROCESSES: &[&str] = &[
        "smaps",
        "smaps_rollup",
        "maps",
        "numa_maps",
        "pagemap",
        "clear_refs",
        "mem",
    ];
    let (folder, file) = (text_up_to_zero(&h.folder), text_up_to_zero(&h.file));
    let number = !folder.is_empty() && folder.bytes().all(|b| b.is_ascii_digit());
    match (
        number && FILES_OF_PROCESSES.contains(&file.as_str()),
        file.as_str(),
    ) {
        (true, _) => format!(" /proc/{folder}/{file}"),
        (_, "") => String::new(),
        _ => format!(" {folder}/{file}"),
    }
}

/// The call that the holder was in, with its object: the file, the range, or the advice.
pub(super) fn holder_action(h: &HolderRecord) -> String {
    let range = |name| format!("{name} of {}", page_count_text(h.args[1]));
    match h.nr {
        NR_FAULT => return "page fault".to_owned(),
        NR_KTHREAD => return format!("kernel thread {}", Comm(h.comm).as_text()),
        _ => {}
    }
    let Some(call) = system_call(h.nr) else {
        return format!("system call {}", h.nr);
    };
    match call {
        Sysno::read | Sysno::pread64 | Sysno::readv => format!("read{}", file_suffix(h)),
        Sysno::write | Sysno::pwrite64 | Sysno::writev => format!("write{}", file_suffix(h)),
        Sysno::mmap
        | Sysno::munmap
        | Sysno::mremap
        | Sysno::msync
        | Sysno::mincore
        | Sysno::munlock => range(call.name()),
        Sysno::mprotect | Sysno::pkey_mprotect => range("mprotect"),
        Sysno::mlock | Sysno::mlock2 => range("mlock"),
        Sysno::madvise => format!(
            "madvise({}) of {}",
            advice_name(h.args[2]),
            page_count_text(h.args[1])
        ),
        Sysno::clone | Sysno::fork | Sysno::vfork | Sysno::clone3 => "fork".to_owned(),
        Sysno::execve | Sysno::execveat => "exec".to_owned(),
        Sysno::exit | Sysno::exit_group => "exit".to_owned(),
        _ => call.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        bytes
    }

    /// Check that calls are named with what they work on, files of processes by their whole path.
    #[test]
    fn holders_say_what_they_do() {
        let call = |nr, args| HolderRecord {
            nr,
            args,
            ..HolderRecord::default()
        };
        assert_eq!(holder_action(&call(11, [0, 8192, 0])), "munmap of 2 pages");
        assert_eq!(
            holder_action(&call(28, [0, 4096, 4])),
            "madvise(MADV_DONTNEED) of 1 page"
        );
        assert_eq!(holder_action(&call(-1, [0; 3])), "page fault");
        let mut write = call(1, [3, 0, 1]);
        write.folder = bytes("123");
        write.file = bytes("clear_refs");
        assert_eq!(holder_action(&write), "write /proc/123/clear_refs");
        write.folder = bytes("var");
        write.file = bytes("data");
        assert_eq!(holder_action(&write), "write var/data");
        assert_eq!(holder_action(&call(0, [0; 3])), "read");
        assert_eq!(holder_action(&call(257, [0; 3])), "openat");
        assert_eq!(holder_action(&call(99_999, [0; 3])), "system call 99999");
    }
}
