//! Whether a thread sleeps that should not: it has the library's lock, and a signal handler that has interrupted it waits for
//! something. A garbage collector stops the others so, and then maps and unmaps.
//!
//! The library knows a thread by the address of its control block. The kernel's number of it lies in there, at a place
//! that differs from one C library to another: where our own block has our own number, and the other one another.

use super::file::File;
use super::{copy_readable, nr, syscall, thread_pointer};

/// A control block is read so many numbers of four bytes at a time, so many times: glibc has it at byte 720, musl at
/// 48.
const NUMBERS_PER_READ: usize = 64;
const MAX_READS: usize = 8;

/// See [`Threads::is_asleep`](crate::Threads::is_asleep).
pub(super) fn is_asleep(other: usize) -> bool {
    // SAFETY: it only asks.
    let Ok(own) = (unsafe { syscall(nr::GETTID, [0; 6]) }) else {
        return false;
    };
    let (mut ours, mut theirs) = ([0_u32; NUMBERS_PER_READ], [0_u32; NUMBERS_PER_READ]);
    let number = (0..MAX_READS).find_map(|n| {
        let at = n * size_of_val(&ours);
        // The last part may be shorter.
        let count = read_numbers(thread_pointer() + at, &mut ours)
            .min(read_numbers(other + at, &mut theirs));
        let mut both = ours[..count].iter().zip(&theirs[..count]);
        let is_number = |(our, their): &(&u32, &u32)| **our as usize == own && their != our;
        both.find(is_number).map(|(_, their)| *their)
    });
    number.is_some_and(is_sleeping)
}

fn read_numbers(from: usize, to: &mut [u32]) -> usize {
    let len = size_of_val(to);
    copy_readable(to, &[[from, len]]) / size_of::<u32>()
}

/// Whether a thread of this number sleeps, by /proc/self/task/TID/stat (proc(5)): the state comes after the name, in brackets.
fn is_sleeping(number: u32) -> bool {
    /// The number, the name and the state.
    const STAT_START_BYTES: usize = 64;
    let mut digits = [0; 10];
    let parts = [
        &b"/proc/self/task/"[..],
        write_decimal(number, &mut digits),
        b"/stat\0",
    ];
    let (mut name, mut len) = ([0; 40], 0);
    for part in parts {
        name[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    let mut text = [0; STAT_START_BYTES];
    let text = File::named(&name[..len]).read_start(&mut text);
    text.and_then(stat_state) == Some(b'S')
}

fn stat_state(text: &[u8]) -> Option<u8> {
    let name_ends = text.iter().rposition(|byte| *byte == b')')?;
    text.get(name_ends + 2).copied()
}

fn write_decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a thread that sleeps is told from one that runs, from one that is not there, and from none.
    #[test]
    fn told_apart() {
        let (send, receive) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            send.send(thread_pointer()).unwrap();
            wait.recv()
        });
        let other = receive.recv().unwrap();
        // It goes to sleep soon, whenever that is.
        while !is_asleep(other) {
            std::thread::yield_now();
        }
        assert!(!is_asleep(4096));
        assert!(!is_asleep(0));
        drop(go);
        assert!(sleeper.join().unwrap().is_err());
    }

    /// Check numbers as text, and the state after names with brackets and blanks.
    #[test]
    fn text() {
        for number in [0, 7, 10, 4_194_304, u32::MAX] {
            assert_eq!(
                write_decimal(number, &mut [0; 10]),
                number.to_string().as_bytes()
            );
        }
        assert_eq!(stat_state(b"12 (a) R (b) S) S 1 12"), Some(b'S'));
        assert_eq!(stat_state(b"12 (a) R 1 12"), Some(b'R'));
        assert_eq!(stat_state(b"12 (a)"), None);
        assert_eq!(stat_state(b""), None);
    }
}
