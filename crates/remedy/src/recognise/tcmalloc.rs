//! The two tcmallocs: gperftools', and google/tcmalloc, which share a name and little else.

use super::Facts;
use crate::{Found, Kind, Linking, Version};

/// gperftools states its version in one string, and reads `TCMALLOC_…` variables.
pub(super) fn gperftools(facts: &Facts<'_>) -> Option<Found> {
    if !facts.elf.has_string(b"\0TCMALLOC_RELEASE_RATE\0")
        || !facts.ends_string("tcmalloc.max_total_thread_cache_bytes")
    {
        return None;
    }
    let stated = ["gperftools ", "google-perftools "]
        .iter()
        .find_map(|name| {
            let strings = facts.elf.find_strings(name.as_bytes(), 16);
            strings
                .into_iter()
                .find_map(|s| Version::leading(s.strip_prefix(name.as_bytes())?))
        });
    let how = match stated {
        Some(version) => {
            format!("gperftools' version string {version} and its TCMALLOC_RELEASE_RATE")
        }
        None => "gperftools' TCMALLOC_RELEASE_RATE".to_owned(),
    };
    let mut found = facts.found(Kind::Gperftools, facts.linking("tc_version"), how);
    found.version = stated;
    found.replaces_malloc = facts.exports_malloc();
    Some(found)
}

/// google/tcmalloc has no version and no environment; its extension functions are weak symbols that
/// programs look for, so they are kept. A stripped static one is not seen.
pub(super) fn google(facts: &Facts<'_>) -> Option<Found> {
    let named = facts
        .symbols_with(|n| n.starts_with("MallocExtension_Internal_"))
        .count()
        >= 2;
    if !named {
        return None;
    }
    let how = "google/tcmalloc's MallocExtension_Internal_ functions";
    let linking = if facts.elf.is_library() {
        Linking::SharedLibrary
    } else {
        Linking::Static
    };
    let mut found = facts.found(Kind::GoogleTcmalloc, linking, how);
    found.replaces_malloc = facts.exports_malloc();
    Some(found)
}
