//! The text of `QUELL_SHIM`: `key=value`, with commas between.

use crate::PAGE;

/// The settings of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The library does nothing: every call goes to the kernel.
    pub off: bool,
    /// Nothing is kept or zeroed in place: memory that the program has unmapped faults when it is used, at the cost of a
    /// shootdown each. For debugging.
    pub strict: bool,
    /// Bytes of unmapped memory that may stay, for later mappings; 0 keeps none.
    pub cache: usize,
    /// Up to which size, in bytes, MADV_DONTNEED is answered by zeroing.
    pub zero: ZeroLimit,
    /// Mappings smaller than this are not kept: to prove their kind takes longer than to map them anew. In bytes.
    pub least: usize,
    /// The same for ranges that MADV_DONTNEED gives back.
    pub least_zeroed: usize,
    /// So many bytes of the kept memory stay as they are. The rest is offered to the kernel (MADV_FREE), which takes it
    /// where memory is short. Where that is not said it is a few megabytes, and with a bound of resident memory all of
    /// it: then the process never has much more in memory than that.
    pub firm: Option<usize>,
    /// Memory is kept of a size, or zeroed, after so many lifetimes that were dense (see `habit`). 0 is at once, and whatever the
    /// proof of its kind costs.
    pub lifetimes: usize,
    /// Bytes that may stay with the program although it asked for them to be given back; no more than there are places for
    /// (`retained`: 512 MB).
    pub keep: usize,
    /// Resident memory of the process, in bytes, above which nothing stays that was given back, and kept memory
    /// shrinks; 0 is no bound. With it, `keep` is not looked at.
    pub resident: usize,
    /// Where a mapping asks for addresses that are not kept, kept memory at a multiple of so many bytes serves it; 0 is
    /// nothing. For programs that only want their memory aligned.
    pub hint: usize,
    /// MADV_FREE is dropped.
    pub drop_free: bool,
    /// malloc_trim(3), called by the program, gives nothing back while memory is not short.
    pub drop_heap_trim: bool,
    /// Memory is given back and offered by one process_madvise(2) for many ranges; or else one by one.
    pub batch: bool,
    /// Mappings up to this size, in bytes, are filled at once (MAP_POPULATE); 0 is none.
    pub prefault: usize,
    /// Mappings from this size on, in bytes, ask for huge pages; 0 is none.
    pub huge: usize,
    /// All memory is locked at the start (mlockall(2)).
    pub lock: bool,
}

/// See [`Settings::zero`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroLimit {
    /// Never.
    Off,
    /// Up to the size at which zeroing costs as much as giving back, as measured when it first matters.
    Auto,
    /// Up to so many bytes.
    UpTo(usize),
}

const MB: usize = 1024 * 1024;
/// More says never.
const MAX_LIFETIMES: usize = 64;
/// More than any allocator aligns to.
const MAX_HINT_BYTES: usize = 1024 * MB;

impl Default for Settings {
    fn default() -> Self {
        Settings::DEFAULT
    }
}

impl Settings {
    /// Those of an empty text.
    const DEFAULT: Settings = Settings {
        off: false,
        strict: false,
        cache: 64 * MB,
        zero: ZeroLimit::Auto,
        least: 64 * 1024,
        least_zeroed: PAGE,
        firm: None,
        lifetimes: 1,
        keep: 16 * MB,
        resident: 0,
        hint: 0,
        drop_free: true,
        drop_heap_trim: false,
        batch: true,
        prefault: 0,
        huge: 0,
        lock: false,
    };

    /// Nothing is kept, zeroed or dropped: until there are others.
    pub(crate) const WATCH_ONLY: Settings = Settings {
        cache: 0,
        zero: ZeroLimit::Off,
        keep: 0,
        drop_free: false,
        ..Settings::DEFAULT
    };
}

/// A part of the text that is no setting, by where it begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSetting(pub usize, pub usize);

/// Bytes, with K, M or G behind the number for powers of 1,024.
fn parse_size(text: &[u8]) -> Option<usize> {
    let (digits, unit) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 1024),
        (b'm' | b'M', digits) => (digits, MB),
        (b'g' | b'G', digits) => (digits, 1024 * MB),
        _ => (text, 1),
    };
    if digits.is_empty() {
        return None;
    }
    let mut number = 0_usize;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        number = number
            .checked_mul(10)?
            .checked_add(usize::from(digit - b'0'))?;
    }
    number.checked_mul(unit)
}

impl Settings {
    /// Reads the text over these settings.
    ///
    /// # Errors
    ///
    /// The first part that is no setting. The rest is read all the same.
    pub fn read_over(&mut self, text: &[u8]) -> Result<(), BadSetting> {
        let mut bad = Ok(());
        let mut start = 0;
        while start <= text.len() {
            let rest = &text[start..];
            let len = rest.iter().position(|b| *b == b',').unwrap_or(rest.len());
            let part = rest[..len].trim_ascii();
            if !part.is_empty() && self.set_one(part).is_none() && bad.is_ok() {
                bad = Err(BadSetting(start, start + len));
            }
            start += len + 1;
        }
        bad
    }

    /// Sets what one part says. None if it is no setting: nothing is changed then.
    fn set_one(&mut self, part: &[u8]) -> Option<()> {
        let equals = part.iter().position(|b| *b == b'=');
        let (key, value) = match equals {
            Some(at) => (&part[..at], Some(&part[at + 1..])),
            None => (part, None),
        };
        match (key, value) {
            (b"off", None) => self.off = true,
            (b"on", None) => self.off = false,
            (b"strict", None) => self.strict = true,
            (b"lock", None) => self.lock = true,
            (b"cache", Some(value)) => self.cache = parse_size(value)?,
            (b"least", Some(value)) => {
                self.least = parse_size(value)?;
                self.least_zeroed = self.least;
            }
            (b"firm", Some(value)) => self.firm = Some(parse_size(value)?),
            (b"lifetimes", Some(value)) => {
                self.lifetimes = parse_size(value).filter(|n| *n <= MAX_LIFETIMES)?;
            }
            (b"keep", Some(value)) => self.keep = parse_size(value)?,
            (b"rss", Some(value)) => self.resident = parse_size(value)?,
            (b"hint", Some(value)) => {
                self.hint =
                    parse_size(value).filter(|s| s.is_multiple_of(PAGE) && *s <= MAX_HINT_BYTES)?;
            }
            (b"prefault", Some(value)) => self.prefault = parse_size(value)?,
            (b"huge", Some(value)) => self.huge = parse_size(value)?,
            (b"zero", Some(b"auto")) => self.zero = ZeroLimit::Auto,
            (b"zero", Some(b"off")) => self.zero = ZeroLimit::Off,
            (b"zero", Some(value)) => self.zero = ZeroLimit::UpTo(parse_size(value)?),
            (b"free", Some(b"drop")) => self.drop_free = true,
            (b"free", Some(b"pass")) => self.drop_free = false,
            (b"malloc_trim", Some(b"drop")) => self.drop_heap_trim = true,
            (b"malloc_trim", Some(b"pass")) => self.drop_heap_trim = false,
            (b"trim", Some(b"batch")) => self.batch = true,
            (b"trim", Some(b"each")) => self.batch = false,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (Settings, Result<(), BadSetting>) {
        let mut settings = Settings::default();
        let done = settings.read_over(text.as_bytes());
        (settings, done)
    }

    /// Check that every key is read, and that what is left out stays.
    #[test]
    fn keys() {
        let all = "strict,cache=1G,zero=16k,keep=5,rss=2M,hint=32M,least=4K,firm=7,lifetimes=3,free=pass,malloc_trim=drop,trim=each,prefault=1M,huge=2M,lock";
        let (settings, done) = read(all);
        assert_eq!(done, Ok(()));
        let expected = Settings {
            off: false,
            strict: true,
            cache: 1024 * MB,
            zero: ZeroLimit::UpTo(16 * 1024),
            least: 4096,
            least_zeroed: 4096,
            firm: Some(7),
            lifetimes: 3,
            keep: 5,
            resident: 2 * MB,
            hint: 32 * MB,
            drop_free: false,
            drop_heap_trim: true,
            batch: false,
            prefault: MB,
            huge: 2 * MB,
            lock: true,
        };
        assert_eq!(settings, expected);
        assert_eq!(read("").0, Settings::default());
        assert!(read("off").0.off);
        assert_eq!(read(" zero=off , ,").0.zero, ZeroLimit::Off);
    }

    /// Check that what is no setting is named, and that the others count all the same.
    #[test]
    fn refuses() {
        let (settings, done) = read("cache=1M,colour=red,off");
        assert_eq!(done, Err(BadSetting(9, 19)));
        assert!(settings.off && settings.cache == MB);
        for bad in [
            "cache",
            "cache=",
            "cache=M",
            "cache=1T",
            "cache=-1",
            "off=1",
            "zero=never",
            "hint=5000",
            "hint=2G",
            "lifetimes=65",
            "cache=99999999999999999999G",
        ] {
            assert!(read(bad).1.is_err(), "{bad}");
        }
    }

    proptest! {
        /// Check that no bytes make the reader panic, and that a bad part lies within the text.
        #[test]
        fn any_bytes(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut settings = Settings::default();
            if let Err(BadSetting(start, end)) = settings.read_over(&text) {
                prop_assert!(start < end && end <= text.len());
            }
        }
    }
}
