//! Tests of finding the files that a command loads: on this machine's programs, and on made folders.

use super::*;

fn own_env(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

fn names(command: &Command) -> Vec<String> {
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
    let command = command(Path::new("/"), &argv, &own_env).unwrap();
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
        !super::command(Path::new("/"), &argv, &own_env)
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
        let found = command(Path::new("/"), &[at(name).into_os_string()], &own_env).unwrap();
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
            command(Path::new("/"), &[name], &own_env).unwrap_err()
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
    let empty = command(Path::new("/"), &[], &own_env);
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
    let found = command(Path::new("/"), &[exe.into()], &env).unwrap();
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
