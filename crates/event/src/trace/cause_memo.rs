//! From the name of a cause to the cause, for each row of a sealed segment.

use parquet::data_type::ByteArray;

use crate::Cause;

/// The number of slots is a power of two, and more than the causes of most traces.
const SLOT_COUNT: usize = 64;

/// Causes by where their names lie: all equal names of a row group are one place in its dictionary.
pub(super) struct CauseMemo {
    /// Each keeps its name alive, so that no other name can come to lie there.
    slots: Vec<Option<(ByteArray, Cause)>>,
}

impl Default for CauseMemo {
    fn default() -> Self {
        Self {
            slots: vec![None; SLOT_COUNT],
        }
    }
}

impl CauseMemo {
    /// Returns the cause of a name: [`Cause::Other`] where only a newer quell knows it.
    #[inline]
    pub(super) fn cause_of(&mut self, name: &ByteArray) -> Cause {
        let bytes = name.data();
        // names lie a few bytes apart
        let at = bytes.as_ptr() as usize;
        let slot = &mut self.slots[(at ^ (at >> 6)) & (SLOT_COUNT - 1)];
        match slot {
            Some((known, cause)) if std::ptr::eq(known.data(), bytes) => *cause,
            _ => {
                let text = std::str::from_utf8(bytes).unwrap_or_default();
                let cause = text.parse().unwrap_or(Cause::Other);
                *slot = Some((name.clone(), cause));
                cause
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that names are told apart wherever they lie, again and again, and that unknown ones are `other`.
    #[test]
    fn names_are_told_apart() {
        let mut memo = CauseMemo::default();
        let mut names: Vec<(ByteArray, Cause)> =
            Cause::ALL.map(|c| (ByteArray::from(c.name()), c)).to_vec();
        names.push((ByteArray::from("of a newer quell"), Cause::Other));
        names.push((ByteArray::from(vec![0xff, 0xfe]), Cause::Other));
        for _ in 0..3 {
            for (name, cause) in &names {
                assert_eq!(memo.cause_of(name), *cause);
            }
        }
    }
}
