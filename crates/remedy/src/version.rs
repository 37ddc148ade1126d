//! Versions, exact or as a range: not every file says its own.

use std::fmt;

/// A version, or the range that it must lie in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// The lowest it can be.
    pub from: (u32, u32, u32),
    /// The highest it can be; none if newer ones may look the same.
    pub to: Option<(u32, u32, u32)>,
}

impl Version {
    /// A version that the file states.
    #[must_use]
    pub fn exact(major: u32, minor: u32, patch: u32) -> Self {
        Version {
            from: (major, minor, patch),
            to: Some((major, minor, patch)),
        }
    }

    /// A range with both ends.
    #[must_use]
    pub fn range(from: (u32, u32, u32), to: (u32, u32, u32)) -> Self {
        Version { from, to: Some(to) }
    }

    /// Whether it is certainly this version or newer.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32, patch: u32) -> bool {
        self.from >= (major, minor, patch)
    }

    /// Whether it is certainly older than this version.
    #[must_use]
    pub fn is_below(&self, major: u32, minor: u32, patch: u32) -> bool {
        self.to.is_some_and(|to| to < (major, minor, patch))
    }

    /// Whether the file states it.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.to == Some(self.from)
    }

    /// Reads `1.2` or `1.2.3` at the start of a text, and ignores the rest. The third number is 0 where there is none; a single
    /// number is no version.
    #[must_use]
    pub fn parse_leading(text: &[u8]) -> Option<Version> {
        let end = text
            .iter()
            .position(|b| !b.is_ascii_digit() && *b != b'.')
            .unwrap_or(text.len());
        let text = std::str::from_utf8(&text[..end]).ok()?;
        let mut parts = text.split('.').take(3).map(str::parse::<u32>);
        let major = parts.next()?.ok()?;
        let minor = parts.next()?.ok()?;
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some(Version::exact(major, minor, patch))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dots = |v: (u32, u32, u32)| format!("{}.{}.{}", v.0, v.1, v.2);
        match self.to {
            Some(to) if to == self.from => f.pad(&dots(to)),
            Some(to) => f.pad(&format!("{} to {}", dots(self.from), dots(to))),
            None => f.pad(&format!("{} or newer", dots(self.from))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that versions are read, compared and shown; a range decides only where it is certain.
    #[test]
    fn versions() {
        assert_eq!(
            Version::parse_leading(b"5.3.0-1-ge13ca9"),
            Some(Version::exact(5, 3, 0))
        );
        assert_eq!(
            Version::parse_leading(b"2.36."),
            Some(Version::exact(2, 36, 0))
        );
        assert_eq!(Version::parse_leading(b"x1.2"), None);
        assert_eq!(Version::parse_leading(b"7"), None);
        assert_eq!(Version::parse_leading(b"99999999999.1"), None);
        let range = Version::range((5, 2, 0), (5, 2, 1));
        assert!(
            range.at_least(5, 2, 0)
                && !range.at_least(5, 2, 1)
                && range.is_below(5, 3, 0)
                && !range.is_exact()
        );
        let open = Version {
            from: (5, 3, 1),
            to: None,
        };
        assert!(!open.is_below(9, 0, 0));
        assert_eq!(format!("{range}, {open}"), "5.2.0 to 5.2.1, 5.3.1 or newer");
    }

    proptest! {
        /// Check that no bytes make it panic, and that each shown version is read back.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..30), a: u32, b: u32, c: u32) {
            let _ = Version::parse_leading(&bytes);
            let version = Version::exact(a, b, c);
            prop_assert_eq!(Version::parse_leading(version.to_string().as_bytes()), Some(version));
        }
    }
}
