//! Whether a library can be preloaded into a command's program, and should be.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use quell_host::elf::{ElfFile, is_32_bit};
use quell_host::needed;

use super::file_rights::has_rights;

/// The reason why the loader won't load a library of an environment's `LD_PRELOAD` into a command, if there is one. For a
/// script its interpreter counts; programs that the command starts in turn are not checked.
pub(crate) fn not_loaded(
    command: &[OsString],
    environment: &BTreeMap<String, String>,
) -> Option<String> {
    environment.get("LD_PRELOAD")?;
    let env = |name: &str| std::env::var_os(name);
    let (_, program) = needed::find_command_program(Path::new("/"), command, &env).ok()?;
    let why = if is_32_bit(&program) {
        "is a 32-bit program, and the library is for 64 bits"
    } else if needed::find_command_files(Path::new("/"), command, &env).is_ok_and(|c| c.is_static())
    {
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
    let (_, program) = needed::find_command_program(Path::new("/"), command, &env).ok()?;
    is_32_bit(&program).then_some(program)
}

const FOR_32_BITS: &str = "the program is for 32 bits, and the preload library for 64";

/// The sanitizers that stand between a program and its memory: the stem from which the names of their files and symbols are
/// made, and their names.
const KNOWN_SANITIZERS: [(&str, &str); 5] = [
    ("asan", "AddressSanitizer"),
    ("hwasan", "HWAddressSanitizer"),
    ("tsan", "ThreadSanitizer"),
    ("msan", "MemorySanitizer"),
    ("lsan", "LeakSanitizer"),
];

/// The reason why no library should be preloaded into a command's program though the loader would do it, if there is one.
/// A program that can't be found or read is taken for one that bears it.
pub(crate) fn unfit_for_preload(command: &[OsString]) -> Option<String> {
    let env = |name: &str| std::env::var_os(name);
    let found = needed::find_command_files(Path::new("/"), command, &env).ok()?;
    sanitizer_reason(Some(&found.program), &found.modules)
}

/// [`unfit_for_preload`], and programs that the loader passes over silently. It serves the choice of a plan.
pub(crate) fn unfit_for_choice(command: &[OsString]) -> Option<String> {
    if for_32_bits(command).is_some() {
        return Some(FOR_32_BITS.to_owned());
    }
    unfit_for_preload(command)
}

/// [`unfit_for_choice`] of a process that runs, by the link of /proc to its program's file, which leads there also from a
/// container, by that file's name, and by the files that it has mapped executable.
pub(crate) fn unfit_process<P: AsRef<Path>>(
    link: &Path,
    program: Option<&Path>,
    modules: &[P],
) -> Option<String> {
    if is_32_bit(link) {
        return Some(FOR_32_BITS.to_owned());
    }
    sanitizer_reason(program, modules)
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
    let by_library = KNOWN_SANITIZERS.iter().find(|(stem, _)| {
        // As gcc and clang name them.
        let libraries = [format!("lib{stem}.so"), format!("libclang_rt.{stem}")];
        let is_one = |name: &&str| libraries.iter().any(|l| name.starts_with(l));
        names.iter().any(is_one)
    });
    // Where it is linked into the program, the symbol of its start is there.
    let by_start = |symbol: &[u8]| {
        let stem = symbol.strip_prefix(b"__")?.strip_suffix(b"_init")?;
        KNOWN_SANITIZERS.iter().find(|(s, _)| s.as_bytes() == stem)
    };
    let inside = || {
        let is_start = |symbol: &[u8]| by_start(symbol).is_some();
        let starts = ElfFile::open(program?).ok()?.symbols(is_start);
        by_start(starts.first()?.name.as_bytes())
    };
    let (_, name) = by_library.or_else(inside)?;
    let who = program.map_or("the program".into(), |p| p.display().to_string());
    Some(format!(
        "{who} is built with {name}, which must come first and see every call for memory: a preload library would end it, or make it report false errors"
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::launch::tests::alone;

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
