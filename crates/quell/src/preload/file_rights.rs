//! Programs that run with rights of their file: the loader takes no library from the environment of such a program.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use quell_host::needed;

/// Whether a command's program runs with the rights of its file, so that the loader takes no library from
/// the environment. A program that can't be found or read is taken for none.
pub(crate) fn is_secure(command: &[OsString]) -> bool {
    let found = needed::find_command_files(Path::new("/"), command, &|name: &str| {
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
    use super::*;

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
}
