//! The side tables: the processes and stacks that the numbers in the events stand for.
//!
//! The probe fills their texts as the system has them, for it opens files by them; who reads a trace has them cleaned.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::text::{self, clean_text};
use crate::{Mechanism, MechanismPart, Text};

/// A file or region that is mapped into a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappedModule {
    /// The file, or a name in brackets such as `[heap]`; empty where there is none.
    #[serde(deserialize_with = "text::clean_string")]
    pub path: String,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Where in the file it begins, bytes.
    pub offset: u64,
    /// As in `/proc/PID/maps`, such as `r-xp`.
    #[serde(deserialize_with = "text::clean_string")]
    pub perms: String,
    /// The device of the file, as the kernel numbers it.
    pub dev: u64,
    /// The file's inode.
    pub inode: u64,
    /// The file's build id, in hexadecimal.
    #[serde(default, deserialize_with = "text::clean_optional_string")]
    pub build_id: Option<String>,
}

/// A process, as it was from a time on, until the next line of the same process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedProcess {
    /// The process.
    pub pid: u32,
    /// When it was looked at, ns of CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Its name.
    #[serde(deserialize_with = "text::clean_string")]
    pub comm: String,
    /// Its executable; empty where it could not be read.
    #[serde(deserialize_with = "text::clean_string")]
    pub exe: String,
    /// Its command line.
    #[serde(deserialize_with = "text::clean_list")]
    pub cmdline: Vec<String>,
    /// Its mappings.
    pub modules: Vec<MappedModule>,
    /// It is none of those that were watched: it only shot at them. False also where nobody could tell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stranger: bool,
}

impl TracedProcess {
    /// Returns the mapping that holds an address.
    #[must_use]
    pub fn module_at(&self, address: u64) -> Option<&MappedModule> {
        let holds = |m: &&MappedModule| (m.start..m.end).contains(&address);
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
pub enum MissingNameReason {
    /// Its file has no symbol there, and no debug file has.
    Stripped,
    /// Its file is gone or could not be read.
    Unreadable,
    /// Another file is now where its file was.
    Replaced,
    /// Code that the program made as it ran, and no perf map names.
    Jit,
    /// No code lies at the address: the walk took something else for a return address.
    Unmapped,
    /// Its process ended before its mappings could be read.
    Gone,
    /// A reason that this version doesn't know.
    #[serde(other)]
    Unknown,
}

impl MissingNameReason {
    /// Returns the text that stands in the brackets behind the frame.
    #[must_use]
    pub fn bracket_text(self) -> &'static str {
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
pub struct StackFrame {
    /// Where in memory.
    pub addr: u64,
    /// The function, where it is known.
    #[serde(default, deserialize_with = "text::clean_optional_string")]
    pub symbol: Option<String>,
    /// The file that it is in, where it is known.
    #[serde(default, deserialize_with = "text::clean_optional_string")]
    pub module: Option<String>,
    /// Bytes from the function's start, or the file's where the function is not known.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Taken from the top of the stack as the likely caller, and not unwound.
    #[serde(default)]
    pub caller: bool,
    /// Why there is no name, if there is none. Neither name nor reason: nobody has looked yet.
    #[serde(default)]
    pub mark: Option<MissingNameReason>,
}

impl fmt::Display for StackFrame {
    /// One line: the function and the last part of its file, or as much as is known without a name, and
    /// why there is none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = |path| Path::new(path).file_name().and_then(|n| n.to_str());
        // as the probe made it, it is as the system has it
        let module = self
            .module
            .as_deref()
            .map(|m| clean_text(base(m).unwrap_or(m)));
        let symbol = self.symbol.as_deref().map(clean_text);
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
            (None, None, _) if self.mark == Some(MissingNameReason::Unmapped) => {
                return write!(f, "[{}]", MissingNameReason::Unmapped.bracket_text());
            }
            (None, None, _) => write!(f, "{:#x}", self.addr)?,
        }
        write!(
            f,
            " [{}]",
            self.mark
                .unwrap_or(MissingNameReason::Unknown)
                .bracket_text()
        )
    }
}

/// A stack, under the number that events have for it. User and kernel stacks share one numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedStack {
    /// Its number.
    pub id: u32,
    /// Whose.
    pub kind: StackKind,
    /// The process, `None` for a kernel stack.
    #[serde(default)]
    pub pid: Option<u32>,
    /// From the innermost outwards.
    pub frames: Vec<StackFrame>,
    /// Frames are missing at the outer end.
    #[serde(default)]
    pub cut: bool,
    /// The process had gone before its symbols could be looked up.
    #[serde(default)]
    pub gone: bool,
}

/// The cost of one stack of a process by one mechanism: the account by stacks, where `tally.json` has it by functions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCost {
    /// The process.
    pub pid: u32,
    /// Its name.
    pub comm: Text,
    /// The work of the kernel.
    pub mechanism: Mechanism,
    /// The part of that work.
    pub part: MechanismPart,
    /// The number of the program's stack; `None` where there is none.
    #[serde(default)]
    pub stack: Option<u32>,
    /// Samples of CPU time.
    pub samples: u64,
    /// CPU time that they stand for, ns.
    pub cpu_ns: u64,
    /// How often a thread was made to sleep.
    pub waits: u64,
    /// How long those sleeps took, ns.
    pub blocked_ns: u64,
    /// The longest of them, ns.
    pub longest_ns: u64,
}

/// Readers see this line in place of the frames that a stack lacks at its outer end.
pub const OUTER_FRAMES_MISSING: &str = "… outer frames missing";

impl TracedStack {
    /// Its frames as text, from the innermost outwards.
    #[must_use]
    pub fn frame_texts(&self) -> Vec<String> {
        self.frames.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that a frame without a name says why, and one with a name doesn't.
    #[test]
    fn frames_say_why() {
        let mut frame = StackFrame {
            addr: 0x1234,
            mark: Some(MissingNameReason::Jit),
            ..StackFrame::default()
        };
        assert_eq!(frame.to_string(), "0x1234 [JIT, no perf map]");
        frame.mark = Some(MissingNameReason::Unmapped);
        assert_eq!(frame.to_string(), "[not mapped]");
        frame.module = Some("/usr/lib/libx.so".to_owned());
        frame.offset = Some(0x10);
        frame.mark = Some(MissingNameReason::Stripped);
        assert_eq!(frame.to_string(), "libx.so+0x10 [stripped]");
        frame.symbol = Some("f".to_owned());
        assert_eq!(frame.to_string(), "f (libx.so)");
    }

    /// Check that a trace from before there were marks is read, and so is one with a later mark.
    #[test]
    fn marks_of_other_versions() {
        let old: StackFrame = serde_json::from_str(r#"{"addr":1}"#).unwrap();
        assert_eq!(old.mark, None);
        let later: StackFrame = serde_json::from_str(r#"{"addr":1,"mark":"eaten"}"#).unwrap();
        assert_eq!(later.mark, Some(MissingNameReason::Unknown));
        let text = serde_json::to_string(&MissingNameReason::Unreadable).unwrap();
        assert_eq!(text, r#""unreadable""#);
    }
}
