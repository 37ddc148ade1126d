//! Whether the kernel or a device may have hold of pages of this process, and read or write them when they are unmapped.
//!
//! The kernel tells nobody which pages are pinned. It tells by which ways they may be: memory that is registered with
//! io_uring, or with a network card (RDMA), is counted; requests of libaio have a mapping of their own; and all else
//! has a descriptor, of a ring, of a device, of a pipe that pages were lent to (vmsplice(2)), of a socket that sends
//! from the program's memory (MSG_ZEROCOPY).

use super::file::{File, field_value, leading_number};
use super::open_files::OPEN_FILES;
use super::{AT_FDCWD, O_CLOEXEC, nr, syscall, thread_pointer};
use crate::kernel::Pins;

/// So many descriptors are looked at; with more nothing is kept.
const MOST_DESCRIPTORS: usize = 1024;
/// Devices that pin nothing for longer than a call.
const HARMLESS_DEVICES: [&[u8]; 14] = [
    b"null",
    b"zero",
    b"full",
    b"random",
    b"urandom",
    b"tty",
    b"pts/",
    b"ptmx",
    b"console",
    b"shm/",
    b"hugepages/",
    b"fuse",
    b"kvm",
    b"net/tun",
];

/// The pins that are found, but an entry that could not be read is not unknown for good: no file is opened while a
/// thread forks.
pub(super) fn or_while_forking(find: impl FnOnce() -> Pins) -> Pins {
    let refused = OPEN_FILES.refused_count();
    match find() {
        Pins::Perhaps if OPEN_FILES.refused_count() != refused => Pins::PerhapsNow,
        pins => pins,
    }
}

/// See [`Kernel::pinned_pages`](crate::Kernel::pinned_pages).
pub(super) fn find_pins() -> Pins {
    if are_counted() || has_requests() && are_mapped() {
        return Pins::Perhaps;
    }
    by_descriptors().unwrap_or(Pins::Perhaps)
}

/// Whether there are pages that are pinned for long, or locked memory, as some drivers count their pins there, by
/// proc_pid_status(5); true where that can't be told.
fn are_counted() -> bool {
    let (mut pinned, mut locked) = (None, None);
    let both = File::named(b"/proc/self/status\0").find_line(|line| {
        pinned = pinned.or_else(|| field_value(line, b"VmPin"));
        locked = locked.or_else(|| field_value(line, b"VmLck"));
        pinned.zip(locked)
    });
    both != Some((0, 0))
}

/// Whether anybody on this machine has a context of libaio, which has no descriptor. Only then the mappings are looked
/// through.
fn has_requests() -> bool {
    File::named(b"/proc/sys/fs/aio-nr\0").read_number() != Some(0)
}

/// Whether requests of libaio, rings or devices are mapped; true where the mappings can't be read to their end.
fn are_mapped() -> bool {
    let looked = File::named(b"/proc/self/maps\0").find_far_line_if_readable(|line| {
        let name = line.iter().position(|b| matches!(b, b'/' | b'['))?;
        is_pinning(&line[name..]).then_some(())
    });
    looked != Some(None)
}

/// Whether an entry of this name in /proc/PID/maps or /proc/PID/fd may pin.
fn is_pinning(name: &[u8]) -> bool {
    if let Some(device) = name.strip_prefix(b"/dev/") {
        return !HARMLESS_DEVICES
            .iter()
            .any(|harmless| device.starts_with(harmless));
    }
    name.starts_with(b"/[aio]") || name.windows(8).any(|part| part == b"io_uring")
}

/// By the descriptors; none where they can't be told.
fn by_descriptors() -> Option<Pins> {
    let path = c"/proc/self/fd".as_ptr() as usize;
    const O_DIRECTORY: usize = 0o200_000;
    OPEN_FILES.with_file_open(thread_pointer(), || {
        let args = [AT_FDCWD as usize, path, O_CLOEXEC | O_DIRECTORY, 0, 0, 0];
        // SAFETY: a path that ends with NUL; the descriptor is our own, and closed again.
        unsafe {
            let folder = syscall(nr::OPENAT, args).ok()?;
            let found = look_through(folder);
            let _ = syscall(nr::CLOSE, [folder, 0, 0, 0, 0, 0]);
            found
        }
    })
}

/// The worst that an entry of /proc/self/fd says; none where there are too many, or they can't be read.
fn look_through(folder: usize) -> Option<Pins> {
    let mut buffer = [0_u8; 1024];
    let mut count = 0;
    let mut most = Pins::None;
    loop {
        let args = [folder, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
        // SAFETY: the kernel writes into our buffer, no more than fits.
        let got = unsafe { syscall(nr::GETDENTS64, args) }.ok()?;
        if got == 0 {
            return Some(most);
        }
        let mut rest = &buffer[..got];
        while let Some((name, next)) = first_entry(rest) {
            rest = next;
            count += 1;
            if count > MOST_DESCRIPTORS {
                return None;
            }
            let Some(descriptor) = leading_number(name) else {
                // The folder itself, and the one above.
                continue;
            };
            match of_descriptor(folder, name, descriptor as usize) {
                Pins::None => {}
                Pins::PerhapsNow => most = Pins::PerhapsNow,
                Pins::Perhaps => return Some(Pins::Perhaps),
            }
        }
    }
}

/// The name of the first of getdents64(2)'s entries, with its NUL, and the bytes behind the entry.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    /// Two words, the entry's length and its type.
    const NAME_OFFSET: usize = 19;
    let len = usize::from(u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]));
    let entry = entries.get(..len)?;
    let name = entry.get(NAME_OFFSET..)?;
    let end = name.iter().position(|b| *b == 0)? + 1;
    Some((&name[..end], &entries[len..]))
}

/// What one descriptor may pin, by the name of its file, and for a socket or a pipe by its state.
fn of_descriptor(folder: usize, name: &[u8], descriptor: usize) -> Pins {
    let mut link = [0_u8; 64];
    let (name, at, room) = (
        name.as_ptr() as usize,
        link.as_mut_ptr() as usize,
        link.len(),
    );
    // SAFETY: a name that ends with NUL, and our own buffer.
    let Ok(len) = (unsafe { syscall(nr::READLINKAT, [folder, name, at, room, 0, 0]) }) else {
        // The descriptor was closed meanwhile.
        return Pins::None;
    };
    let link = &link[..len.min(room)];
    let pins = if link.starts_with(b"socket:") {
        sends_from_memory(descriptor)
    } else if link.starts_with(b"pipe:") {
        // Its content goes on, or is read.
        return if may_hold_lent_pages(descriptor) {
            Pins::PerhapsNow
        } else {
            Pins::None
        };
    } else {
        is_pinning(link)
    };
    if pins { Pins::Perhaps } else { Pins::None }
}

/// SO_ZEROCOPY of a socket.
fn sends_from_memory(socket: usize) -> bool {
    const SOL_SOCKET: usize = 1;
    const SO_ZEROCOPY: usize = 60;
    let (mut value, mut len) = (0_i32, 4_u32);
    let (value_at, len_at) = ((&raw mut value) as usize, (&raw mut len) as usize);
    let args = [socket, SOL_SOCKET, SO_ZEROCOPY, value_at, len_at, 0];
    // SAFETY: getsockopt(2) into our own place. Kinds of sockets that have no such option refuse it.
    unsafe { syscall(nr::GETSOCKOPT, args) }.is_ok() && value != 0
}

/// Whether a pipe that this process may write to has something in it, which may be its pages.
fn may_hold_lent_pages(pipe: usize) -> bool {
    const F_GETFL: usize = 3;
    const O_ACCMODE: usize = 3;
    const FIONREAD: usize = 0x541b;
    let mut bytes = 0_i32;
    let at = (&raw mut bytes) as usize;
    // SAFETY: fcntl(2) that only asks, and ioctl(2) into our own place.
    unsafe {
        let mode = syscall(nr::FCNTL, [pipe, F_GETFL, 0, 0, 0, 0]);
        mode.is_ok_and(|mode| mode & O_ACCMODE != 0)
            && syscall(nr::IOCTL, [pipe, FIONREAD, at, 0, 0, 0]).is_ok()
            && bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check which names pin.
    #[test]
    fn names() {
        for pins in [
            &b"anon_inode:[io_uring]"[..],
            b"anon_inode:io_uring",
            b"/[aio] (deleted)",
            b"/dev/infiniband/uverbs0",
            b"/dev/nvidia0",
        ] {
            assert!(is_pinning(pins));
        }
        for harmless in [
            &b"/dev/null"[..],
            b"/dev/pts/3",
            b"/home/x",
            b"[heap]",
            b"anon_inode:[eventpoll]",
            b"",
        ] {
            assert!(!is_pinning(harmless));
        }
    }

    /// Check that what is cut off is no entry.
    #[test]
    fn entries() {
        let mut entry = [0_u8; 24];
        entry[16] = 24;
        entry[19..21].copy_from_slice(b"12");
        assert_eq!(first_entry(&entry), Some((&b"12\0"[..], &b""[..])));
        for len in 0..24 {
            assert_eq!(first_entry(&entry[..len]), None);
        }
        assert_eq!(first_entry(&[0; 24]), None);
    }
}
