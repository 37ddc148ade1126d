//! CPython: its library, or an interpreter with all of it inside.

use super::Facts;
use crate::{FoundSoftware, SoftwareKind, Version};

/// A title in the statistics of pymalloc (PYTHONMALLOCSTATS), which a build without it lacks, as one for free
/// threads does; since 3.11 the version is a constant that everybody may read.
pub(super) fn recognise_cpython(facts: &Facts<'_>) -> Option<FoundSoftware> {
    if !facts.ends_string("# arenas allocated total") || !facts.ends_string("PYTHONMALLOC") {
        return None;
    }
    let stated = stated_version(facts);
    let how = if stated.is_some() {
        "pymalloc's statistics, and Py_Version"
    } else {
        "pymalloc's statistics, and a version by the file's name"
    };
    let linking = facts.linking_by_api("PyObject_Malloc");
    Some(FoundSoftware {
        version: stated.or_else(|| named_version(facts)),
        ..facts.found_here(SoftwareKind::CPython, linking, how)
    })
}

/// `PY_VERSION_HEX`: 0x030b02f0 is 3.11.2.
fn stated_version(facts: &Facts<'_>) -> Option<Version> {
    let symbol = facts.symbol_named("Py_Version")?;
    let bytes = facts.elf.bytes_at(symbol.address, 4)?;
    // Both processors that are recognised are little-endian.
    let hex = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    let part = |shift: u32| hex >> shift & 0xff;
    (part(24) == 3).then(|| Version::exact(3, part(16), part(8)))
}

/// The version by the file's name, `libpython3.10.so.1.0` or `python3.10`. The name lacks the last number: that is taken from a
/// string that is a whole version of this line, and without one any number is possible.
fn named_version(facts: &Facts<'_>) -> Option<Version> {
    let soname = facts.elf.dynamic().soname.clone();
    let name = soname.or_else(|| Some(facts.path.file_name()?.to_string_lossy().into_owned()))?;
    let rest = name.split_once("python3.")?.1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    let minor: u32 = digits.parse().ok()?;
    let start = format!("\x003.{minor}.");
    let strings = facts.elf.find_strings(start.as_bytes(), 64);
    let exact = strings.into_iter().find_map(|s| {
        let version = Version::parse_leading(s)?;
        (version.to_string().as_bytes() == s).then_some(version)
    });
    exact.or(Some(Version::range((3, minor, 0), (3, minor, 99))))
}
