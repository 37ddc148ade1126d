//! Processes and stacks of a trace as flat rows, with the executable, the code, and the allocator that asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quell_event::Cause;
use quell_event::trace::{StackKind, Trace, TracedProcess, TracedStack};
use quell_fleet::{CallStackRow, CodeAccountRow, ProcessRow, WinRow};
use quell_remedy::{FoundSoftware, ShootdownSource, by_name, table};

use super::{account, wins};
use crate::report::code::{Code, file_name_of};
use crate::show::units::plural;

/// The flat rows of a trace.
#[derive(Default)]
pub(super) struct FlatTrace {
    /// The reason why the rows are unusable, if they are: a word and a line.
    pub(super) wrong: Option<(&'static str, String)>,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) stacks: Vec<CallStackRow>,
    pub(super) account: Vec<CodeAccountRow>,
    pub(super) wins: Vec<WinRow>,
    /// The allocators that each process has mapped.
    allocators: HashMap<u32, Vec<FoundSoftware>>,
}

/// Reads the rows of a trace.
///
/// # Errors
///
/// It can't be read.
pub(super) fn flatten_trace(trace: &Trace, number: u64) -> anyhow::Result<FlatTrace> {
    let mut seen = Vec::new();
    let garbled = trace.for_each_process(|process| seen.push(process))?;
    let stacks = trace.read_stacks()?;
    let wrong = flaw_of(trace, garbled + stacks.garbled, stacks.rows.is_empty());
    let mut flat = FlatTrace {
        wrong,
        ..flatten_code(seen, stacks.rows.into_values(), number)
    };
    if let Some(tally) = trace.read_tally()? {
        flat.account = account::account_rows(&tally, &flat.processes, number);
        flat.wins = wins::win_rows(&tally, &flat.processes, &flat.allocators, number);
    }
    Ok(flat)
}

/// The reason why the tables of a trace can't be trusted, if there is one.
fn flaw_of(trace: &Trace, garbled: u64, no_stacks: bool) -> Option<(&'static str, String)> {
    if garbled > 0 {
        let lines = plural(garbled, "line");
        let what = format!("{lines} of processes.jsonl or stacks.jsonl can't be read");
        return Some(("damaged", what));
    }
    // A trace with all stacks has one for each shootdown, if only the kernel's, but for lost ones.
    let lost = || {
        trace
            .read_tally()
            .ok()
            .flatten()
            .is_some_and(|t| t.lost.stacks > 0)
    };
    let is_emptied = no_stacks && trace.meta().stacks == "all" && trace.row_count() > 0 && !lost();
    is_emptied.then(|| ("incomplete", "stacks.jsonl is empty".to_owned()))
}

/// Makes the rows. A process that executes another program gets a row for each, so that its shootdowns count for the right
/// one by their time.
fn flatten_code(
    seen: Vec<TracedProcess>,
    stacks: impl IntoIterator<Item = TracedStack>,
    number: u64,
) -> FlatTrace {
    let mut out = FlatTrace::default();
    // The index in `out` of the last row of each process.
    let mut last: HashMap<u32, usize> = HashMap::new();
    for process in &seen {
        let row = process_row(process, number);
        match last.get(&process.pid).map(|at| &mut out.processes[*at]) {
            // A process that ended while it was read has no names any more, so the earlier ones stay.
            Some(before) if process.exe.is_empty() && !before.exe.is_empty() => {}
            Some(before) if before.exe == row.exe && before.build_id == row.build_id => {
                // Libraries may be loaded later.
                before.asker = row.asker;
            }
            Some(before) => {
                before.to_ns = row.from_ns;
                last.insert(process.pid, out.processes.len());
                out.processes.push(row);
            }
            // The first row reaches back to the start of the trace, before the process was first read.
            None => {
                last.insert(process.pid, out.processes.len());
                out.processes.push(ProcessRow { from_ns: 0, ..row });
            }
        }
    }
    let allocators: HashMap<u32, Vec<FoundSoftware>> =
        seen.iter().map(|p| (p.pid, mapped_allocators(p))).collect();
    let code = Code::new(seen, stacks);
    out.stacks = code
        .all_stacks()
        .map(|s| stack_row(s, &code, &allocators, number))
        .collect();
    out.stacks.sort_by_key(|s| s.stack);
    out.allocators = allocators;
    out
}

/// The row of one reading, which holds from then on until a later row ends it. The program has the name of its file, or in
/// brackets the name of the process where no file is known, as for a thread of the kernel.
fn process_row(process: &TracedProcess, number: u64) -> ProcessRow {
    let module = process.modules.iter().find(|m| m.path == process.exe);
    let program = match (file_name_of(&process.exe), &*process.comm) {
        ("", "") => "[unknown]".to_owned(),
        ("", comm) => format!("[{comm}]"),
        (program, _) => program.to_owned(),
    };
    ProcessRow {
        trace: number,
        pid: process.pid,
        from_ns: process.t_ns.cast_signed(),
        to_ns: i64::MAX,
        program,
        build_id: module.and_then(|m| m.build_id.clone()).unwrap_or_default(),
        exe: process.exe.clone(),
        asker: table::asker(&mapped_allocators(process), &source_of(None, None)).to_owned(),
    }
}

/// The allocators among its mapped files that are known by name, each once.
fn mapped_allocators(process: &TracedProcess) -> Vec<FoundSoftware> {
    let mut found: Vec<FoundSoftware> = Vec::new();
    let code = process.modules.iter().filter(|m| m.perms.contains('x'));
    for one in code.filter_map(|m| by_name::of_file(Path::new(&m.path))) {
        if !found.iter().any(|f| f.module == one.module) {
            found.push(one);
        }
    }
    found
}

/// A source by which [`table::asker`] finds the caller's allocator. Shootdowns of one stack may have several causes; munmap(2)
/// stands for all of them, because only for brk(2) another allocator would be the likely one.
fn source_of(module: Option<&str>, symbol: Option<&str>) -> ShootdownSource {
    ShootdownSource {
        cause: Cause::Munmap,
        caller_module: module.map(PathBuf::from),
        caller_symbol: symbol.map(str::to_owned),
        region: None,
        shootdowns: 1,
    }
}

/// The row of a stack. Its asker is the allocator that asked for the shootdown, as the table of remedies names it.
fn stack_row(
    stack: &TracedStack,
    code: &Code,
    allocators: &HashMap<u32, Vec<FoundSoftware>>,
    number: u64,
) -> CallStackRow {
    let caller = code.calling_frame(stack.id.cast_signed());
    let mut found = stack
        .pid
        .and_then(|pid| allocators.get(&pid))
        .cloned()
        .unwrap_or_default();
    let module = caller.and_then(|f| f.module.as_deref());
    let symbol = caller.and_then(|f| f.symbol.as_deref());
    let inside = module.zip(symbol);
    if let Some(one) = inside.and_then(|(m, s)| by_name::of_symbol(s, Path::new(m))) {
        // It comes before others of that file, because a function's name is surer than the file's.
        found.insert(0, one);
    }
    let asker = match stack.kind {
        StackKind::User => table::asker(&found, &source_of(module, symbol)),
        StackKind::Kernel => table::UNKNOWN_ASKER,
    };
    CallStackRow {
        trace: number,
        stack: stack.id,
        kind: match stack.kind {
            StackKind::User => "user",
            StackKind::Kernel => "kernel",
        },
        frames: stack.frame_texts().join("\n"),
        caller: caller.map(ToString::to_string).unwrap_or_default(),
        asker: asker.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use quell_event::trace::{MappedModule, StackFrame};

    use super::*;

    fn process_reading(t_ns: u64, exe: &str, build_id: &str, libraries: &[&str]) -> TracedProcess {
        let module = |path: &str, id: Option<&str>| MappedModule {
            path: path.to_owned(),
            perms: "r-xp".to_owned(),
            build_id: id.map(str::to_owned),
            ..MappedModule::default()
        };
        let own = module(exe, Some(build_id));
        TracedProcess {
            pid: 7,
            t_ns,
            comm: "worker".to_owned(),
            exe: exe.to_owned(),
            modules: std::iter::once(own)
                .chain(libraries.iter().map(|l| module(l, None)))
                .collect(),
            ..TracedProcess::default()
        }
    }

    /// Check that a process is one row while its executable stays, that exec begins another, and that one which had ended
    /// keeps its names.
    #[test]
    fn programs_of_processes() {
        let seen = vec![
            process_reading(100, "/bin/sh", "aa", &[]),
            process_reading(200, "/bin/sh", "aa", &["/usr/lib/libc.so.6"]),
            process_reading(
                300,
                "/opt/app",
                "bb",
                &["/usr/lib/libc.so.6", "/usr/lib/libjemalloc.so.2"],
            ),
            process_reading(400, "", "", &[]),
        ];
        let rows = flatten_code(seen, [], 5).processes;
        let of = |r: &ProcessRow| {
            (
                r.from_ns,
                r.to_ns,
                r.program.clone(),
                r.build_id.clone(),
                r.asker.clone(),
            )
        };
        let all: Vec<_> = rows.iter().map(of).collect();
        let row = |from, to, binary: &str, id: &str, asker: &str| {
            (from, to, binary.to_owned(), id.to_owned(), asker.to_owned())
        };
        assert_eq!(
            all,
            [
                row(0, 300, "sh", "aa", "glibc malloc"),
                row(300, i64::MAX, "app", "bb", "jemalloc")
            ]
        );
        let kernel = flatten_code(
            vec![TracedProcess {
                pid: 2,
                comm: "kswapd0".to_owned(),
                ..TracedProcess::default()
            }],
            [],
            0,
        );
        assert_eq!(kernel.processes[0].program, "[kswapd0]");
    }

    /// Check the asker of a stack: the one that its frames name, else the one that is mapped, and none for a kernel stack.
    #[test]
    fn askers_of_stacks() {
        let frame = |symbol: &str, module: &str| StackFrame {
            symbol: Some(symbol.to_owned()),
            module: Some(module.to_owned()),
            ..StackFrame::default()
        };
        let user = |id, frames: Vec<StackFrame>| TracedStack {
            id,
            pid: Some(7),
            frames,
            ..TracedStack::default()
        };
        let libc = "/usr/lib/libc.so.6";
        let kernel = TracedStack {
            id: 3,
            kind: StackKind::Kernel,
            frames: vec![frame("shrink_folio_list", "[kernel]")],
            ..TracedStack::default()
        };
        let stacks = [
            user(
                0,
                vec![
                    frame("__madvise", libc),
                    frame("_rjem_je_pages_purge_forced", "/opt/x.so"),
                    frame("work", "/opt/app"),
                ],
            ),
            user(1, vec![frame("munmap", libc), frame("work", "/opt/app")]),
            user(2, vec![frame("free", libc), frame("work", "/opt/app")]),
            kernel,
        ];
        let seen = vec![process_reading(0, "/opt/app", "bb", &[libc])];
        let rows = flatten_code(seen, stacks, 0).stacks;
        let askers: Vec<_> = rows.iter().map(|r| &*r.asker).collect();
        assert_eq!(askers, ["jemalloc", "own calls", "glibc malloc", ""]);
        assert_eq!(
            rows[0].frames,
            "__madvise (libc.so.6)\n_rjem_je_pages_purge_forced (x.so)\nwork (app)"
        );
        assert_eq!(rows[1].caller, "work (app)");
        assert_eq!(rows[3].kind, "kernel");
    }
}
