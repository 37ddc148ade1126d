//! The contents of a file that anybody may change while it is read.
//!
//! Foreign files are not mapped: one that is truncated meanwhile would kill its reader with SIGBUS.
//! Pieces are read when they are asked for, and not more in all than a limit, because a sparse file can
//! claim any size. Bytes that are no longer there can't be read, and that is all.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;

use object::read::{ReadCache, ReadCacheOps, ReadRef};

/// A name is not looked for its end beyond this.
const MAX_STRING_BYTES: u64 = 4096;

/// The pieces of a file that were read so far. It is a [`ReadRef`] by reference.
#[derive(Debug)]
pub struct Contents {
    cache: ReadCache<Pieces>,
    /// How many more bytes may be asked for.
    left: Cell<u64>,
}

impl Contents {
    /// Of a regular file, and of that not more than `max_bytes` in all.
    ///
    /// # Errors
    ///
    /// If the file doesn't tell its size.
    pub fn new(file: File, max_bytes: u64) -> io::Result<Self> {
        let len = file.metadata()?.len();
        Ok(Self {
            cache: ReadCache::new(Pieces { file, len, at: 0 }),
            left: Cell::new(max_bytes),
        })
    }
}

impl<'c> ReadRef<'c> for &'c Contents {
    fn len(self) -> Result<u64, ()> {
        (&self.cache).len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'c [u8], ()> {
        self.left.set(self.left.get().checked_sub(size).ok_or(())?);
        (&self.cache).read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'c [u8], ()> {
        let size = range.end.checked_sub(range.start).ok_or(())?;
        let bytes = self.read_bytes_at(range.start, size.min(MAX_STRING_BYTES))?;
        let end = memchr::memchr(delimiter, bytes).ok_or(())?;
        bytes.get(..end).ok_or(())
    }
}

/// Reads by offset, so that nobody else's position in the file matters.
#[derive(Debug)]
struct Pieces {
    file: File,
    len: u64,
    at: u64,
}

impl ReadCacheOps for Pieces {
    fn len(&mut self) -> Result<u64, ()> {
        Ok(self.len)
    }

    fn seek(&mut self, at: u64) -> Result<u64, ()> {
        self.at = at;
        Ok(at)
    }

    fn read(&mut self, room: &mut [u8]) -> Result<usize, ()> {
        let read = self.file.read_at(room, self.at).map_err(|_| ())?;
        self.at += read as u64;
        Ok(read)
    }

    fn read_exact(&mut self, room: &mut [u8]) -> Result<(), ()> {
        self.file.read_exact_at(room, self.at).map_err(|_| ())?;
        self.at += room.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that pieces are those of the file, and that after it is truncated its lost bytes can't be read.
    #[test]
    fn truncated_files_are_short() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[b"some\0name\0".as_slice(), &[7; 100_000]].concat(), 0)
            .unwrap();
        let contents = Contents::new(file.try_clone().unwrap(), 1 << 20).unwrap();
        assert_eq!((&contents).len(), Ok(100_010));
        assert_eq!((&contents).read_bytes_at(1, 3), Ok(&b"ome"[..]));
        assert_eq!((&contents).read_bytes_at_until(5..100, 0), Ok(&b"name"[..]));
        file.set_len(20).unwrap();
        assert_eq!((&contents).read_bytes_at(50_000, 10), Err(()));
        assert_eq!((&contents).read_bytes_at(15, 10), Err(()));
        assert_eq!((&contents).read_bytes_at(10, 10), Ok(&[7; 10][..]));
        assert_eq!((&contents).read_bytes_at(u64::MAX, 10), Err(()));
    }

    /// Check that a file of any size takes no more memory than it may.
    #[test]
    fn the_limit_is_kept() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let contents = Contents::new(file, 1 << 20).unwrap();
        assert_eq!((&contents).read_bytes_at(0, 1 << 39), Err(()));
        assert!((&contents).read_bytes_at(0, 1 << 19).is_ok());
        assert!((&contents).read_bytes_at(1, 1 << 19).is_ok());
        assert_eq!((&contents).read_bytes_at(2, 1), Err(()));
    }
}
