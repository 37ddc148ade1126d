//! Address ranges, in whole pages.

/// The size of a page on x86-64.
pub const PAGE: usize = 4096;

/// From `start` up to, and without, `end`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first byte.
    pub start: usize,
    /// The byte behind the last.
    pub end: usize,
}

impl Range {
    /// Every address.
    pub(crate) const ALL: Range = Range {
        start: 0,
        end: usize::MAX,
    };

    /// The page that begins there.
    pub(crate) fn page_at(start: usize) -> Range {
        Range::of_len(start, PAGE)
    }

    /// So many bytes from `start` on.
    pub(crate) fn of_len(start: usize, len: usize) -> Range {
        let end = start + len;
        Range { start, end }
    }

    /// The rest of it from `start` on.
    pub(crate) fn starting_at(self, start: usize) -> Range {
        let end = self.end;
        Range { start, end }
    }

    /// The pages that the kernel takes `addr` and `len` for: it wants a whole page to begin with, and
    /// rounds the length up. None where it would refuse them, or there is nothing to do.
    #[must_use]
    pub fn from_addr_len(addr: usize, len: usize) -> Option<Range> {
        if !addr.is_multiple_of(PAGE) || len == 0 {
            return None;
        }
        let len = len.checked_add(PAGE - 1)? & !(PAGE - 1);
        let end = addr.checked_add(len)?;
        Some(Range { start: addr, end })
    }

    /// The length in bytes.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(self) -> usize {
        self.end - self.start
    }

    /// The first `len` bytes of it from a multiple of `align` on, which is not 0.
    pub(crate) fn first_aligned(self, len: usize, align: usize) -> Option<Range> {
        let start = self.start.checked_next_multiple_of(align)?;
        let end = start.checked_add(len)?;
        (end <= self.end).then_some(Range { start, end })
    }

    /// The range that both have.
    #[must_use]
    pub fn intersection(self, other: Range) -> Option<Range> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Range { start, end })
    }
}

/// The same, as the kernel wants it in an array (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first byte.
    pub start: usize,
    /// The length in bytes.
    pub len: usize,
}

impl From<Range> for Part {
    fn from(range: Range) -> Part {
        Part {
            start: range.start,
            len: range.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that lengths are rounded up, and that what the kernel refuses is none.
    #[test]
    fn pages() {
        let range = |start, end| Some(Range { start, end });
        assert_eq!(Range::from_addr_len(0x1000, 1), range(0x1000, 0x2000));
        assert_eq!(Range::from_addr_len(0x1000, 0x1001), range(0x1000, 0x3000));
        assert_eq!(Range::from_addr_len(0x1001, 1), None);
        assert_eq!(Range::from_addr_len(0x1000, 0), None);
        assert_eq!(Range::from_addr_len(0x1000, usize::MAX), None);
        assert_eq!(
            Range::from_addr_len(usize::MAX & !(PAGE - 1), PAGE + 1),
            None
        );
    }

    /// Check the common part of two ranges.
    #[test]
    fn common() {
        let range = |start, end| Range { start, end };
        assert_eq!(range(1, 5).intersection(range(3, 9)), Some(range(3, 5)));
        assert_eq!(range(1, 5).intersection(range(5, 9)), None);
    }
}
