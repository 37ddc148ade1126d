//! Tests of finding the files that a command loads: on this machine's programs, and on made folders.

use super::*;

fn own_env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn names(command: &CommandFiles) -> Vec<String> {
    let name = |p: &PathBuf| {
        p.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    command.modules.iter().map(name).collect()
}

fn write_script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Check that this test program is found to load its C library and loader, and to miss nothing.
#[test]
fn own_program() {
    let argv = [std::env::current_exe().unwrap().into_os_string()];
    let command = find_command_files(Path::new("/"), &argv, &own_env).unwrap();
    let names = names(&command);
    assert!(names.iter().any(|n| n.starts_with("libc.so")), "{names:?}");
    assert!(names.iter().any(|n| n.starts_with("ld-")), "{names:?}");
    assert_eq!(command.missing, Vec::<String>::new());
    assert!(command.scripts.is_empty());
    assert!(!command.is_static());
    let loader = command.modules.iter().find(|m| {
        let name = m.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("ld-")
    });
    let argv = [loader.unwrap().clone().into_os_string()];
    assert!(
        !find_command_files(Path::new("/"), &argv, &own_env)
            .unwrap()
            .is_static()
    );
}

/// Check that a script leads to its interpreter, directly, by env, through another script, and without a line for it.
#[test]
fn scripts() {
    let dir = tempfile::tempdir().unwrap();
    let at = |n: &str| dir.path().join(n);
    write_script(&at("direct"), "#! /bin/sh -e\necho\n");
    write_script(&at("by_env"), "#!/usr/bin/env -S A=b sh -e\necho\n");
    write_script(&at("chain"), &format!("#!{}\n", at("direct").display()));
    write_script(&at("without"), "echo\n");
    for (name, scripts) in [("direct", 1), ("by_env", 1), ("chain", 2), ("without", 1)] {
        let found =
            find_command_files(Path::new("/"), &[at(name).into_os_string()], &own_env).unwrap();
        assert!(found.program.ends_with("sh"), "{found:?}");
        assert_eq!(found.scripts.len(), scripts);
    }
}

/// Check that each thing that cannot be started is refused with its name and the reason.
#[test]
fn refuses() {
    let dir = tempfile::tempdir().unwrap();
    let why = |name: OsString| {
        format!(
            "{:#}",
            find_command_files(Path::new("/"), &[name], &own_env).unwrap_err()
        )
    };
    assert!(why("no-such-program-here".into()).contains("not in PATH"));
    assert!(why("/no/such".into()).contains("No such file"));
    assert!(why(dir.path().into()).contains("not a file"));
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "x").unwrap();
    assert!(why(plain.clone().into()).contains("not executable"));
    write_script(&plain, "PK\x03\x04\0a jar\n");
    assert!(why(plain.into()).contains("not an ELF file"));
    let round = dir.path().join("round");
    write_script(&round, &format!("#!{}\n", round.display()));
    assert!(why(round.into()).contains("loop"));
    let empty = find_command_files(Path::new("/"), &[], &own_env);
    assert!(empty.is_err());
}

/// Check that LD_PRELOAD and LD_LIBRARY_PATH are followed, and a missing library is said.
#[test]
fn preload() {
    let exe = std::env::current_exe().unwrap();
    let env = |name: &str| match name {
        "LD_PRELOAD" => Some("/no/such/lib.so:libm.so.6".into()),
        _ => own_env(name),
    };
    let found = find_command_files(Path::new("/"), &[exe.into()], &env).unwrap();
    assert_eq!(found.missing, ["/no/such/lib.so"]);
    assert!(names(&found).iter().any(|n| n == "libm.so.6"), "{found:?}");
}

/// Check that ld.so.conf is read with its includes, comments and order.
#[test]
fn conf() {
    let dir = tempfile::tempdir().unwrap();
    let etc = dir.path().join("etc/ld.so.conf.d");
    std::fs::create_dir_all(&etc).unwrap();
    std::fs::write(
        dir.path().join("etc/ld.so.conf"),
        "include ld.so.conf.d/*.conf\n/last # here\n",
    )
    .unwrap();
    std::fs::write(etc.join("b.conf"), "# none\n/b\n").unwrap();
    std::fs::write(etc.join("a.conf"), "/a\nrelative\n").unwrap();
    std::fs::write(etc.join("a.other"), "/no\n").unwrap();
    let folders = glibc_folders(dir.path());
    assert_eq!(&folders[..3], ["/a", "/b", "/last"].map(PathBuf::from));
}

/// Writes an ELF file of x86-64 with these entries of its dynamic section.
fn write_elf(root: &Path, path: &str, interpreter: Option<&str>, entries: &[(u64, &str)]) {
    use object::elf::{DT_STRTAB, PT_DYNAMIC, PT_INTERP, PT_LOAD};
    const HEADERS_BYTES: u64 = 64 + 3 * 56;
    let mut strings = b"\0".to_vec();
    let mut place_of = |text: &str| {
        let at = strings.len() as u64;
        strings.extend(text.bytes().chain([0]));
        at
    };
    let interpreter_at = interpreter.map(|text| (place_of(text), text.len() as u64 + 1));
    let mut dynamic: Vec<[u64; 2]> = entries.iter().map(|(tag, s)| [*tag, place_of(s)]).collect();
    let dynamic_bytes = (dynamic.len() as u64 + 2) * 16;
    let strings_at = HEADERS_BYTES + dynamic_bytes;
    dynamic.extend([[DT_STRTAB.0.cast_unsigned(), strings_at], [0, 0]]);
    let end = strings_at + strings.len() as u64;
    let (at, size) = interpreter_at.unwrap_or_default();
    let mut segments = vec![
        (PT_LOAD.0, 0, end),
        (PT_DYNAMIC.0, HEADERS_BYTES, dynamic_bytes),
    ];
    if interpreter_at.is_some() {
        segments.push((PT_INTERP.0, strings_at + at, size));
    }
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // ET_DYN, EM_X86_64
    file.extend([3_u16, 62].iter().flat_map(|half| half.to_le_bytes()));
    file.extend(1_u32.to_le_bytes());
    file.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    file.extend(0_u32.to_le_bytes());
    let sizes = [64, 56, u16::try_from(segments.len()).unwrap(), 64, 0, 0];
    file.extend(sizes.iter().flat_map(|half| half.to_le_bytes()));
    for (kind, at, size) in segments {
        file.extend([kind, 4].iter().flat_map(|half| half.to_le_bytes()));
        let words = [at, at, at, size, size, 8];
        file.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
    file.resize(usize::try_from(HEADERS_BYTES).unwrap(), 0);
    file.extend(dynamic.iter().flatten().flat_map(|word| word.to_le_bytes()));
    file.extend(&strings);
    let path = under(root, Path::new(path));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, file).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The files that a program of these folders loads, and the libraries that it misses.
fn load(root: &Path, library_path: &str) -> (Vec<String>, Vec<String>) {
    let env = |name: &str| (name == "LD_LIBRARY_PATH").then(|| library_path.into());
    let found = find_command_files(root, &["/app/program".into()], &env).unwrap();
    let path = |p: &PathBuf| p.to_string_lossy().into_owned();
    (found.modules.iter().map(path).collect(), found.missing)
}

const NEEDED: u64 = 1;
const RPATH: u64 = 15;
const RUNPATH: u64 = 29;
const MUSL: &str = "/lib/ld-musl-x86_64.so.1";
const GLIBC: &str = "/lib64/ld-linux-x86-64.so.2";

/// A program that needs libmiddle.so, which has a RUNPATH of its own and needs libinner.so, which lies where only the program's
/// own path leads.
fn write_program(root: &Path, interpreter: &str, path_kind: u64) {
    let needs = [(NEEDED, "libmiddle.so"), (path_kind, "$ORIGIN/own")];
    write_elf(root, "/app/program", Some(interpreter), &needs);
    let middle = [(NEEDED, "libinner.so"), (RUNPATH, "/nowhere")];
    write_elf(root, "/app/own/libmiddle.so", None, &middle);
    write_elf(root, "/app/own/libinner.so", None, &[]);
}

/// Check that RUNPATH holds for what libraries need in turn under musl's loader, as it was seen to do, and not under glibc's.
#[test]
fn musl_inherits_runpath() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    for kind in [RPATH, RUNPATH] {
        write_program(root, MUSL, kind);
        let expected = [
            "/app/program",
            MUSL,
            "/app/own/libmiddle.so",
            "/app/own/libinner.so",
        ];
        assert_eq!(
            load(root, ""),
            (expected.map(str::to_owned).to_vec(), vec![])
        );
        write_program(root, GLIBC, kind);
        assert_eq!(load(root, "").1, ["libinner.so"]);
    }
}

/// Check that a library of LD_PRELOAD is looked for where the program's own are under glibc's loader, and not under musl's.
#[test]
fn preloaded_as_if_the_program_needed_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let env = |name: &str| (name == "LD_PRELOAD").then(|| "libinner.so".into());
    for (interpreter, is_found) in [(GLIBC, true), (MUSL, false)] {
        let own = [(RUNPATH, "$ORIGIN/own")];
        write_elf(root, "/app/program", Some(interpreter), &own);
        write_elf(root, "/app/own/libinner.so", None, &[]);
        let found = find_command_files(root, &["/app/program".into()], &env).unwrap();
        let inner = Path::new("/app/own/libinner.so");
        assert_eq!(found.modules.iter().any(|m| m == inner), is_found);
        assert_eq!(found.missing.is_empty(), is_found);
    }
}

/// Check that LD_LIBRARY_PATH comes before RPATH under musl's loader, as it was seen to do, and behind it under glibc's.
#[test]
fn musl_searches_the_environment_first() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write_elf(root, "/other/libmiddle.so", None, &[]);
    write_program(root, MUSL, RPATH);
    assert_eq!(load(root, "/other").0[2], "/other/libmiddle.so");
    write_program(root, GLIBC, RPATH);
    assert_eq!(load(root, "/other").0[2], "/app/own/libmiddle.so");
}

/// Check that musl's loader is searched for no library that is in it, and searches its own folders, or those of its file beside
/// the folder where it lies, but none of ld.so.conf.
#[test]
fn musl_has_folders_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let needs = [
        (NEEDED, "libpthread.so.0"),
        (NEEDED, "libc.musl-x86_64.so.1"),
        (NEEDED, "libz.so"),
    ];
    write_script(&root.join("etc/ld.so.conf"), "/conf\n");
    write_elf(root, "/conf/libz.so", None, &[]);
    write_elf(root, "/app/program", Some(MUSL), &needs);
    assert_eq!(
        load(root, ""),
        (
            vec!["/app/program".into(), MUSL.into()],
            vec!["libz.so".into()]
        )
    );
    write_elf(root, "/usr/local/lib/libz.so", None, &[]);
    assert_eq!(load(root, "").0[2], "/usr/local/lib/libz.so");
    write_script(&root.join("etc/ld-musl-x86_64.path"), "/no\n/conf:/more\n");
    assert_eq!(load(root, "").0[2], "/conf/libz.so");
    // Below /usr the file is another one.
    write_elf(
        root,
        "/app/program",
        Some("/usr/lib/ld-musl-x86_64.so.1"),
        &needs,
    );
    assert_eq!(load(root, "").0[2], "/usr/local/lib/libz.so");
}
