//! What the kernel itself says of each thread as it ends (taskstats(7)): its sums and delays, told by netlink.

use std::io::Error;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// What a thread did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) comm: String,
    /// From its beginning to its end, ns; known to the µs.
    pub(crate) lived_ns: u64,
    /// On a CPU, ns.
    pub(crate) run_ns: u64,
    pub(crate) delays: Delays,
}

/// For how long it was held up by what, ns. What this kernel does not know is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delays {
    /// It slept for a block device.
    pub(crate) block: u64,
    pub(crate) swapin: u64,
    pub(crate) freepages: u64,
    pub(crate) compact: Option<u64>,
    pub(crate) wpcopy: Option<u64>,
}

// include/uapi/linux/genetlink.h and taskstats.h
const GENERIC: i32 = 16;
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GET: u8 = 1;
const REGISTER_CPUS: u16 = 3;
const PID: u16 = 1;
const STATS: u16 = 3;
const OF_A_THREAD: u16 = 4;
const REQUEST: u16 = 1;
const HEADERS: usize = 20;
const MESSAGE_ERROR: u16 = 2;

/// What may stand behind each delay, bytes: in versions 15 and 16 its maximum, and its minimum too, but not in all kernels
/// that call theirs so.
const BETWEEN: [usize; 3] = [0, 8, 16];

/// Listens for threads that end, all of the machine's.
pub(crate) struct Taskstats(OwnedFd);

/// A message with one attribute.
fn message(family: u16, command: u8, attribute: u16, text: &str) -> Vec<u8> {
    let value = [text.as_bytes(), &[0]].concat();
    let bytes = HEADERS + 4 + value.len().next_multiple_of(4);
    let mut all = u32::try_from(bytes).expect("short").to_ne_bytes().to_vec();
    all.extend(family.to_ne_bytes());
    all.extend(REQUEST.to_ne_bytes());
    all.extend([0; 8]);
    all.extend([command, 1, 0, 0]);
    let length = u16::try_from(4 + value.len()).expect("short");
    all.extend(length.to_ne_bytes());
    all.extend(attribute.to_ne_bytes());
    all.extend(&value);
    all.resize(bytes, 0);
    all
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let piece = bytes.get(at..at + 2)?;
    piece.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let piece = bytes.get(at..at + 4)?;
    piece.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let piece = bytes.get(at..at + 8)?;
    piece.try_into().ok().map(u64::from_ne_bytes)
}

/// The attribute of that kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16_at(bytes, 0)?);
        if u16_at(bytes, 2)? & 0x3fff == kind {
            return bytes.get(4..length);
        }
        bytes = bytes.get(length.next_multiple_of(4).max(4)..)?;
    }
}

/// By where the fields lie up to version 14, and what was put between them later: the thread's number tells that.
fn ended(stats: &[u8], pid: u32) -> Option<Ended> {
    let version = u16_at(stats, 0)?;
    let is_it = |more: &usize| u32_at(stats, 128 + 3 * more) == Some(pid);
    let more = BETWEEN.into_iter().find(is_it)?;
    let comm = stats.get(80 + 3 * more..)?.split(|b| *b == 0).next()?;
    Some(Ended {
        pid,
        parent: u32_at(stats, 132 + 3 * more)?,
        comm: String::from_utf8_lossy(comm).into_owned(),
        lived_ns: u64_at(stats, 144 + 3 * more)? * 1000,
        run_ns: u64_at(stats, 72 + 3 * more)?,
        delays: Delays {
            block: u64_at(stats, 40 + more)?,
            swapin: u64_at(stats, 56 + 2 * more)?,
            freepages: u64_at(stats, 320 + 3 * more)?,
            compact: match version {
                11.. => u64_at(stats, 360 + 5 * more),
                _ => None,
            },
            wpcopy: match version {
                13.. => u64_at(stats, 408 + 6 * more),
                _ => None,
            },
        },
    })
}

impl Taskstats {
    /// Begins to listen. An `Err` says what this kernel lacks.
    pub(crate) fn listen() -> Result<Self, String> {
        // SAFETY: a new socket, which nobody else has.
        let socket = unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_NETLINK, kind, GENERIC);
            if fd < 0 {
                return Err(format!("no netlink: {}", Error::last_os_error()));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let room: i32 = 32 << 20;
        // SAFETY: the option is a number.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const room).cast(),
                4,
            );
        }
        let listener = Self(socket);
        listener.send(&message(CONTROL, GET_FAMILY, FAMILY_NAME, "TASKSTATS"));
        let answer = listener.receive(0).expect("the kernel answers");
        let id = answer
            .get(HEADERS..)
            .filter(|_| u16_at(&answer, 4) != Some(MESSAGE_ERROR))
            .and_then(|attributes| u16_at(attribute(attributes, FAMILY_ID)?, 0))
            .ok_or("this kernel is built without CONFIG_TASKSTATS")?;
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible");
        let cpus = cpus.map_err(|err| err.to_string())?;
        listener.send(&message(id, GET, REGISTER_CPUS, cpus.trim()));
        Ok(listener)
    }

    fn send(&self, message: &[u8]) {
        // SAFETY: so many bytes; without an address it goes to the kernel.
        let sent = unsafe {
            libc::send(
                self.0.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        assert!(sent > 0, "netlink: {}", Error::last_os_error());
    }

    fn receive(&self, flags: i32) -> Option<Vec<u8>> {
        let mut bytes = vec![0_u8; 1 << 14];
        // SAFETY: so many bytes of our own.
        let got = unsafe {
            libc::recv(
                self.0.as_raw_fd(),
                bytes.as_mut_ptr().cast(),
                bytes.len(),
                flags,
            )
        };
        if got < 0 {
            let err = Error::last_os_error();
            assert_eq!(err.kind(), std::io::ErrorKind::WouldBlock, "netlink: {err}");
            return None;
        }
        bytes.truncate(got.unsigned_abs());
        Some(bytes)
    }

    /// The threads that ended since then: those of a process's children, of theirs and so on; the first process comes first.
    pub(crate) fn descendants(&self, of: u32) -> Vec<Ended> {
        let mut all = Vec::new();
        while let Some(message) = self.receive(libc::MSG_DONTWAIT) {
            // there may be several in one, and others than of threads
            let attributes = message.get(HEADERS..).unwrap_or_default();
            let Some(thread) = attribute(attributes, OF_A_THREAD) else {
                continue;
            };
            let stats = attribute(thread, STATS).unwrap_or_default();
            let pid = attribute(thread, PID).and_then(|pid| u32_at(pid, 0));
            let pid = pid.expect("a thread has a number");
            all.push(ended(stats, pid).expect("fields where they are known to lie"));
        }
        let mut found: Vec<Ended> = Vec::new();
        let mut parents = vec![of];
        // a parent may end before its children or after them
        while let Some(parent) = parents.pop() {
            let children = all
                .iter()
                .filter(|e| e.parent == parent && e.comm != "quell");
            for child in children {
                if !found.iter().any(|f| f.pid == child.pid) {
                    parents.push(child.pid);
                    found.push(child.clone());
                }
            }
        }
        found
    }
}
