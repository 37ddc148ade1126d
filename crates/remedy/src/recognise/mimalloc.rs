//! mimalloc 1 to 3: by its options, which it keeps as C strings, and by the code of `mi_version`.

use super::{DatedOption, Facts};
use crate::{FoundSoftware, SoftwareKind, Version};

/// The versions that each option proves, newest first, by the sources of all releases from 1.0.0 to 3.4.3. The lines 1.8/1.9 and
/// 2.1 on were developed side by side with the same options; 2.1.0 and 2.1.1 still have 2.0's.
const DATED_OPTIONS: &[DatedOption] = &[
    ("pagemap_commit", (3, 0, 0), None),
    ("page_full_retain", (3, 0, 0), None),
    ("purge_delay", (1, 8, 2), Some((2, 99, 99))),
    ("allow_decommit", (2, 0, 0), Some((2, 1, 1))),
    ("reset_delay", (1, 3, 0), Some((1, 8, 1))),
    ("page_reset", (1, 0, 0), Some((1, 2, 2))),
];

pub(super) fn recognise_mimalloc(facts: &Facts<'_>) -> Option<FoundSoftware> {
    // Every version has these two options, and complains about its variables in these words. The prefix of
    // their names alone is no string where the compiler made a number of it.
    let ours = ["mimalloc: ", "show_errors", "show_stats"];
    if !ours.iter().all(|text| facts.ends_string(text)) {
        return None;
    }
    facts.string_with("mimalloc_%s")?;
    let stated = stated_version(facts);
    let how = if stated.is_some() {
        "mimalloc's options, and what its mi_version returns"
    } else {
        "mimalloc's options, which give a version range"
    };
    let linking = facts.linking_by_api("mi_malloc");
    Some(FoundSoftware {
        version: stated.or_else(|| facts.dated_by(DATED_OPTIONS)),
        prefix: Some("mi_".to_owned()),
        replaces_malloc: facts.exports_malloc(),
        ..facts.found_here(SoftwareKind::Mimalloc, linking, how)
    })
}

/// `mi_version` is one constant and a return. 209 is 2.0.9 and, since 2.3, 30302 is 3.3.2.
fn stated_version(facts: &Facts<'_>) -> Option<Version> {
    let symbol = facts.symbol_named("mi_version")?;
    let constant = returned_constant(facts.elf.machine(), facts.elf.bytes_at(symbol.address, 16)?)?;
    match constant {
        100..=999 => Some(Version::exact(
            constant / 100,
            constant / 10 % 10,
            constant % 10,
        )),
        10_000..=99_999 => Some(Version::exact(
            constant / 10_000,
            constant / 100 % 100,
            constant % 100,
        )),
        // In between, as in 2.1.10 written 2110: not worth guessing.
        _ => None,
    }
}

/// The constant that a function returns, where returning a constant is all that it does.
fn returned_constant(machine: u16, code: &[u8]) -> Option<u32> {
    const X86_64: u16 = 62;
    const ELF_AARCH64: u16 = 183;
    match machine {
        X86_64 => {
            let code = code.strip_prefix(b"\xf3\x0f\x1e\xfa").unwrap_or(code); // endbr64
            let [0xb8, a, b, c, d, 0xc3, ..] = *code else {
                return None;
            }; // mov eax, imm32; ret
            Some(u32::from_le_bytes([a, b, c, d]))
        }
        ELF_AARCH64 => {
            let word = |at: usize| Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
            let at = if word(0)? == 0xd503_245f { 4 } else { 0 }; // bti c
            let (mov, ret) = (word(at)?, word(at + 4)?);
            (mov & 0xffe0_001f == 0x5280_0000 && ret == 0xd65f_03c0).then_some(mov >> 5 & 0xffff)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the constant is read from both processors' code, and from nothing else.
    #[test]
    fn constants() {
        assert_eq!(returned_constant(62, b"\xb8\xd1\0\0\0\xc3"), Some(209));
        assert_eq!(
            returned_constant(62, b"\xf3\x0f\x1e\xfa\xb8\xd1\0\0\0\xc3"),
            Some(209)
        );
        assert_eq!(returned_constant(62, b"\xb8\xd1\0\0\0\x90"), None);
        assert_eq!(
            returned_constant(183, b"\x20\x1a\x80\x52\xc0\x03\x5f\xd6"),
            Some(209)
        );
        assert_eq!(returned_constant(183, b"\x20"), None);
        assert_eq!(returned_constant(8, b"\xb8\xd1\0\0\0\xc3"), None);
    }
}
