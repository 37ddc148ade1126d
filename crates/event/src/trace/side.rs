//! The side tables: what the numbers in the events stand for.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A file or region that is mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The file, or a name in brackets such as `[heap]`; empty where there is none.
    pub path: String,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// As in `/proc/PID/maps`, such as `r-xp`.
    pub perms: String,
    /// The device of the file, as the kernel numbers it.
    pub dev: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file's build id, in hexadecimal.
    #[serde(default)]
    pub build_id: Option<String>,
}

/// A process that was seen. A later line for the same process replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process.
    pub pid: u32,
    /// When it was looked at, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Its name.
    pub comm: String,
    /// Its executable; empty where it could not be read.
    pub exe: String,
    /// Its command line.
    pub cmdline: Vec<String>,
    /// What is mapped.
    pub modules: Vec<Module>,
}

impl Process {
    /// What is mapped at an address.
    #[must_use]
    pub fn module_at(&self, address: u64) -> Option<&Module> {
        let holds = |m: &&Module| (m.start..m.end).contains(&address);
        self.modules.iter().find(holds)
    }
}

/// Whose stack it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StackKind {
    /// The program's.
    #[default]
    User,
    /// The kernel's.
    Kernel,
}

/// One function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Where in memory.
    pub addr: u64,
    /// The function, where it is known.
    #[serde(default)]
    pub symbol: Option<String>,
    /// The file that it is in, where it is known.
    #[serde(default)]
    pub module: Option<String>,
    /// Bytes from the function's start, or the file's where the function is not known.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Taken from the top of the stack as the likely caller, and not unwound.
    #[serde(default)]
    pub caller: bool,
}

impl fmt::Display for Frame {
    /// One line: the function and the last part of its file, or what is known without a name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = |path| Path::new(path).file_name().and_then(|n| n.to_str());
        match (self.symbol.as_deref(), self.module.as_deref(), self.offset) {
            (Some(symbol), Some(module), _) => {
                write!(f, "{symbol} ({})", base(module).unwrap_or(module))
            }
            (Some(symbol), None, _) => f.write_str(symbol),
            (None, Some(module), Some(offset)) => {
                let module = base(module).unwrap_or(module);
                write!(f, "{module}+{offset:#x} [no symbol]")
            }
            (None, Some(module), None) => write!(f, "{:#x} ({module})", self.addr),
            (None, None, _) => write!(f, "{:#x} [unknown]", self.addr),
        }
    }
}

/// A stack, under the number that events have for it. User and kernel stacks share one numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Its number.
    pub id: u32,
    /// Whose.
    pub kind: StackKind,
    /// The process, `None` for a kernel stack.
    #[serde(default)]
    pub pid: Option<u32>,
    /// From the innermost outwards.
    pub frames: Vec<Frame>,
    /// Frames are missing at the outer end.
    #[serde(default)]
    pub cut: bool,
    /// The process had gone before its symbols could be looked up.
    #[serde(default)]
    pub gone: bool,
}
