//! The allocators that are there: their identity is known from elsewhere, not from their files.

use std::path::{Path, PathBuf};
use std::process::Command;

use quell_remedy::{SoftwareKind, Version};

pub(crate) type Triple = (u32, u32, u32);

/// The builders of the machine's own packages.
const MACHINE: &str = "Debian";
pub(crate) const MULTIARCH: &str = "/usr/lib/x86_64-linux-gnu";
pub(crate) const MUSL: &str = "/usr/lib/x86_64-linux-musl";

/// One version of one allocator.
pub(crate) struct ShootdownOrigin {
    pub(crate) kind: SoftwareKind,
    pub(crate) version: Option<Triple>,
    /// Who built it.
    pub(crate) from: &'static str,
    /// Its library.
    pub(crate) shared: Option<PathBuf>,
    /// Its archive, for programs.
    pub(crate) archive: Option<PathBuf>,
    /// Its archive for libraries, where that is another one.
    pub(crate) archive_pic: Option<PathBuf>,
    /// What its functions' names start with.
    pub(crate) prefix: String,
    /// Where the C library lies that it is to be linked with, if not in /.
    pub(crate) root: Option<PathBuf>,
}

impl ShootdownOrigin {
    pub(crate) fn label(&self) -> String {
        let version = self
            .version
            .map_or_else(String::new, |(a, b, c)| format!(" {a}.{b}.{c}"));
        let name = self.kind.name().split(' ').next().unwrap_or_default();
        format!("{}{name}{version} ({})", self.prefix, self.from)
    }
}

/// Names of the folders under `target/allocators`, and of Debian's packages: library, its file, its archives.
type Names = (
    SoftwareKind,
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static [&'static str],
);

const NAMES: &[Names] = &[
    (
        SoftwareKind::Glibc,
        "glibc",
        &[("libc6", "libc.so.6")],
        "libc6-dev",
        &["libc.a"],
    ),
    (
        SoftwareKind::Musl,
        "musl",
        &[("musl", "ld-musl-x86_64.so.1")],
        "musl-tools",
        &["libc.a"],
    ),
    (
        SoftwareKind::Jemalloc,
        "jemalloc",
        &[("libjemalloc2", "libjemalloc.so.2")],
        "libjemalloc-dev",
        &["libjemalloc.a", "libjemalloc_pic.a"],
    ),
    (
        SoftwareKind::Mimalloc,
        "mimalloc",
        &[
            ("libmimalloc2.0", "libmimalloc.so.2"),
            ("libmimalloc3", "libmimalloc.so.3"),
        ],
        // Debian's has no archive.
        "",
        &["libmimalloc.a"],
    ),
    (
        SoftwareKind::Gperftools,
        "gperftools",
        &[
            ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
            ("libtcmalloc-minimal4t64", "libtcmalloc_minimal.so.4"),
        ],
        "libgoogle-perftools-dev",
        &["libtcmalloc_minimal.a"],
    ),
    (
        SoftwareKind::GoogleTcmalloc,
        "tcmalloc",
        &[],
        "",
        &["libtcmalloc_google.a"],
    ),
];

fn names(kind: SoftwareKind) -> &'static Names {
    NAMES.iter().find(|names| names.0 == kind).unwrap()
}

fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/allocators")
}

/// All that there are of a kind, the machine's first.
pub(crate) fn all(kind: SoftwareKind) -> Vec<ShootdownOrigin> {
    let mut found: Vec<ShootdownOrigin> = of_machine(kind).into_iter().collect();
    let folders = std::fs::read_dir(built()).into_iter().flatten().flatten();
    found.extend(folders.filter_map(|entry| of_bench(kind, &entry.path())));
    found.sort_by_key(|one| (one.from != MACHINE, one.version));
    found
}

/// Debian's own, whose version dpkg knows.
fn of_machine(kind: SoftwareKind) -> Option<ShootdownOrigin> {
    let (_, _, packages, _, archives) = names(kind);
    let folder = if kind == SoftwareKind::Musl {
        MUSL
    } else {
        MULTIARCH
    };
    packages.iter().find_map(|(package, library)| {
        let out = Command::new("dpkg-query")
            .args(["-W", "-f", "${Status} ${Version}", package])
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let version = text.strip_prefix("install ok installed ")?;
        let mut shared = [folder, "/lib"]
            .into_iter()
            .map(|f| Path::new(f).join(library));
        let archive = |name: &&str| Some(Path::new(folder).join(name)).filter(|p| p.exists());
        Some(ShootdownOrigin {
            kind,
            version: Version::parse_leading(version.as_bytes()).map(|v| v.from),
            from: MACHINE,
            shared: shared.find(|path| path.exists()),
            archive: archives.first().and_then(archive),
            archive_pic: archives.last().and_then(archive),
            prefix: String::new(),
            root: None,
        })
    })
}

/// A folder `NAME-VERSION` of bench/remedies/allocators.
fn of_bench(kind: SoftwareKind, folder: &Path) -> Option<ShootdownOrigin> {
    let (_, name, _, _, archives) = names(kind);
    let version = folder
        .file_name()?
        .to_str()?
        .strip_prefix(name)?
        .strip_prefix('-')?;
    let about = std::fs::read_to_string(folder.join("about.json")).ok()?;
    let about: serde_json::Value = serde_json::from_str(&about).unwrap();
    let lib = folder.join("lib");
    let libraries = std::fs::read_dir(&lib).unwrap().flatten().map(|e| e.path());
    let archive = |name: &&str| Some(lib.join(name)).filter(|p| p.exists());
    Some(ShootdownOrigin {
        kind,
        version: Version::parse_leading(version.as_bytes()).map(|v| v.from),
        from: "built",
        shared: libraries
            .into_iter()
            .find(|path| path.to_string_lossy().contains(".so")),
        archive: archives.first().and_then(archive),
        archive_pic: archives.last().and_then(archive),
        prefix: about["prefix"].as_str().unwrap_or_default().to_owned(),
        root: about["root"].as_str().map(|root| built().join(root)),
    })
}

/// Files of packages that bench/remedies/allocators has fetched, and the software in each: a name and a version.
pub(crate) fn packages() -> Vec<(PathBuf, String, String)> {
    let folders = std::fs::read_dir(built().join("packages"));
    let folders = folders.into_iter().flatten().flatten().map(|e| e.path());
    folders
        .filter_map(|folder| {
            let about = std::fs::read_to_string(folder.join("about.json")).ok()?;
            let about: serde_json::Value = serde_json::from_str(&about).unwrap();
            let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
            let file = folder.join(text(&about["file"]));
            Some((file, text(&about["holds"][0]), text(&about["holds"][1])))
        })
        .collect()
}

/// A line for each thing that would be tried if it were there.
pub(crate) fn missing(kind: SoftwareKind, found: &[ShootdownOrigin]) -> Vec<String> {
    let (_, name, packages, dev, _) = names(kind);
    let mut lines = Vec::new();
    let machine: Vec<&ShootdownOrigin> = found.iter().filter(|one| one.from == MACHINE).collect();
    if machine.is_empty() && !packages.is_empty() {
        lines.push(format!("{name}: {} is not installed", packages[0].0));
    }
    if !dev.is_empty() && machine.iter().all(|one| one.archive.is_none()) {
        lines.push(format!("{name} inside a program: {dev} is not installed"));
    }
    if !found.iter().any(|one| one.from == "built") {
        lines.push(format!(
            "{name} of other versions: none in target/allocators; bench/remedies/allocators gets them"
        ));
    }
    lines
}
