//! Whether a stack goes on to where its thread began.

use super::side_tables::{MissingNameReason, StackFrame, TracedStack};

/// Where programs and threads begin, of the C libraries and of Go, whose goroutines also change to a
/// thread's own stack.
const THREAD_STARTS: &[&str] = &[
    "_start",
    "start_thread",
    "thread_start",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "runtime.goexit",
    "runtime.mstart",
    "runtime.rt0_go",
    "runtime.systemstack",
    "runtime.mcall",
    "runtime.morestack",
];

/// The name of a file without its folder.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl TracedStack {
    /// The frame that the walk could not leave, where it did not come to the start of the thread.
    #[must_use]
    pub fn ends_early(&self) -> Option<&StackFrame> {
        if self.cut {
            return None;
        }
        // an address without code was never called: a frame pointer was used for something else
        let real = self
            .frames
            .iter()
            .filter(|f| f.mark != Some(MissingNameReason::Unmapped));
        let last = real.clone().next_back()?;
        let symbol = last.symbol.as_deref().unwrap_or_default();
        // `.abi0` is how Go marks its assembler functions
        let start = THREAD_STARTS.contains(&symbol.trim_end_matches(".abi0"));
        // The functions that call main() and a thread's first function have no names in a stripped libc.
        let from_libc = is_libc(last) && real.clone().any(|f| !is_libc(f));
        (!start && !from_libc).then_some(last)
    }
}

fn is_libc(frame: &StackFrame) -> bool {
    const LIBC_FILE_PREFIXES: [&str; 5] = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl"];
    let name = file_name(frame.module.as_deref().unwrap_or_default());
    LIBC_FILE_PREFIXES.iter().any(|n| name.starts_with(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &[(&str, &str, Option<MissingNameReason>)]) -> TracedStack {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let frames = frames.iter().map(|(symbol, module, mark)| StackFrame {
            symbol: text(symbol),
            module: text(module),
            mark: *mark,
            ..StackFrame::default()
        });
        TracedStack {
            frames: frames.collect(),
            ..TracedStack::default()
        }
    }

    const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";
    const STRIPPED: Option<MissingNameReason> = Some(MissingNameReason::Stripped);

    /// Check that stacks which end before their thread's start are told from whole ones.
    #[test]
    fn early_ends_are_told() {
        let early = |frames: &[_]| {
            let stack = stack(frames);
            stack
                .ends_early()
                .map(|f| f.symbol.clone().unwrap_or_default())
        };
        let whole = &[
            ("madvise", LIBC, None),
            ("f", "/a", None),
            ("main", "/a", None),
            ("", LIBC, STRIPPED),
        ];
        assert_eq!(early(whole), None);
        assert_eq!(
            early(&[("madvise", LIBC, None)]).as_deref(),
            Some("madvise")
        );
        let free = &[("munmap", LIBC, None), ("free", LIBC, None)];
        assert_eq!(early(free).as_deref(), Some("free"));
        let garbage = &[
            ("f", "/a", None),
            ("", "", Some(MissingNameReason::Unmapped)),
        ];
        assert_eq!(early(garbage).as_deref(), Some("f"));
        let go = &[
            ("runtime.madvise.abi0", "/g", None),
            ("runtime.goexit.abi0", "/g", None),
        ];
        assert_eq!(early(go), None);
        assert_eq!(early(&[("f", "/a", None), ("_start", "/a", None)]), None);
        assert_eq!(early(&[]), None);
        // one that is as deep as is kept did not end
        let mut deep = stack(free);
        deep.cut = true;
        assert!(deep.ends_early().is_none());
    }
}
