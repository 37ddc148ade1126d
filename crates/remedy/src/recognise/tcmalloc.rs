//! The two tcmallocs: gperftools', and google/tcmalloc, which share a name and little else.

use super::Facts;
use crate::{FoundSoftware, Linking, SoftwareKind, Version};

/// gperftools states its version in one string, and reads `TCMALLOC_…` variables.
pub(super) fn recognise_gperftools(facts: &Facts<'_>) -> Option<FoundSoftware> {
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
                .find_map(|s| Version::parse_leading(s.strip_prefix(name.as_bytes())?))
        });
    let how = match stated {
        Some(version) => {
            format!("gperftools' version string {version} and its TCMALLOC_RELEASE_RATE")
        }
        None => "gperftools' TCMALLOC_RELEASE_RATE".to_owned(),
    };
    let linking = facts.linking_by_api("tc_version");
    Some(FoundSoftware {
        version: stated,
        replaces_malloc: facts.exports_malloc(),
        ..facts.found_here(SoftwareKind::Gperftools, linking, how)
    })
}

/// google/tcmalloc has no version and no environment. Its extension functions are weak symbols that programs
/// look for, so they are kept; where all symbols are stripped, the names of its properties remain.
pub(super) fn recognise_google(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let extension = |n: &str| n.starts_with("MallocExtension_Internal_");
    let named = facts.symbols_with(extension).count() >= 2;
    // Both by CPU, which gperftools never did.
    let properties = ["tcmalloc.per_cpu_caches_active", "tcmalloc.cpu_free"];
    let how = if named {
        "google/tcmalloc's MallocExtension_Internal_ functions"
    } else if properties.iter().all(|text| facts.ends_string(text)) {
        "the names of google/tcmalloc's properties"
    } else {
        return None;
    };
    let exports = facts.symbols_with(extension).any(|symbol| symbol.exported);
    let linking = if exports && facts.elf.is_library() {
        Linking::SharedLibrary
    } else {
        Linking::Static
    };
    Some(FoundSoftware {
        replaces_malloc: facts.exports_malloc(),
        ..facts.found_here(SoftwareKind::GoogleTcmalloc, linking, how)
    })
}
