//! Runtimes with an allocator of their own: Go, Java, Node.js, .NET, Erlang.

use super::Facts;
use crate::{FoundSoftware, Linking, SoftwareKind, Version};

/// Go: the build information that the linker writes, with the version inline since Go 1.18.
pub(super) fn recognise_go(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let info = facts.elf.section_contents(".go.buildinfo")?;
    // Layout (debug/buildinfo): 14 bytes of magic, pointer size, flags; with flag 2 the version
    // string follows at 32, behind its length as a varint.
    if !info.starts_with(b"\xff Go buildinf:") {
        return None;
    }
    let inline = info.get(15).is_some_and(|flags| flags & 2 != 0);
    let length = usize::from(*info.get(32).unwrap_or(&0));
    let text = info.get(33..33 + length).filter(|_| inline && length < 128);
    let version = text.and_then(|t| Version::parse_leading(t.strip_prefix(b"go")?));
    let how = "the Go linker's build information";
    Some(FoundSoftware {
        version,
        ..facts.found_here(SoftwareKind::GoRuntime, Linking::Static, how)
    })
}

/// Java: libjvm.so states its version in one long line.
pub(super) fn recognise_jvm(facts: &Facts<'_>) -> Option<FoundSoftware> {
    if facts.path.file_name()? != "libjvm.so" {
        return None;
    }
    let line = facts.string_with(" JRE (");
    let version = line.as_deref().and_then(|l| {
        let at = l.find(" JRE (")? + " JRE (".len();
        let text = &l[at..];
        Version::parse_leading(text.as_bytes()).or_else(|| {
            // 25+36 has no dot.
            let major = text
                .split(|c: char| !c.is_ascii_digit())
                .next()?
                .parse()
                .ok()?;
            Some(Version::exact(major, 0, 0))
        })
    });
    let how = line.map_or_else(
        || "libjvm.so".to_owned(),
        |l| l.split(", built").next().unwrap_or(&l).to_owned(),
    );
    Some(FoundSoftware {
        version,
        conf_env: Some("JAVA_TOOL_OPTIONS".to_owned()),
        ..facts.found_here(SoftwareKind::Jvm, Linking::SharedLibrary, how)
    })
}

/// Node.js: the address of its own release, which it can print.
pub(super) fn recognise_node(facts: &Facts<'_>) -> Option<FoundSoftware> {
    const NODE_RELEASE_URL: &[u8] = b"https://nodejs.org/download/release/v";
    let version = facts
        .elf
        .find_strings(NODE_RELEASE_URL, 8)
        .into_iter()
        .find_map(|s| {
            s.strip_prefix(NODE_RELEASE_URL)
                .filter(|rest| rest.ends_with(b".tar.gz"))
                .and_then(Version::parse_leading)
        })?;
    let how = "the address of its own Node.js release";
    Some(FoundSoftware {
        version: Some(version),
        conf_env: Some("NODE_OPTIONS".to_owned()),
        ..facts.found_here(SoftwareKind::Node, Linking::Static, how)
    })
}

/// .NET: its core library has one name everywhere.
pub(super) fn recognise_dotnet(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let named = facts.path.file_name()? == "libcoreclr.so";
    named.then(|| {
        facts.found_here(
            SoftwareKind::DotNet,
            Linking::SharedLibrary,
            "libcoreclr.so",
        )
    })
}

/// Erlang: a variable that only its virtual machine reads, and its answer to `-V`.
pub(super) fn recognise_beam(facts: &Facts<'_>) -> Option<FoundSoftware> {
    const BEAM_VERSION_TEXT: &str = "(BEAM) emulator version ";
    if !facts.ends_string("ERL_CRASH_DUMP_SECONDS") {
        return None;
    }
    let line = facts.string_with(BEAM_VERSION_TEXT)?;
    let version = line.split_once(BEAM_VERSION_TEXT)?.1;
    let how = format!("what it says of itself, version {}", version.trim_end());
    Some(FoundSoftware {
        version: Version::parse_leading(version.as_bytes()),
        conf_env: Some("ERL_FLAGS".to_owned()),
        ..facts.found_here(SoftwareKind::Beam, Linking::Static, how)
    })
}
