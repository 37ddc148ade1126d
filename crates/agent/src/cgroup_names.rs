//! Names of cgroups: the id becomes a path, and where the path shows them, a container and a pod.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quell_event::text::clean_text;

/// Where the hierarchy of cgroup v2 is mounted; the second is used where v1 is mounted beside it.
const CGROUP_MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// A walk looks at no more folders than this, so that a host with very many cgroups costs no more.
const MAX_WALKED_FOLDERS: usize = 50_000;
/// Time between two walks. The wait for a cgroup that is not found doubles with each walk, up to the maximum.
const WALK_PAUSE: Duration = Duration::from_secs(30);
const MAX_WALK_PAUSE: Duration = Duration::from_secs(3600);

/// A cgroup as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupName {
    /// Path from the root of the hierarchy; empty where the cgroup is gone.
    pub path: String,
    /// The first 12 characters of the container's id, as `docker ps` shows it; of LXC the container's name.
    pub container: String,
    /// The pod's uid.
    pub pod: String,
}

impl CgroupName {
    /// Derives the name from a path. Of containers and pods within each other the innermost counts. The path is cleaned, since
    /// whoever may make folders there names them as he likes.
    #[must_use]
    pub fn from_path(path: &str) -> Self {
        let path = clean_text(path);
        let parts = path.split('/');
        let mut name = Self {
            path: path.clone().into_owned(),
            ..Self::default()
        };
        for part in parts {
            if let Some(pod) = pod_uid(part) {
                name.pod = pod;
            }
            if let Some(container) = container_id(part) {
                name.container = container;
            }
        }
        name
    }
}

/// The pod's uid. It follows `pod`, in a folder of its own (cgroupfs) or at the end of `kubepods-burstable-pod….slice` (systemd,
/// which has `_` for `-`).
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = part.rsplit_once("pod")?;
    let kube = before.is_empty() || before.starts_with("kubepods");
    let uid = uid.replace('_', "-");
    let is_uid = uid.len() == 36 && uid.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    (kube && is_uid).then_some(uid)
}

/// The container's id: 64 hexadecimal digits, by themselves or in `docker-….scope`, `cri-containerd-….scope`, `crio-….scope`,
/// `libpod-….scope`; or the name after `lxc.payload.`.
fn container_id(part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name.to_owned());
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    let id = part.rsplit('-').next()?;
    let is_id = id.len() == 64 && id.chars().all(|c| c.is_ascii_hexdigit());
    is_id.then(|| id[..12].to_owned())
}

/// Looks names of cgroups up, and remembers them.
#[derive(Debug)]
pub struct CgroupNames {
    mount: PathBuf,
    known: HashMap<u64, CgroupName>,
    /// Cgroups that were not found: the time of the next attempt, and the pause before it.
    gone: HashMap<u64, (Instant, Duration)>,
    walked: Option<Instant>,
}

impl CgroupNames {
    /// Chooses the hierarchy that is mounted under this root, `/` for this machine; names are read later. The file
    /// `cgroup.controllers` tells the root of cgroup v2 from those of v1.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let mounts = CGROUP_MOUNTS.map(|m| quell_host::under(root, Path::new(m)));
        let v2 = mounts
            .iter()
            .find(|m| m.join("cgroup.controllers").exists());
        Self {
            mount: v2.unwrap_or(&mounts[0]).clone(),
            known: HashMap::new(),
            gone: HashMap::new(),
            walked: None,
        }
    }

    /// The names of these cgroups. A cgroup that is not found, because it is gone or newer than the last walk, has an empty one,
    /// and names of other cgroups are forgotten. On 64-bit Linux a cgroup's id is the inode number of its folder
    /// (include/linux/kernfs.h: kernfs_id_ino()).
    pub fn names_of(&mut self, ids: &[u64]) -> HashMap<u64, CgroupName> {
        self.known.retain(|id, _| ids.contains(id));
        self.gone.retain(|id, _| ids.contains(id));
        let now = Instant::now();
        let due = |id: &u64| self.gone.get(id).is_none_or(|(at, _)| *at <= now);
        let missing: HashSet<u64> = ids
            .iter()
            .copied()
            .filter(|id| !self.known.contains_key(id) && due(id))
            .collect();
        let rested = self.walked.is_none_or(|at| now - at >= WALK_PAUSE);
        if !missing.is_empty() && rested {
            self.walk_hierarchy(missing.clone());
            self.walked = Some(now);
            for id in missing {
                if self.known.contains_key(&id) {
                    self.gone.remove(&id);
                } else {
                    let pause = self
                        .gone
                        .get(&id)
                        .map_or(WALK_PAUSE, |(_, p)| (*p * 2).min(MAX_WALK_PAUSE));
                    self.gone.insert(id, (now + pause, pause));
                }
            }
        }
        let name = |id: &u64| (*id, self.known.get(id).cloned().unwrap_or_default());
        ids.iter().map(name).collect()
    }

    /// The names of these cgroups for a single use: the names that are remembered stay as they are. It walks at once, however
    /// short ago the last walk was, so it is for occasions that are rare. A cgroup that is not found is missing from the answer,
    /// where [`Self::names_of`] has an empty name; others may be in it.
    pub fn names_for_once(&mut self, ids: &[u64]) -> HashMap<u64, CgroupName> {
        let before = self.known.clone();
        let missing = ids.iter().copied();
        let missing: HashSet<u64> = missing.filter(|id| !before.contains_key(id)).collect();
        if !missing.is_empty() {
            self.walk_hierarchy(missing);
        }
        std::mem::replace(&mut self.known, before)
    }

    /// Looks for these cgroups in the hierarchy, and remembers the names of those that it finds. It ends when all are found, or
    /// after [`MAX_WALKED_FOLDERS`].
    fn walk_hierarchy(&mut self, mut missing: HashSet<u64>) {
        if let Ok(root) = fs::metadata(&self.mount)
            && missing.remove(&root.ino())
        {
            self.known.insert(root.ino(), CgroupName::from_path("/"));
        }
        let mut folders = vec![self.mount.clone()];
        let mut looked = 0;
        while let Some(folder) = folders.pop() {
            looked += 1;
            if missing.is_empty() || looked > MAX_WALKED_FOLDERS {
                return;
            }
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            for entry in entries.flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let path = entry.path();
                if missing.remove(&entry.ino()) {
                    let below = path.strip_prefix(&self.mount).unwrap_or(&path);
                    let name = CgroupName::from_path(&format!("/{}", below.to_string_lossy()));
                    self.known.insert(entry.ino(), name);
                }
                folders.push(path);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const UID: &str = "12345678-9abc-def0-1234-56789abcdef0";

    /// Check that the paths of every container runtime that is known tell the container and the pod.
    #[test]
    fn paths_tell() {
        let systemd = UID.replace('-', "_");
        let paths = [
            (
                format!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{systemd}.slice/cri-containerd-{ID}.scope"
                ),
                true,
                UID,
            ),
            (
                format!("/kubepods.slice/kubepods-pod{systemd}.slice/crio-{ID}.scope/container"),
                true,
                UID,
            ),
            (format!("/kubepods/besteffort/pod{UID}/{ID}"), true, UID),
            (format!("/system.slice/docker-{ID}.scope"), true, ""),
            (format!("/docker/{ID}"), true, ""),
            (format!("/machine.slice/libpod-{ID}.scope"), true, ""),
            ("/system.slice/ssh.service".to_owned(), false, ""),
            (
                "/system.slice/podman.service/pod-of-mine".to_owned(),
                false,
                "",
            ),
            ("/".to_owned(), false, ""),
        ];
        for (path, is_container, pod) in paths {
            let name = CgroupName::from_path(&path);
            assert_eq!(
                name.container,
                if is_container { &ID[..12] } else { "" },
                "{path}"
            );
            assert_eq!(name.pod, pod, "{path}");
        }
        assert_eq!(CgroupName::from_path("/lxc.payload.web").container, "web");
    }

    proptest! {
        /// Check that any path is told, as it is where it is plain, and none makes it fail.
        #[test]
        fn any_path(path in "(?s).{0,100}") {
            prop_assert_eq!(CgroupName::from_path(&path).path, clean_text(&path));
        }
    }

    /// Check that names are found by the folder's number, that what is not there has none, and that it is not looked for
    /// again at once.
    #[test]
    fn found_by_number() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("sys/fs/cgroup");
        let slice = mount.join("a.slice/b.service");
        fs::create_dir_all(&slice).unwrap();
        fs::write(mount.join("cgroup.controllers"), "").unwrap();
        let ino = |path: &Path| fs::metadata(path).unwrap().ino();
        let mut names = CgroupNames::new(root.path());
        let ids = [ino(&slice), ino(&mount), u64::MAX];
        let found = names.names_of(&ids);
        assert_eq!(found[&ids[0]].path, "/a.slice/b.service");
        assert_eq!(found[&ids[1]].path, "/");
        assert_eq!(found[&u64::MAX].path, "");
        assert_eq!(
            names.names_for_once(&[ino(&slice)])[&ino(&slice)].path,
            "/a.slice/b.service"
        );
        let once = mount.join("once");
        fs::create_dir(&once).unwrap();
        assert_eq!(
            names.names_for_once(&[ino(&once)])[&ino(&once)].path,
            "/once"
        );
        assert!(!names.known.contains_key(&ino(&once)));
        let new = mount.join("new");
        fs::create_dir(&new).unwrap();
        assert_eq!(names.names_of(&[ino(&new)])[&ino(&new)].path, "");
        names.walked = None;
        assert_eq!(names.names_of(&[ino(&new)])[&ino(&new)].path, "/new");
        // what is gone is looked for less and less often
        names.walked = None;
        names.names_of(&[u64::MAX]);
        names.walked = None;
        names.names_of(&[u64::MAX]);
        assert!(names.walked.is_none(), "too soon");
        for pause in [60, 120, 240] {
            let gone = names.gone.get_mut(&u64::MAX).unwrap();
            gone.0 = Instant::now();
            names.walked = None;
            names.names_of(&[u64::MAX]);
            assert_eq!(names.gone[&u64::MAX].1, Duration::from_secs(pause));
        }
    }
}
