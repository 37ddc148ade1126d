//! Files that are held, known again, and refused.

use super::*;
use quell_host::maps;
use std::os::unix::fs::FileExt as _;

/// The mapping of this program's own code.
fn own() -> Mapping {
    let maps = maps::read_maps(Path::new("/"), std::process::id()).unwrap();
    maps::mapping_at(&maps, own as *const () as u64)
        .unwrap()
        .clone()
}

fn starts_as_elf(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && functions::is_elf(&magic[..])
}

/// Check that a mapped file is opened once, with its build id, and through its name where the
/// mapping can't be followed.
#[test]
fn files_are_held() {
    let (pid, mapping) = (std::process::id(), own());
    let mut files = CodeFiles::new(Path::new("/"));
    let number = files.hold_file(pid, &mapping).unwrap();
    assert!(starts_as_elf(files.held_file(number).unwrap()));
    assert_eq!(files.build_id(pid, &mapping).map(|id| id.len()), Some(40));
    assert_eq!(
        (files.hold_file(pid, &mapping), files.known.len()),
        (Some(number), 1)
    );
    assert!(files.file_contents(number).is_ok());
    // no such mapping: its link in map_files is missing
    let mut elsewhere = mapping.clone();
    elsewhere.start += 0x10_0000_0000;
    elsewhere.end += 0x10_0000_0000;
    let mut files = CodeFiles::new(Path::new("/"));
    let number = files.hold_file(pid, &elsewhere).unwrap();
    assert!(starts_as_elf(files.held_file(number).unwrap()));
}

/// Check that the links of map_files, each of which takes the lock of the process's address space, are left alone while the path
/// leads to the mapped file, and are asked where its name is gone or another file has it.
#[test]
fn links_are_asked_last() {
    let root = tempfile::tempdir().unwrap();
    let inside = root.path().join("proc/1/root");
    let links = root.path().join("proc/1/map_files");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::create_dir_all(&links).unwrap();
    let (named, linked) = (inside.join("file"), root.path().join("linked"));
    std::fs::write(&named, with_build_id(1)).unwrap();
    std::fs::write(&linked, with_build_id(2)).unwrap();
    let mut mapping = own();
    mapping.path = Some("/file".into());
    std::os::unix::fs::symlink(&linked, links.join(mapping.map_file_name())).unwrap();
    let named = std::fs::metadata(&named).unwrap();
    let other = named.ino() + 1;
    let real = (libc::major(named.dev()), libc::minor(named.dev()));
    let ids = ["0101010101010101", "0202020202020202"];
    for (dev, inode, deleted, expected) in [
        ((8, 1), named.ino(), false, ids[1]),
        (real, named.ino(), true, ids[1]),
        (real, other, false, ids[1]),
        (
            real,
            named.ino(),
            false,
            if real.0 == 0 { ids[1] } else { ids[0] },
        ),
        // several subvolumes may have this number
        ((0, 40), named.ino(), false, ids[1]),
    ] {
        (mapping.dev, mapping.inode, mapping.deleted) = (dev, inode, deleted);
        assert_eq!(is_told_by_path(&mapping), dev.0 != 0 && !deleted);
        let mut files = CodeFiles::new(root.path());
        files.hold_file(1, &mapping).unwrap();
        let id = files.build_id(1, &mapping);
        assert_eq!(id.as_deref(), Some(expected), "{dev:?} {inode} {deleted}");
    }
}

/// Check that another file under the same name is not taken for the one that was mapped.
#[test]
fn others_are_not_taken() {
    let mut mapping = own();
    mapping.start += 0x10_0000_0000;
    mapping.inode += 1;
    let mut files = CodeFiles::new(Path::new("/"));
    let number = files.hold_file(std::process::id(), &mapping).unwrap();
    assert!(files.held_file(number).is_none());
    assert_eq!(
        files.file_contents(number).err(),
        Some(MissingNameReason::Replaced)
    );
    mapping.inode += 1;
    mapping.path = Some("/no/such/file".into());
    let number = files.hold_file(std::process::id(), &mapping).unwrap();
    assert_eq!(
        files.file_contents(number).err(),
        Some(MissingNameReason::Unreadable)
    );
}

/// An ELF file with this build id and nothing else.
fn with_build_id(id: u8) -> Vec<u8> {
    let mut file = vec![0; 64 + 56];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    (file[20], file[32], file[54], file[56]) = (1, 64, 56, 1); // e_version, e_phoff, e_phentsize, e_phnum
    (file[64], file[64 + 8], file[64 + 32], file[64 + 48]) = (4, 120, 24, 4); // a note of 24 bytes
    file.extend([4, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0]);
    file.extend(b"GNU\0");
    file.extend([id; 8]);
    file
}

/// Check that files which a device without a major number gives the same inode are told apart by
/// their build ids, or by what stat(2) says.
#[test]
fn subvolumes_are_told_apart() {
    let root = tempfile::tempdir().unwrap();
    let mut mapping = own();
    let see = |files: &mut CodeFiles, pid: u32, mapping: &Mapping, name: &str| {
        let links = root.path().join(format!("proc/{pid}/map_files"));
        std::fs::create_dir_all(&links).unwrap();
        let to = root.path().join(name);
        std::os::unix::fs::symlink(to, links.join(mapping.map_file_name())).unwrap();
        files.hold_file(pid, mapping).unwrap()
    };
    for (name, id) in [("one", 1), ("copy", 1), ("two", 2)] {
        std::fs::write(root.path().join(name), with_build_id(id)).unwrap();
    }
    for (name, written) in [("plain", 1), ("other", 2)] {
        let file = File::create(root.path().join(name)).unwrap();
        let at = std::time::UNIX_EPOCH + Duration::from_secs(written);
        file.set_modified(at).unwrap();
    }
    let names = [
        "one", "two", "copy", "plain", "other", "plain", "gone", "gone",
    ];
    for (major, expected) in [(0, [0, 1, 0, 2, 3, 2, 4, 5]), (8, [0; 8])] {
        let mut files = CodeFiles::new(root.path());
        mapping.dev = (major, 40);
        let mut found = Vec::new();
        for (pid, name) in (100 * major + 1..).zip(names) {
            let number = see(&mut files, pid, &mapping, name);
            assert_eq!(files.file_number(pid, &mapping), Some(number));
            found.push(number);
        }
        assert_eq!(found, expected, "{major}");
        if major == 0 {
            assert_eq!(
                files.build_id(2, &mapping).as_deref(),
                Some("0202020202020202")
            );
            // elsewhere in the same process
            mapping.path = Some("/elsewhere".into());
            mapping.start += 0x1000;
            assert_eq!(see(&mut files, 1, &mapping, "one"), 6);
        }
    }
}

/// Check that a file that could not be opened is opened when it can be, under the same number, and
/// that one which was never opened is taken for the mapped one only if nothing has happened to it.
#[test]
fn unopened_files() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("file");
    std::fs::write(&path, with_build_id(1)).unwrap();
    let mut mapping = own();
    mapping.path = Some("/file".into());
    mapping.inode = std::fs::metadata(&path).unwrap().ino();
    let dev = std::fs::metadata(&path).unwrap().dev();
    mapping.dev = (libc::major(dev), libc::minor(dev));
    std::thread::sleep(2 * MAX_KERNEL_TICK);
    let mut files = CodeFiles::new(root.path());
    let number = files.hold_file(1, &mapping).unwrap();
    assert!(files.held_file(number).is_none());
    assert!(files.file_contents(number).is_ok());
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(
        files.file_contents(number).err(),
        Some(MissingNameReason::Unreadable)
    );

    let links = root.path().join("proc/1/map_files");
    std::fs::create_dir_all(&links).unwrap();
    std::os::unix::fs::symlink(&path, links.join(mapping.map_file_name())).unwrap();
    assert_eq!(files.hold_file(1, &mapping), Some(number));
    assert!(files.held_file(number).is_some() && files.file_contents(number).is_ok());
    assert_eq!(
        files.build_id(1, &mapping).as_deref(),
        Some("0101010101010101")
    );
}

/// Check that beyond the limit files are counted, not held, and still named while they are there.
#[test]
fn the_limit_is_kept() {
    let mut files = CodeFiles::new(Path::new("/"));
    files.room = 0;
    let number = files.hold_file(std::process::id(), &own()).unwrap();
    assert_eq!(
        (files.not_held(), files.held_file(number).is_none()),
        (1, true)
    );
    assert!(files.file_contents(number).is_ok());
    files.hold_file(std::process::id(), &own());
    assert_eq!(files.not_held(), 1);
}
