//! From a trace to what a plan is chosen by.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use quell_host::needed;
use quell_remedy::{Evidence, Found, Source, recognise_modules};

use crate::report::{Origin, Report};
use crate::show::units::plural;

/// What was observed of a program.
pub(crate) struct Observed {
    pub(crate) evidence: Evidence,
    pub(crate) found: Vec<Found>,
    pub(crate) notes: Vec<String>,
    pub(crate) shootdowns: u64,
}

/// Reads a trace, and the files that its culprits ran code from.
///
/// # Errors
///
/// If the trace can't be read.
pub(crate) fn of_trace(dir: &Path) -> anyhow::Result<Observed> {
    let report = Report::open(dir)?;
    let recognised = recognise_modules(report.modules.iter().map(AsRef::as_ref));
    let sources = report.origins.into_iter().map(source).collect();
    // what other programs do, no remedy for this one stops
    let shootdowns = report
        .summary
        .shootdowns
        .saturating_sub(report.by_strangers);
    let strangers = (report.by_strangers > 0).then(|| {
        format!(
            "{} more came from other processes, which were not watched: no remedy for this program stops them",
            plural(report.by_strangers, "shootdown"),
        )
    });
    Ok(Observed {
        evidence: Evidence {
            shootdowns,
            sources,
            cpus: std::thread::available_parallelism()
                .ok()
                .and_then(|n| u32::try_from(n.get()).ok()),
            pages: report.summary.pages,
            full: report.summary.full,
            wrappers: recognised.wrappers,
            ..Evidence::default()
        },
        found: recognised.found,
        notes: [
            report.notes,
            strangers.into_iter().collect(),
            recognised.notes,
            recognised.skipped,
        ]
        .concat(),
        shootdowns,
    })
}

/// In the words of a plan.
pub(crate) fn source(origin: Origin) -> Source {
    Source {
        cause: origin.cause,
        caller_module: origin.module,
        caller_symbol: origin.symbol,
        region: Some(origin.region),
        shootdowns: origin.shootdowns,
    }
}

/// Why a library of an environment's `LD_PRELOAD` is not loaded into a command, if so. Of a script it is the
/// interpreter that counts; what a program starts in its turn is not looked at.
pub(crate) fn not_loaded(
    command: &[OsString],
    environment: &BTreeMap<String, String>,
) -> Option<String> {
    environment.get("LD_PRELOAD")?;
    let env = |name: &str| std::env::var_os(name);
    let found = needed::command(Path::new("/"), command, &env).ok()?;
    let program = found.program.display();
    let why = if found.is_static() {
        "is linked statically"
    } else if has_rights(&found.program) {
        "runs with the rights of its file (set-user-ID or capabilities)"
    } else {
        return None;
    };
    Some(format!(
        "the plan's preload library is not loaded into {program}, which {why} (ld.so(8)): it stops nothing there"
    ))
}

/// Whether a command's program runs with the rights of its file, so that the loader takes no library from
/// the environment. A program that can't be found or read is taken for none.
pub(crate) fn is_secure(command: &[OsString]) -> bool {
    let found = needed::command(Path::new("/"), command, &|name: &str| {
        std::env::var_os(name)
    });
    found.is_ok_and(|c| has_rights(&c.program))
}

/// Whether a file gives rights to who executes it: set-user-ID, set-group-ID, or capabilities.
pub(crate) fn has_rights(file: &Path) -> bool {
    let mode = std::fs::metadata(file).map_or(0, |m| m.mode());
    let capable = rustix::fs::getxattr(file, "security.capability", &mut [0u8; 64]).is_ok();
    mode & (libc::S_ISUID | libc::S_ISGID) != 0 || capable
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Check that a program with the rights of its file is known, and no other is taken for one.
    #[test]
    fn rights_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("program");
        std::fs::write(&file, "").unwrap();
        for (mode, secure) in [(0o755, false), (0o4755, true), (0o2755, true)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(has_rights(&file), secure, "{mode:o}");
        }
        assert!(!has_rights(&dir.path().join("none")));
        assert!(!is_secure(&["/nowhere/at/all".into()]));
    }
}
