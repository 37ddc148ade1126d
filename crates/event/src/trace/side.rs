//! The side tables: what the numbers in the events stand for.
//!
//! The probe fills their texts as the system has them, for it opens files by them; who reads a trace has them cleaned.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::text::{self, clean};
use crate::{Mechanism, Part, Text};

/// A file or region that is mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The file, or a name in brackets such as `[heap]`; empty where there is none.
    #[serde(deserialize_with = "text::string")]
    pub path: String,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// As in `/proc/PID/maps`, such as `r-xp`.
    #[serde(deserialize_with = "text::string")]
    pub perms: String,
    /// The device of the file, as the kernel numbers it.
    pub dev: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file's build id, in hexadecimal.
    #[serde(default, deserialize_with = "text::maybe")]
    pub build_id: Option<String>,
}

/// A process, as it was from a time on, until the next line of the same process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The process.
    pub pid: u32,
    /// When it was looked at, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Its name.
    #[serde(deserialize_with = "text::string")]
    pub comm: String,
    /// Its executable; empty where it could not be read.
    #[serde(deserialize_with = "text::string")]
    pub exe: String,
    /// Its command line.
    #[serde(deserialize_with = "text::strings")]
    pub cmdline: Vec<String>,
    /// What is mapped.
    pub modules: Vec<Module>,
    /// It is none of those that were watched: it only shot at them. False also where nobody could tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stranger: bool,
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

/// Why a frame has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// Its file has no symbol there, and no debug file has.
    Stripped,
    /// Its file is gone or could not be read.
    Unreadable,
    /// Another file is now where its file was.
    Replaced,
    /// Code that the program made as it ran, and no perf map names.
    Jit,
    /// No code lies at the address: what the walk took for a return address is none.
    Unmapped,
    /// Its process ended before its mappings could be read.
    Gone,
    /// A reason that this version doesn't know.
    #[serde(other)]
    Unknown,
}

impl Mark {
    /// What stands in the brackets behind the frame.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Stripped => "stripped",
            Self::Unreadable => "file unreadable",
            Self::Replaced => "file replaced",
            Self::Jit => "JIT, no perf map",
            Self::Unmapped => "not mapped",
            Self::Gone => "process gone",
            Self::Unknown => "unknown",
        }
    }
}

/// One function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// Where in memory.
    pub addr: u64,
    /// The function, where it is known.
    #[serde(default, deserialize_with = "text::maybe")]
    pub symbol: Option<String>,
    /// The file that it is in, where it is known.
    #[serde(default, deserialize_with = "text::maybe")]
    pub module: Option<String>,
    /// Bytes from the function's start, or the file's where the function is not known.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Taken from the top of the stack as the likely caller, and not unwound.
    #[serde(default)]
    pub caller: bool,
    /// Why there is no name, if there is none. Neither name nor reason: nobody has looked yet.
    #[serde(default)]
    pub mark: Option<Mark>,
}

impl fmt::Display for Frame {
    /// One line: the function and the last part of its file, or what is known without a name, and
    /// why there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = |path| Path::new(path).file_name().and_then(|n| n.to_str());
        // as the probe made it, it is as the system has it
        let module = self.module.as_deref().map(|m| clean(base(m).unwrap_or(m)));
        let symbol = self.symbol.as_deref().map(clean);
        match (symbol, module, self.offset) {
            (Some(symbol), Some(module), _) => return write!(f, "{symbol} ({module})"),
            (Some(symbol), None, _) => return f.write_str(&symbol),
            (None, Some(module), Some(offset)) => write!(f, "{module}+{offset:#x}")?,
            // such as [vdso], which says all there is to say
            (None, Some(module), None) if self.mark.is_none() => {
                return write!(f, "{:#x} ({module})", self.addr);
            }
            (None, Some(module), None) => write!(f, "{:#x} ({module})", self.addr)?,
            // an address that is none tells nothing, and would make a stack of its own of each walk
            (None, None, _) if self.mark == Some(Mark::Unmapped) => {
                return write!(f, "[{}]", Mark::Unmapped.text());
            }
            (None, None, _) => write!(f, "{:#x}", self.addr)?,
        }
        write!(f, " [{}]", self.mark.unwrap_or(Mark::Unknown).text())
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

/// What one stack of a process cost by one mechanism: the account by stacks, where `tally.json` has it by functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCost {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// What the kernel did.
    pub mechanism: Mechanism,
    /// And what within that.
    pub part: Part,
    /// The number of the program's stack; `None` where there is none.
    #[serde(default)]
    pub stack: Option<u32>,
    /// Samples of CPU time.
    pub samples: u64,
    /// What they stand for, ns.
    pub cpu_ns: u64,
    /// How often a thread was made to sleep.
    pub waits: u64,
    /// How long those sleeps took, ns.
    pub blocked_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// In place of the frames that a stack lacks at its outer end.
pub const OUTER_MISSING: &str = "… outer frames missing";

impl Stack {
    /// Its frames as text, from the innermost outwards.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        self.frames.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a frame without a name says why, and one with a name doesn't.
    #[test]
    fn frames_say_why() {
        let mut frame = Frame {
            addr: 0x1234,
            mark: Some(Mark::Jit),
            ..Frame::default()
        };
        assert_eq!(frame.to_string(), "0x1234 [JIT, no perf map]");
        frame.mark = Some(Mark::Unmapped);
        assert_eq!(frame.to_string(), "[not mapped]");
        frame.module = Some("/usr/lib/libx.so".to_owned());
        frame.offset = Some(0x10);
        frame.mark = Some(Mark::Stripped);
        assert_eq!(frame.to_string(), "libx.so+0x10 [stripped]");
        frame.symbol = Some("f".to_owned());
        assert_eq!(frame.to_string(), "f (libx.so)");
    }

    /// Check that a trace from before there were marks is read, and so is one with a later mark.
    #[test]
    fn marks_of_other_versions() {
        let old: Frame = serde_json::from_str(r#"{"addr":1}"#).unwrap();
        assert_eq!(old.mark, None);
        let later: Frame = serde_json::from_str(r#"{"addr":1,"mark":"eaten"}"#).unwrap();
        assert_eq!(later.mark, Some(Mark::Unknown));
        let text = serde_json::to_string(&Mark::Unreadable).unwrap();
        assert_eq!(text, r#""unreadable""#);
    }
}
