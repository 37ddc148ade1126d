//! The file of libquell.so: beside quell if it was installed there, otherwise one that quell writes.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use quell_remedy::SHIM_LIBRARY;

/// The bytes of the library from this very build.
pub(super) const SHIM_BYTES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libquell.so"));

/// Puts the path of the library's file where an environment names it without a folder.
///
/// # Errors
///
/// It can be written nowhere that programs may load it from.
pub(crate) fn put_library_path(environment: &mut BTreeMap<String, String>) -> anyhow::Result<()> {
    let Some(list) = environment.get_mut("LD_PRELOAD") else {
        return Ok(());
    };
    if !list.split([':', ' ']).any(|name| name == SHIM_LIBRARY) {
        return Ok(());
    }
    let file = find_or_write_library()?;
    let path = file
        .to_str()
        .filter(|p| !p.contains([':', ' ']))
        .with_context(|| {
            format!(
                "{} can't stand in LD_PRELOAD, which ends a name at a blank or colon",
                file.display()
            )
        })?;
    *list = list
        .split([':', ' '])
        .map(|name| if name == SHIM_LIBRARY { path } else { name })
        .collect::<Vec<_>>()
        .join(":");
    Ok(())
}

/// A file with the library, which is written if it is not there.
///
/// # Errors
///
/// It can be written nowhere that programs may load it from.
pub(crate) fn find_or_write_library() -> anyhow::Result<PathBuf> {
    if let Some(installed) = installed_library() {
        return Ok(installed);
    }
    let mut why = Vec::new();
    for folder in possible_folders() {
        match put_into(&folder) {
            Ok(path) => return Ok(path),
            Err(error) => why.push(format!("{}: {error:#}", folder.display())),
        }
    }
    bail!(
        "{SHIM_LIBRARY} can be put nowhere that programs may load it from ({}); set XDG_CACHE_HOME to a folder of your own on a disk that allows execution",
        why.join("; ")
    )
}

/// The file that packages install: in lib/quell beside the folder of the program. One of another build is passed over.
fn installed_library() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let file = own.parent()?.parent()?.join("lib/quell").join(SHIM_LIBRARY);
    (fs::read(&file).ok()? == SHIM_BYTES).then_some(file)
}

/// The folders in which it may be written, the best first. Everybody may read root's: a server that root starts may give
/// up its rights and start others.
fn possible_folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return vec!["/run/quell".into(), "/var/cache/quell".into()];
    }
    let set = |name: &str| std::env::var_os(name).filter(|v| Path::new(v).has_root());
    let mut all = Vec::new();
    if let Some(cache) = set("XDG_CACHE_HOME") {
        all.push(PathBuf::from(cache).join("quell"));
    } else if let Some(home) = set("HOME") {
        all.push(PathBuf::from(home).join(".cache/quell"));
    }
    if let Some(run) = set("XDG_RUNTIME_DIR") {
        all.push(PathBuf::from(run).join("quell"));
    }
    all.push(format!("/tmp/quell-{}", user.as_raw()).into());
    all
}

/// Writes the library into a folder if it is not there, under a name by its content. The folder must be writable for its
/// owner alone, or others could put code into programs.
fn put_into(folder: &Path) -> anyhow::Result<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let mode = if user == 0 { 0o755 } else { 0o700 };
    if !folder.is_dir() {
        make_folder(folder, mode)?;
    }
    let meta = fs::symlink_metadata(folder).context("looking at it")?;
    if !meta.is_dir() || meta.uid() != user || meta.mode() & 0o022 != 0 {
        bail!("it is not yours alone to write to");
    }
    // A hash of the content names the build, so that running programs keep the library of an older quell. It may be any hash,
    // because the content is compared too.
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(SHIM_BYTES);
    let path = folder.join(format!("{hash:016x}")).join(SHIM_LIBRARY);
    let there = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes == SHIM_BYTES);
    if !there(&path) {
        let inner = path.parent().unwrap_or(folder);
        if !inner.is_dir() {
            make_folder(inner, mode)?;
        }
        let new = inner.join(format!("{SHIM_LIBRARY}.{}", std::process::id()));
        let written =
            write_library(&new).and_then(|()| fs::rename(&new, &path).context("naming it"));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written?;
    }
    may_be_loaded(&path)?;
    Ok(path)
}

fn make_folder(folder: &Path, mode: u32) -> anyhow::Result<()> {
    fs::create_dir_all(folder).context("making it")?;
    fs::set_permissions(folder, fs::Permissions::from_mode(mode)).context("setting its mode")
}

fn write_library(path: &Path) -> anyhow::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)
        .context("writing there")?;
    file.write_all(SHIM_BYTES).context("writing there")?;
    file.set_permissions(fs::Permissions::from_mode(0o644))
        .context("setting its mode")
}

/// Checks that its file system allows execution (`noexec`, mount(8)).
fn may_be_loaded(path: &Path) -> anyhow::Result<()> {
    let stat = rustix::fs::statvfs(path).context("looking at its file system")?;
    if stat.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        bail!("it is mounted without execution (noexec)");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the library is one, for this machine, and needs no other.
    #[test]
    fn is_a_library() {
        let elf = quell_host::elf::ElfFile::from_bytes(SHIM_BYTES.to_vec()).unwrap();
        assert!(elf.is_library());
        assert_eq!(elf.dynamic().soname.as_deref(), Some(SHIM_LIBRARY));
        assert!(elf.dynamic().needed.is_empty());
        let exported = elf.symbols(|name| name == b"munmap" || name == b"quell_shim_counters");
        assert_eq!(exported.iter().filter(|s| s.exported).count(), 2);
    }

    /// Check that it is written there once and whole, and that a folder of another user is refused.
    #[test]
    fn is_put() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let path = put_into(&folder).unwrap();
        assert_eq!(fs::read(&path).unwrap(), SHIM_BYTES);
        let first = fs::metadata(&path).unwrap().ino();
        assert_eq!(put_into(&folder).unwrap(), path);
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        // A file that is not whole is replaced.
        fs::write(&path, "half").unwrap();
        put_into(&folder).unwrap();
        assert_eq!(fs::read(&path).unwrap(), SHIM_BYTES);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(put_into(&folder).is_err());
    }

    /// Check that only the library's own name is replaced, in its place.
    #[test]
    fn resolves() {
        let mut none = BTreeMap::from([("LD_PRELOAD".into(), "/a/libquell.so:b.so".into())]);
        let before = none.clone();
        put_library_path(&mut none).unwrap();
        assert_eq!(none, before);
        let mut environment = BTreeMap::from([("LD_PRELOAD".into(), "/b/c.so:libquell.so".into())]);
        put_library_path(&mut environment).unwrap();
        let list = &environment["LD_PRELOAD"];
        let (theirs, ours) = list.rsplit_once(':').unwrap();
        assert!(
            ours.starts_with('/') && ours.ends_with("/libquell.so"),
            "{ours}"
        );
        assert_eq!(theirs, "/b/c.so");
    }
}
