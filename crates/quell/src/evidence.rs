//! Makes the evidence for a plan from a trace and from a program's files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use quell_event::Mechanism;
use quell_event::account::{Account, AccountSummary};
use quell_host::elf::{ElfFile, is_32_bit};
use quell_host::needed;
use quell_remedy::advice::Advised;
use quell_remedy::{
    Evidence, FoundSoftware, ObservedTime, ShootdownSource, recognise_command, recognise_modules,
};

use crate::report::{Report, ShootdownOrigin};
use crate::show::units::plural;

/// The evidence on a program, with the notes for its user.
pub(crate) struct ObservedProgram {
    pub(crate) evidence: Evidence,
    pub(crate) found: Vec<FoundSoftware>,
    pub(crate) notes: Vec<String>,
    pub(crate) shootdowns: u64,
    /// The shootdowns by processes that were not watched.
    pub(crate) others: u64,
    /// The account of the time, if the trace has one.
    pub(crate) account: Option<AccountSummary>,
    /// Advice for costs that no setting reaches.
    pub(crate) advice: Vec<Advised>,
}

impl ObservedProgram {
    /// Adds allocators that the trace's stacks did not lead to, because they were quiet while the program was watched.
    pub(crate) fn add_found(&mut self, more: Vec<Found>) {
        for f in more {
            let is_same = |known: &FoundSoftware| {
                known.kind == f.kind
                    && (known.file_name() == f.file_name() || is_one_file(known, &f))
            };
            if !self.found.iter().any(is_same) {
                self.found.push(f);
            }
        }
    }

    /// [`ObservedProgram::add_found`] for the allocators in a command's files. Files that can't be read add nothing, and are no
    /// error, because the command ran.
    pub(crate) fn add_found_of(&mut self, command: &[OsString]) {
        if let Ok(recognised) = recognise_command(command, &|name| std::env::var_os(name)) {
            self.add_found(recognised.found);
        }
    }
}

/// Reads a trace, and the files that its culprits ran code from.
///
/// # Errors
///
/// If the trace can't be read.
pub(crate) fn of_trace(dir: &Path) -> anyhow::Result<ObservedProgram> {
    let report = Report::open(dir)?;
    let recognised = recognise_modules(report.modules.iter().map(AsRef::as_ref));
    let sources = report.origins.into_iter().map(plan_source).collect();
    let shootdowns = report.own.shootdowns;
    let others = report.summary.shootdowns.saturating_sub(shootdowns);
    let account = report.summary.account;
    let duration_ns = report.summary.duration_ns;
    let spent = report.account.zip(account.as_ref());
    let spent = spent.map(|(rows, summary)| spent_by(rows, summary, duration_ns));
    let strangers = (others > 0).then(|| {
        format!(
            "{} more came from other processes, which were not watched: no remedy for this program stops them",
            plural(others, "shootdown"),
        )
    });
    Ok(ObservedProgram {
        evidence: Evidence {
            shootdowns,
            sources,
            cpus: std::thread::available_parallelism()
                .ok()
                .and_then(|n| u32::try_from(n.get()).ok()),
            pages: report.own.pages,
            full: report.own.full,
            by_strangers: report.by_strangers,
            from_start: report.from_start,
            unfit: sanitizer_reason(None, &report.modules),
            wrappers: recognised.wrappers,
            spent,
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
        others,
        account,
        advice: report.advice,
    })
}

/// Whether two names lead to one file: `libx.so.2` is mapped under the name of the file that it links to.
fn is_one_file(a: &Found, b: &Found) -> bool {
    let file = |f: &Found| f.module.canonicalize().ok();
    file(a).is_some_and(|a| file(b) == Some(a))
}

/// The account in the form by which a remedy's possible gain is computed.
fn spent_by(account: Account, summary: &AccountSummary, duration_ns: u64) -> Spent {
    let hits = summary.mechanism(Mechanism::ShootdownHit);
    ObservedTime {
        account,
        hits_ns: hits.map_or(0, |row| row.cpu_ns),
        duration_ns,
    }
}

/// An origin as the source of a plan.
pub(crate) fn plan_source(origin: ShootdownOrigin) -> Source {
    Source {
        cause: origin.cause,
        caller_module: origin.module,
        caller_symbol: origin.symbol,
        region: Some(origin.region),
        shootdowns: origin.shootdowns,
    }
}

/// The reason why the loader won't load a library of an environment's `LD_PRELOAD` into a command, if there is one. For a
/// script its interpreter counts; programs that the command starts in turn are not checked.
pub(crate) fn not_loaded(
    command: &[OsString],
    environment: &BTreeMap<String, String>,
) -> Option<String> {
    environment.get("LD_PRELOAD")?;
    let env = |name: &str| std::env::var_os(name);
    let (_, program) = needed::program(Path::new("/"), command, &env).ok()?;
    let why = if is_32_bit(&program) {
        "is a 32-bit program, and the library is for 64 bits"
    } else if needed::command(Path::new("/"), command, &env).is_ok_and(|c| c.is_static()) {
        "is linked statically"
    } else if has_rights(&program) {
        "runs with the rights of its file (set-user-ID or capabilities)"
    } else {
        return None;
    };
    Some(format!(
        "the plan's preload library is not loaded into {}, which {why} (ld.so(8)): it stops nothing there",
        program.display()
    ))
}

/// The file of a command's program if it is for 32 bits.
pub(crate) fn for_32_bits(command: &[OsString]) -> Option<PathBuf> {
    let env = |name: &str| std::env::var_os(name);
    let (_, program) = needed::program(Path::new("/"), command, &env).ok()?;
    is_32_bit(&program).then_some(program)
}

/// The sanitizers that stand between a program and its memory: their libraries as gcc and clang name them, the symbol of
/// their start where they are linked into the program, and their names.
const KNOWN_SANITIZERS: [([&str; 2], &str, &str); 5] = [
    (
        ["libasan.so", "libclang_rt.asan"],
        "__asan_init",
        "AddressSanitizer",
    ),
    (
        ["libhwasan.so", "libclang_rt.hwasan"],
        "__hwasan_init",
        "HWAddressSanitizer",
    ),
    (
        ["libtsan.so", "libclang_rt.tsan"],
        "__tsan_init",
        "ThreadSanitizer",
    ),
    (
        ["libmsan.so", "libclang_rt.msan"],
        "__msan_init",
        "MemorySanitizer",
    ),
    (
        ["liblsan.so", "libclang_rt.lsan"],
        "__lsan_init",
        "LeakSanitizer",
    ),
];

/// The reason why no library should be preloaded into a command's program though the loader would do it, if there is one.
/// A program that can't be found or read is taken for one that bears it.
pub(crate) fn unfit_for_preload(command: &[OsString]) -> Option<String> {
    let env = |name: &str| std::env::var_os(name);
    let found = needed::command(Path::new("/"), command, &env).ok()?;
    sanitizer_reason(Some(&found.program), &found.modules)
}

/// The words of a command, for remedies that depend on its options.
pub(crate) fn command_words(command: &[OsString]) -> Vec<String> {
    let words = command.iter().map(|w| w.to_string_lossy().into_owned());
    words.collect()
}

/// [`unfit_for_preload`], and programs that the loader passes over silently. It serves the choice of a plan.
pub(crate) fn unfit_for_choice(command: &[OsString]) -> Option<String> {
    if for_32_bits(command).is_some() {
        return Some("the program is for 32 bits, and the preload library for 64".to_owned());
    }
    unfit_for_preload(command)
}

/// The reason that a program has a sanitizer, known by the names of its libraries or by symbols in its file.
pub(crate) fn sanitizer_reason<P: AsRef<Path>>(
    program: Option<&Path>,
    modules: &[P],
) -> Option<String> {
    let names = modules
        .iter()
        .filter_map(|m| m.as_ref().file_name()?.to_str());
    let names: Vec<&str> = names.collect();
    let by_library = KNOWN_SANITIZERS.iter().find(|(libraries, _, _)| {
        let is_one = |name: &&str| libraries.iter().any(|l| name.starts_with(l));
        names.iter().any(is_one)
    });
    let inside = || {
        let is_start = |symbol: &[u8]| {
            KNOWN_SANITIZERS
                .iter()
                .any(|(_, s, _)| s.as_bytes() == symbol)
        };
        let starts = ElfFile::open(program?).ok()?.symbols(is_start);
        let start = starts.first()?;
        KNOWN_SANITIZERS.iter().find(|(_, s, _)| *s == start.name)
    };
    let (_, _, name) = by_library.or_else(inside)?;
    let who = program.map_or("the program".into(), |p| p.display().to_string());
    Some(format!(
        "{who} is built with {name}, which must come first and see every call for memory: a preload library would end it, or make it report false errors"
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

/// Whether a file gives rights that its user has not: set-user-ID, set-group-ID, or capabilities.
pub(crate) fn has_rights(file: &Path) -> bool {
    // No file on such a mount does (fs/namespace.c: mnt_may_suid()).
    let mount = rustix::fs::statvfs(file);
    if mount.is_ok_and(|m| m.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID)) {
        return false;
    }
    let capable = rustix::fs::getxattr(file, "security.capability", &mut [0u8; 64]).is_ok();
    let own = (
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    std::fs::metadata(file).is_ok_and(|m| gives_rights(m.mode(), (m.uid(), m.gid()), capable, own))
}

/// Whether the kernel sets AT_SECURE (security/commoncap.c: cap_bprm_creds_from_file()): the file belongs to another user or
/// group than the one that starts it, or has capabilities and is not started by root.
fn gives_rights(mode: u32, of: (u32, u32), capable: bool, own: (u32, u32)) -> bool {
    let user = mode & libc::S_ISUID != 0 && of.0 != own.0;
    // Without the right to execute, the bit means mandatory locks (fs/exec.c: bprm_fill_uid()).
    let group_bits = libc::S_ISGID | libc::S_IXGRP;
    let group = mode & group_bits == group_bits && of.1 != own.1;
    user || group || capable && own.0 != 0
}

/// Whether a process was started with rights of its file, by the AT_SECURE that the kernel passed to its loader
/// (getauxval(3)). None where that may not be read.
pub(crate) fn is_process_secure(auxv: &[u8]) -> Option<bool> {
    const AT_SECURE: u64 = 23;
    let word = |bytes: &[u8]| Some(u64::from_ne_bytes(bytes.try_into().ok()?));
    let pairs = auxv.chunks_exact(16);
    let pairs: Option<Vec<_>> = pairs
        .map(|pair| Some((word(&pair[..8])?, word(&pair[8..])?)))
        .collect();
    let pairs = pairs?;
    // In a program of 32 bits a pair is half as long, so two of its words together are no valid key.
    if pairs.iter().any(|(key, _)| *key > u64::from(u32::MAX)) {
        return None;
    }
    let secure = pairs.iter().find(|(key, _)| *key == AT_SECURE)?;
    Some(secure.1 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::launch::tests::alone;

    /// Check that a file with rights that its user lacks is recognised, and no other is.
    #[test]
    fn rights_of_a_file() {
        let (root, user) = ((0, 0), (1000, 1000));
        for (mode, of, capable, own, secure) in [
            (0o755, root, false, user, false),
            (0o4755, root, false, user, true),
            (0o2755, root, false, user, true),
            // The group has no right to execute it.
            (0o2745, root, false, user, false),
            (0o755, root, true, user, true),
            // It belongs to the user that starts it.
            (0o4755, root, true, root, false),
            (0o6755, user, false, user, false),
            (0o4755, user, false, root, true),
        ] {
            assert_eq!(
                gives_rights(mode, of, capable, own),
                secure,
                "{mode:o} {of:?} {own:?}"
            );
        }
        assert!(!has_rights(Path::new("/nowhere/at/all")));
        assert!(!is_secure(&["/nowhere/at/all".into()]));
    }

    /// Check that AT_SECURE is read from a loader's table, and that a table without it gives none.
    #[test]
    fn what_the_loader_was_told() {
        let table = |pairs: &[(u64, u64)]| {
            let words = pairs.iter().flat_map(|(key, value)| [*key, *value]);
            words.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>()
        };
        assert_eq!(
            is_process_secure(&table(&[(6, 4096), (23, 1), (0, 0)])),
            Some(true)
        );
        assert_eq!(is_process_secure(&table(&[(23, 0)])), Some(false));
        assert_eq!(is_process_secure(&table(&[(6, 23)])), None);
        assert_eq!(is_process_secure(b"short"), None);
        let narrow: Vec<u8> = [6u32, 4096, 3, 52, 23, 0, 25, 0xffff_0000, 0, 0, 0, 0]
            .into_iter()
            .flat_map(u32::to_ne_bytes)
            .collect();
        assert_eq!(is_process_secure(&narrow), None);
        let own = std::fs::read("/proc/self/auxv").unwrap();
        assert_eq!(is_process_secure(&own), Some(false));
    }

    /// Check that a static program is reported as one that loads nothing, a script by its interpreter, and that without a
    /// library there is nothing to tell.
    #[test]
    fn what_is_not_loaded() {
        let _one = alone();
        let dir = tempfile::tempdir().unwrap();
        let (plan_source, program) = (dir.path().join("main.c"), dir.path().join("static"));
        std::fs::write(&plan_source, "int main(void) { return 0; }\n").unwrap();
        let mut cc = std::process::Command::new("cc");
        let built = cc
            .arg("-static")
            .arg(&plan_source)
            .arg("-o")
            .arg(&program)
            .status();
        assert!(built.unwrap().success());
        let preload = BTreeMap::from([("LD_PRELOAD".to_owned(), "/x/libquell.so".to_owned())]);
        let said = not_loaded(&[program.clone().into()], &preload);
        assert!(said.is_some_and(|s| s.contains("static, which is linked statically")));
        assert_eq!(
            not_loaded(&[program.clone().into()], &BTreeMap::new()),
            None
        );
        assert_eq!(not_loaded(&["sh".into()], &preload), None);
        let script = dir.path().join("script");
        std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(not_loaded(&[script.into()], &preload).is_some());
    }

    /// Check that a program of 32 bits is reported as one that the library is not loaded into, by a file that has no more
    /// than the head of one.
    #[test]
    fn narrow_programs() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("narrow");
        std::fs::write(&program, b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let preload = BTreeMap::from([("LD_PRELOAD".to_owned(), "/x/libquell.so".to_owned())]);
        let command = [program.into_os_string()];
        let said = not_loaded(&command, &preload).unwrap();
        assert!(said.contains("narrow, which is a 32-bit program"), "{said}");
        let why = unfit_for_choice(&command);
        assert!(why.is_some_and(|w| w.contains("32 bits")));
        assert_eq!(unfit_for_choice(&["sh".into()]), None);
    }

    /// Check that programs with sanitizers are known: by the library that gcc links, by the code that clang puts inside, and no
    /// other program is taken for one.
    #[test]
    fn sanitizers_are_known() {
        let _one = alone();
        let dir = tempfile::tempdir().unwrap();
        let plan_source = dir.path().join("main.c");
        std::fs::write(&plan_source, "int main(void) { return 0; }\n").unwrap();
        let build = |compiler: &str, flags: &[&str]| {
            let program = dir.path().join(format!("{compiler}{}", flags.join("")));
            let built = std::process::Command::new(compiler)
                .args(flags)
                .arg("-o")
                .args([&program, &plan_source])
                .output();
            built.is_ok_and(|o| o.status.success()).then_some(program)
        };
        for (compiler, flag, name) in [
            ("gcc", "-fsanitize=address", "AddressSanitizer"),
            ("gcc", "-fsanitize=thread", "ThreadSanitizer"),
            ("gcc", "-fsanitize=leak", "LeakSanitizer"),
            ("clang", "-fsanitize=address", "AddressSanitizer"),
            ("clang", "-fsanitize=thread", "ThreadSanitizer"),
            ("clang", "-fsanitize=memory", "MemorySanitizer"),
        ] {
            for more in [&[][..], &["-s"]] {
                let flags = [&[flag][..], more].concat();
                let Some(program) = build(compiler, &flags) else {
                    eprintln!("SKIPPED sanitizers_are_known: {compiler} has no {flag} here");
                    continue;
                };
                let why = unfit_for_preload(&[program.into()]);
                let wanted = format!("is built with {name}");
                assert!(
                    why.is_some_and(|w| w.contains(&wanted)),
                    "{compiler} {flags:?}"
                );
            }
        }
        let plain = build("cc", &[]).unwrap();
        assert_eq!(unfit_for_preload(&[plain.into()]), None);
        assert_eq!(unfit_for_preload(&["/nowhere".into()]), None);
    }
}
