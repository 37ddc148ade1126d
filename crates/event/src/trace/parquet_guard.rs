//! A guard between the Parquet library and a file. The library believes the page sizes and counts of a file and allocates so much, so
//! the guard refuses pages that would make it allocate without bound.

use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// A larger page is refused; ours take some 1 MiB.
const MAX_PAGE_BYTES: u64 = 16 << 20;
/// A page of more values is refused; a whole row group of ours has fewer.
const MAX_PAGE_VALUES: u32 = 1 << 21;
/// A header of a page has room in so many bytes; ours take some 30.
const MAX_PAGE_HEADER_BYTES: u64 = 256;

fn refusal(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// A file of which no more than a page at a time is read.
pub(super) struct GuardedFile {
    file: Arc<File>,
    len: u64,
}

impl GuardedFile {
    pub(super) fn new(file: Arc<File>, len: u64) -> Self {
        Self { file, len }
    }

    fn read_range(&self, start: u64, length: u64) -> Result<Vec<u8>> {
        if length > MAX_PAGE_BYTES || start.checked_add(length).is_none_or(|end| end > self.len) {
            return Err(refusal("a page lies outside the file"));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }
}

impl Length for GuardedFile {
    fn len(&self) -> u64 {
        self.len
    }
}

impl ChunkReader for GuardedFile {
    type T = Cursor<Vec<u8>>;

    /// The library calls this for the header of a page.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let header = self.read_range(
            start,
            MAX_PAGE_HEADER_BYTES.min(self.len.saturating_sub(start)),
        )?;
        check_header(&header)?;
        Ok(Cursor::new(header))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        Ok(self.read_range(start, length as u64)?.into())
    }
}

/// A page's header begins with three numbers in Thrift's compact encoding: type, bytes when
/// unpacked, bytes in the file. The library allocates the second one.
fn check_header(header: &[u8]) -> Result<()> {
    let mut at = 0;
    let mut number = || -> Option<u64> {
        // The next field, a 32-bit integer.
        if *header.get(at)? != 0x15 {
            return None;
        }
        at += 1;
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = *header.get(at)?;
            at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                // Zigzag: odd is negative.
                return (value & 1 == 0).then_some(value >> 1);
            }
        }
        None
    };
    let sizes = (number(), number(), number());
    match sizes {
        (Some(_), Some(unpacked), Some(packed))
            if unpacked <= MAX_PAGE_BYTES && packed <= MAX_PAGE_BYTES =>
        {
            Ok(())
        }
        _ => Err(refusal("a page's header is garbled")),
    }
}

/// Refuses unpacked pages whose claimed number of values could make the library allocate without bound, or whose encoding no
/// table of quell's has. Pages that are skipped are not looked at.
pub(super) struct GuardedPages<P>(pub(super) P);

impl<P: PageReader> GuardedPages<P> {
    fn check_page(page: &Page) -> Result<()> {
        let (num_values, ok) = match page {
            Page::DataPage {
                num_values,
                encoding,
                ..
            } => {
                use Encoding as E;
                let ours = matches!(
                    encoding,
                    E::PLAIN | E::RLE_DICTIONARY | E::DELTA_BINARY_PACKED
                );
                (*num_values, ours)
            }
            // Each value of a dictionary takes four bytes or more.
            Page::DictionaryPage {
                num_values,
                buf,
                encoding,
                ..
            } => {
                let ours = matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY);
                (
                    *num_values,
                    ours && u64::from(*num_values) * 4 <= buf.len() as u64,
                )
            }
            Page::DataPageV2 { .. } => (0, false),
        };
        if !ok || num_values > MAX_PAGE_VALUES {
            return Err(refusal("a page of a kind that quell does not write"));
        }
        Ok(())
    }
}

impl<P: PageReader> PageReader for GuardedPages<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.0.get_next_page()?;
        if let Some(page) = &page {
            Self::check_page(page)?;
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

impl<P: PageReader> Iterator for GuardedPages<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a page that claims to be larger than any of ours is refused before it is unpacked.
    #[test]
    fn large_claims_are_refused() {
        let header = |unpacked: u64| {
            let mut bytes = vec![0x15, 0, 0x15];
            let mut zigzag = unpacked << 1;
            while zigzag > 0x7f {
                bytes.push(zigzag as u8 | 0x80);
                zigzag >>= 7;
            }
            bytes.extend([zigzag as u8, 0x15, 2, 0]);
            bytes
        };
        assert!(check_header(&header(1 << 20)).is_ok());
        assert!(check_header(&header(MAX_PAGE_BYTES + 1)).is_err());
        assert!(check_header(&header(i32::MAX as u64)).is_err());
        assert!(check_header(&[0x15, 0, 0x15]).is_err());
        assert!(check_header(&[0x25, 0, 0x15, 2, 0x15, 2]).is_err());
    }
}
