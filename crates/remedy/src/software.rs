//! Recognised software: an allocator or a runtime, where it is, and how it takes settings.

use std::fmt;
use std::path::PathBuf;

use quell_event::{Text, named_enum};

use crate::Version;

named_enum! {
    /// An allocator, a runtime with an allocator of its own, or a program with settings of its own. It has the name that people know it by.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum SoftwareKind {
        /// The GNU C library's malloc.
        Glibc = "glibc malloc",
        /// The musl C library's malloc.
        Musl = "musl malloc",
        /// jemalloc, under any prefix.
        Jemalloc = "jemalloc",
        /// mimalloc.
        Mimalloc = "mimalloc",
        /// The tcmalloc of gperftools.
        Gperftools = "gperftools tcmalloc",
        /// The tcmalloc of github.com/google/tcmalloc.
        GoogleTcmalloc = "google tcmalloc",
        /// The Go runtime.
        GoRuntime = "Go runtime",
        /// The HotSpot Java virtual machine.
        Jvm = "Java HotSpot",
        /// Node.js.
        Node = "Node.js",
        /// The .NET runtime.
        DotNet = ".NET runtime",
        /// The Erlang virtual machine, also under Elixir.
        Beam = "Erlang BEAM",
        /// CPython, whose small objects are in arenas of its own (pymalloc).
        CPython = "CPython",
        /// NumPy's compiled part.
        NumPy = "NumPy",
        /// Redis.
        Redis = "Redis",
        /// Valkey.
        Valkey = "Valkey",
        /// PostgreSQL.
        PostgreSql = "PostgreSQL",
        /// MongoDB.
        MongoDb = "MongoDB",
        /// ClickHouse.
        ClickHouse = "ClickHouse",
        /// MySQL, and MariaDB.
        MySql = "MySQL",
        /// A program with RocksDB inside, or its library.
        RocksDb = "RocksDB",
        /// Envoy.
        Envoy = "Envoy",
    }
}

impl SoftwareKind {
    /// Those that ask the kernel for memory by themselves: allocators, and what has one.
    pub const ALLOCATORS: [Self; 12] = [
        Self::Glibc,
        Self::Musl,
        Self::Jemalloc,
        Self::Mimalloc,
        Self::Gperftools,
        Self::GoogleTcmalloc,
        Self::GoRuntime,
        Self::Jvm,
        Self::Node,
        Self::DotNet,
        Self::Beam,
        Self::CPython,
    ];

    /// Whether it is an allocator or has one: the others are programs with settings of their own.
    #[must_use]
    pub fn has_allocator(self) -> bool {
        Self::ALLOCATORS.contains(&self)
    }

    /// Whether it is the C library, which is in nearly every process, used or not.
    #[must_use]
    pub fn is_libc(self) -> bool {
        matches!(self, SoftwareKind::Glibc | SoftwareKind::Musl)
    }
}

/// How it got into the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// A shared library of its own.
    SharedLibrary,
    /// Inside an executable, an extension, or another library.
    Static,
}

/// One allocator or runtime, recognised in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSoftware {
    /// The kind of software.
    pub kind: SoftwareKind,
    /// Its version, or the range it must lie in.
    pub version: Option<Version>,
    /// The file that it is in.
    pub module: PathBuf,
    /// The environment variable that it reads its settings from, where one is known.
    pub conf_env: Option<String>,
    /// The prefix of its functions' names: none, `je_`, `_rjem_`.
    pub prefix: Option<String>,
    /// Whether it is a library of its own.
    pub linking: Linking,
    /// Whether it takes the place of the C library's malloc for the whole process.
    pub replaces_malloc: bool,
    /// Settings that were built in, in the syntax of the environment variable.
    pub built_in: Option<String>,
    /// The evidence for the recognition, for the user.
    pub how: String,
}

impl FoundSoftware {
    /// A bare finding, to be filled in.
    #[must_use]
    pub fn new(
        kind: SoftwareKind,
        module: impl Into<PathBuf>,
        linking: Linking,
        how: impl Into<String>,
    ) -> Self {
        FoundSoftware {
            kind,
            version: None,
            module: module.into(),
            conf_env: None,
            prefix: None,
            linking,
            replaces_malloc: false,
            built_in: None,
            how: how.into(),
        }
    }

    /// Its file's name without folders.
    #[must_use]
    pub fn file_name(&self) -> String {
        Text::from_os_str(self.module.file_name().unwrap_or(self.module.as_os_str())).into()
    }

    /// Whether its version is certainly this or newer.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32, patch: u32) -> bool {
        self.version
            .is_some_and(|v| v.at_least(major, minor, patch))
    }

    /// Whether its version is certainly older than this.
    #[must_use]
    pub fn is_below(&self, major: u32, minor: u32, patch: u32) -> bool {
        self.version
            .is_some_and(|v| v.is_below(major, minor, patch))
    }
}

impl fmt::Display for FoundSoftware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(version) = self.version {
            write!(f, " {version}")?;
        }
        match self.linking {
            Linking::SharedLibrary => write!(f, ", {}", Text::from_os_str(&self.module)),
            Linking::Static => write!(f, ", inside {}", Text::from_os_str(&self.module)),
        }
    }
}
