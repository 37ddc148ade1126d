//! Reading small files of the kernel's, without memory but the stack.

use super::open_files::OPEN_FILES;
use super::{AT_FDCWD, O_CLOEXEC, nr, syscall, thread_pointer};

/// A file, by its name, which ends with a NUL; or none, if that is empty.
#[derive(Clone, Copy)]
pub(super) struct File<'a>(&'a [u8]);

impl<'a> File<'a> {
    /// A file by a name that ends with a NUL.
    pub(super) const fn named(name: &'a [u8]) -> File<'a> {
        assert!(matches!(name, [.., 0]), "a name ends with a NUL");
        File(name)
    }

    /// Works on the open file; none if it can't be opened, and while a thread forks, so that no child has it open for life.
    pub(super) fn with_open<T>(self, work: impl FnOnce(usize) -> T) -> Option<T> {
        if self.0.is_empty() {
            return None;
        }
        let path = self.0.as_ptr() as usize;
        // SAFETY: a path that ends with NUL; the descriptor is our own, and closed again.
        OPEN_FILES.with_file_open(thread_pointer(), || unsafe {
            let fd = syscall(nr::OPENAT, [AT_FDCWD as usize, path, O_CLOEXEC, 0, 0, 0]).ok()?;
            let done = work(fd);
            let _ = syscall(nr::CLOSE, [fd, 0, 0, 0, 0, 0]);
            Some(done)
        })
    }

    /// The content of the file, as far as it fits and one read(2) gives it; none if it can't be opened or read.
    pub(super) fn read_start(self, buffer: &mut [u8]) -> Option<&[u8]> {
        let got = self.with_open(|fd| read_all(fd, buffer))??;
        Some(&buffer[..got])
    }

    /// The number that the file begins with.
    pub(super) fn read_number(self) -> Option<u64> {
        leading_number(self.read_start(&mut [0; 24])?)
    }

    /// The first line of the file that `wanted` makes something of. The inner none says that the whole file has no such line; the outer one that
    /// nobody knows: the file can't be opened, a read failed, or it is longer than [`MAX_READS`] reads.
    pub(super) fn find_line_if_readable<T>(
        self,
        wanted: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<Option<T>> {
        self.with_open(|fd| find_line_within(MAX_READS, |buffer| read_all(fd, buffer), wanted))?
    }

    /// The same of a file that may be long: /proc/PID/maps has a line for each mapping.
    pub(super) fn find_far_line_if_readable<T>(
        self,
        wanted: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<Option<T>> {
        const MANY_READS: usize = 1 << 16;
        self.with_open(|fd| find_line_within(MANY_READS, |buffer| read_all(fd, buffer), wanted))?
    }

    /// The same, whether it can be read or not.
    pub(super) fn find_line<T>(self, wanted: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
        self.find_line_if_readable(wanted)?
    }
}

/// A name that is put together.
pub(super) struct PathBuffer {
    bytes: [u8; 512],
    len: usize,
}

impl PathBuffer {
    pub(super) const EMPTY: PathBuffer = PathBuffer {
        bytes: [0; 512],
        len: 0,
    };

    /// The parts one after the other. Empty if they don't fit.
    pub(super) fn from_parts(parts: &[&[u8]]) -> PathBuffer {
        let mut path = PathBuffer::EMPTY;
        path.set_parts(parts);
        path
    }

    /// The same in place: half a KB is much for the stack of a signal handler.
    pub(super) fn set_parts(&mut self, parts: &[&[u8]]) {
        self.len = 0;
        for part in parts {
            let Some(place) = self.bytes[..511].get_mut(self.len..self.len + part.len()) else {
                self.len = 0;
                return;
            };
            place.copy_from_slice(part);
            self.len += part.len();
        }
        self.bytes[self.len] = 0;
    }

    /// Without the NUL.
    pub(super) fn without_nul(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn file(&self) -> File<'_> {
        match self.len {
            0 => File(b""),
            len => File(&self.bytes[..=len]),
        }
    }
}

/// One read(2): how many bytes it gave, 0 at the end of the file.
fn read_all(fd: usize, buffer: &mut [u8]) -> Option<usize> {
    let args = [fd, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0];
    // SAFETY: the kernel writes into our buffer, no more than fits.
    unsafe { syscall(nr::READ, args) }.ok()
}

/// The number at the start of a text.
pub(super) fn leading_number(text: &[u8]) -> Option<u64> {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let text = core::str::from_utf8(&text[..digits]).ok()?;
    text.parse().ok()
}

/// The number of a line `name 123` or `name:   123 kB`.
pub(super) fn field_value(line: &[u8], name: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(name)?;
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    let value = rest.trim_ascii_start();
    (value.len() < rest.len()).then(|| leading_number(value))?
}

/// As large as a line may be: one that doesn't fit is left out. The name of a control group has to.
const MAX_LINE_BYTES: usize = 512;
/// So much of a file is looked at: the largest is /proc/meminfo, of 1.6 KB.
const MAX_READS: usize = 64;

/// The first line that `wanted` makes something of, with so many reads at most. `more` reads the next bytes, and nothing at
/// the end. The outer none says that the end was not reached.
fn find_line_within<T>(
    reads: usize,
    mut more: impl FnMut(&mut [u8]) -> Option<usize>,
    mut wanted: impl FnMut(&[u8]) -> Option<T>,
) -> Option<Option<T>> {
    let mut buffer = [0; MAX_LINE_BYTES];
    let (mut len, mut too_long) = (0, false);
    for _ in 0..reads {
        let got = more(&mut buffer[len..])?.min(MAX_LINE_BYTES - len);
        if got == 0 {
            // A rest that has no end of line.
            return Some(if too_long {
                None
            } else {
                wanted(&buffer[..len])
            });
        }
        len += got;
        let mut start = 0;
        while let Some(end) = buffer[start..len].iter().position(|b| *b == b'\n') {
            let line = &buffer[start..start + end];
            if !core::mem::take(&mut too_long)
                && let Some(found) = wanted(line)
            {
                return Some(Some(found));
            }
            start += end + 1;
        }
        buffer.copy_within(start..len, 0);
        len -= start;
        if len == MAX_LINE_BYTES {
            (len, too_long) = (0, true);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lines of a text that is read so many bytes at a time.
    fn lines(text: &[u8], step: usize) -> Vec<Vec<u8>> {
        let (mut at, mut lines) = (0, Vec::new());
        let more = |buffer: &mut [u8]| {
            let len = step.min(buffer.len()).min(text.len() - at);
            buffer[..len].copy_from_slice(&text[at..at + len]);
            at += len;
            Some(len)
        };
        let none: Option<Option<()>> = find_line_within(MAX_READS, more, |line| {
            lines.push(line.to_vec());
            None
        });
        assert_eq!(none, Some(None));
        lines
    }

    /// Check that a file which could not be read to its end has no answer, and one that could has.
    #[test]
    fn an_unread_end_is_no_answer() {
        let wanted = |line: &[u8]| (line == b"b").then_some(());
        let text = b"a\nb\nc\n";
        let read = |fails_at: usize, reads: usize| {
            let mut at = 0;
            let more = |buffer: &mut [u8]| {
                let left = (at < fails_at).then(|| &text[at.min(text.len())..])?;
                let len = left.len().min(2);
                buffer[..len].copy_from_slice(&left[..len]);
                at += len;
                Some(len)
            };
            find_line_within(reads, more, wanted)
        };
        assert_eq!(read(usize::MAX, 9), Some(Some(())));
        assert_eq!(read(2, 9), None);
        assert_eq!(read(usize::MAX, 1), None);
        let none = |_: &mut [u8]| Some(0);
        assert_eq!(find_line_within(9, none, wanted), Some(None));
    }

    /// Check that a line that is too long is left out, whole, and that nothing else is.
    #[test]
    fn long_lines() {
        let long = vec![b'x'; 3 * MAX_LINE_BYTES];
        let text = [&b"a 1\n"[..], &long, b"\nb 2\n\nc 3"].concat();
        for step in [1000, 511, 100] {
            assert_eq!(
                lines(&text, step),
                [&b"a 1"[..], b"b 2", b"", b"c 3"],
                "{step}"
            );
        }
        assert!(lines(&long, 100).is_empty());
    }

    /// Check that fields are read by their whole name.
    #[test]
    fn fields() {
        assert_eq!(
            field_value(b"inactive_file 40960", b"inactive_file"),
            Some(40960)
        );
        assert_eq!(field_value(b"inactive_file 40960", b"inactive"), None);
        assert_eq!(
            field_value(b"CommitLimit:    12341828 kB", b"CommitLimit"),
            Some(12_341_828)
        );
        for bad in [&b""[..], b"a", b"a ", b"a:", b"a1", b"a x"] {
            assert_eq!(field_value(bad, b"a"), None);
        }
    }

    /// Check that what is in no file is none, and that a file is read to its end.
    #[test]
    fn files() {
        assert!(PathBuffer::EMPTY.file().read_number().is_none());
        assert!(
            PathBuffer::from_parts(&[&[b'/'; 600]])
                .without_nul()
                .is_empty()
        );
        let meminfo = File::named(b"/proc/meminfo\0");
        assert!(
            meminfo
                .find_line(|line| field_value(line, b"DirectMap4k"))
                .is_some()
        );
        assert!(
            meminfo
                .find_line(|line| field_value(line, b"Nothing"))
                .is_none()
        );
    }

    proptest! {
        /// Check that any text, read in any pieces, comes as its lines.
        #[test]
        fn any_text(text in "[ab\n]{0,200}", step in 20..600usize) {
            let wanted: Vec<Vec<u8>> = text.split('\n').map(|l| l.as_bytes().to_vec()).collect();
            prop_assert_eq!(lines(text.as_bytes(), step), wanted);
        }
    }
}
