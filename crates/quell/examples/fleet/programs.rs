//! What runs on the made-up hosts.

use quell_event::Cause;
use quell_event::trace::{MappedModule, StackFrame, StackKind, TracedProcess, TracedStack};

/// Different outer frames of each stack.
pub(crate) const VARIANTS: u64 = 12;
/// The real-time loop, which asks for nothing.
pub(crate) const RT_PID: u32 = 900;
/// What runs in the place of `python3.11` until it is executed.
pub(crate) const BEFORE_EXEC: &str = "env";
pub(crate) const EXECUTED: usize = 2;

const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A program.
pub(crate) struct Program {
    /// Empty of the kernel's threads.
    pub(crate) exe: &'static str,
    pub(crate) comm: &'static str,
    /// Of the first week and of the second.
    pub(crate) builds: [&'static str; 2],
    pub(crate) library: &'static str,
}

/// Shootdowns of one cause.
pub(crate) struct Ask {
    pub(crate) program: usize,
    pub(crate) cause: Cause,
    /// A second of either week.
    pub(crate) rates: [u64; 2],
    pub(crate) wait_ns: u64,
    /// Inner frames: function and file, where an empty one is the executable.
    pub(crate) frames: &'static [(&'static str, &'static str)],
    /// The allocator that asks, or the program.
    pub(crate) asker: &'static str,
    /// What stops it.
    pub(crate) remedy: &'static str,
}

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
const MIMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0";
const POLARS: &str = "/opt/venv/lib/_polars_runtime.abi3.so";

pub(crate) const PROGRAMS: [Program; 7] = [
    Program {
        exe: "/opt/ingest/bin/ingest",
        comm: "ingest-io",
        builds: ["a1a1a1a1a1a1a1a1", "a2a2a2a2a2a2a2a2"],
        library: JEMALLOC,
    },
    Program {
        exe: "/opt/lookup/bin/lookup",
        comm: "lookup",
        builds: ["b0b0b0b0b0b0b0b0"; 2],
        library: LIBC,
    },
    Program {
        exe: "/usr/bin/python3.11",
        comm: "python3",
        builds: ["c0c0c0c0c0c0c0c0"; 2],
        library: POLARS,
    },
    Program {
        exe: "/opt/render/bin/render",
        comm: "render",
        builds: ["d0d0d0d0d0d0d0d0"; 2],
        library: LIBC,
    },
    Program {
        exe: "/opt/shard/bin/shard",
        comm: "shard-worker",
        builds: ["e0e0e0e0e0e0e0e0"; 2],
        library: MIMALLOC,
    },
    Program {
        exe: "/opt/store/bin/store",
        comm: "store",
        builds: ["f0f0f0f0f0f0f0f0"; 2],
        library: LIBC,
    },
    Program {
        exe: "",
        comm: "kswapd0",
        builds: [""; 2],
        library: "",
    },
];

pub(crate) const ASKS: [Ask; 8] = [
    Ask {
        program: 0,
        cause: Cause::MadviseDontneed,
        rates: [200, 600],
        wait_ns: 9_000,
        frames: &[
            ("__madvise", LIBC),
            ("je_pages_purge_forced", JEMALLOC),
            ("arena_decay", JEMALLOC),
        ],
        asker: "jemalloc",
        remedy: "jemalloc.decay",
    },
    Ask {
        program: 1,
        cause: Cause::Munmap,
        rates: [300, 300],
        wait_ns: 5_000,
        frames: &[("__munmap", LIBC), ("munmap_chunk", LIBC), ("free", LIBC)],
        asker: "glibc malloc",
        remedy: "glibc.keep",
    },
    Ask {
        program: 1,
        cause: Cause::Cow,
        rates: [60, 60],
        wait_ns: 3_000,
        frames: &[("lookup::copy", "")],
        asker: "own calls",
        remedy: "",
    },
    Ask {
        program: 2,
        cause: Cause::MadviseFree,
        rates: [150, 150],
        wait_ns: 4_000,
        frames: &[
            ("__madvise", LIBC),
            ("_rjem_je_pages_purge_lazy", POLARS),
            ("polars::drop", POLARS),
        ],
        asker: "jemalloc",
        remedy: "jemalloc.decay",
    },
    Ask {
        program: 3,
        cause: Cause::Munmap,
        rates: [80, 0],
        wait_ns: 6_000,
        frames: &[("__munmap", LIBC), ("render::frame", "")],
        asker: "own calls",
        remedy: "shim.cache",
    },
    Ask {
        program: 4,
        cause: Cause::MadviseDontneed,
        rates: [0, 90],
        wait_ns: 4_500,
        frames: &[("__madvise", LIBC), ("_mi_os_purge", MIMALLOC)],
        asker: "mimalloc",
        remedy: "mimalloc.purge",
    },
    Ask {
        program: 5,
        cause: Cause::Mprotect,
        rates: [240, 80],
        wait_ns: 2_500,
        frames: &[("__mprotect", LIBC), ("store::seal", "")],
        asker: "own calls",
        remedy: "",
    },
    Ask {
        program: 6,
        cause: Cause::Reclaim,
        rates: [50, 50],
        wait_ns: 20_000,
        frames: &[
            ("try_to_unmap_flush", "[kernel]"),
            ("shrink_folio_list", "[kernel]"),
        ],
        asker: "",
        remedy: "",
    },
];

pub(crate) fn pid(program: usize) -> u32 {
    1_000 + 10 * program as u32
}

pub(crate) fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// What its shootdowns are counted under.
pub(crate) fn binary(ask: usize, before_exec: bool) -> String {
    let ask = &ASKS[ask];
    match PROGRAMS[ask.program].exe {
        "" => "[kernel]".to_owned(),
        _ if ask.program == EXECUTED && before_exec => BEFORE_EXEC.to_owned(),
        exe => base(exe).to_owned(),
    }
}

pub(crate) fn build_id(ask: usize, week: usize, before_exec: bool) -> &'static str {
    match ASKS[ask].program {
        EXECUTED if before_exec => "",
        program => PROGRAMS[program].builds[week],
    }
}

pub(crate) fn stack_id(ask: usize, variant: u64) -> i32 {
    (ask as u64 * VARIANTS + variant) as i32
}

/// The kernel's stacks are all alike: they count as the first one.
pub(crate) fn distinct(ask: usize, variant: u64) -> u64 {
    match PROGRAMS[ASKS[ask].program].exe {
        "" => 0,
        _ => variant,
    }
}

/// The frames of a stack, as they are shown.
pub(crate) fn shown(ask: usize, variant: u64) -> Vec<String> {
    frames(ask, variant)
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// The frame that called: all begin with a wrapper of the C library where they begin in it.
pub(crate) fn caller(ask: usize, variant: u64) -> String {
    let frames = shown(ask, variant);
    let wrapped = ASKS[ask].frames[0].1 == LIBC;
    frames[usize::from(wrapped)].clone()
}

fn frames(ask: usize, variant: u64) -> Vec<StackFrame> {
    let exe = PROGRAMS[ASKS[ask].program].exe;
    let outer = [
        (format!("work::stage_{variant}"), exe),
        ("main".to_owned(), exe),
    ];
    let inner = ASKS[ask]
        .frames
        .iter()
        .map(|(symbol, module)| ((*symbol).to_owned(), *module));
    let all = inner.chain(if exe.is_empty() {
        Vec::new()
    } else {
        outer.to_vec()
    });
    let frame = |(n, (symbol, module)): (usize, (String, &str))| StackFrame {
        addr: 0x7f00_0000_0000 + n as u64 * 64,
        symbol: Some(symbol),
        module: Some(if module.is_empty() { exe } else { module }.to_owned()),
        offset: Some(4),
        ..StackFrame::default()
    };
    all.enumerate().map(frame).collect()
}

pub(crate) fn stacks() -> Vec<TracedStack> {
    let all = (0..ASKS.len()).flat_map(|ask| (0..VARIANTS).map(move |v| (ask, v)));
    all.map(|(ask, variant)| {
        let program = ASKS[ask].program;
        let is_kernel = PROGRAMS[program].exe.is_empty();
        TracedStack {
            id: stack_id(ask, variant) as u32,
            kind: if is_kernel {
                StackKind::Kernel
            } else {
                StackKind::User
            },
            pid: (!is_kernel).then(|| pid(program)),
            frames: frames(ask, variant),
            ..TracedStack::default()
        }
    })
    .collect()
}

fn module(path: &str, build_id: Option<&str>) -> MappedModule {
    MappedModule {
        path: path.to_owned(),
        perms: "r-xp".to_owned(),
        build_id: build_id.filter(|id| !id.is_empty()).map(str::to_owned),
        ..MappedModule::default()
    }
}

/// What is seen of them: each as it begins, and again later; one is executed in the place of another.
pub(crate) fn processes(week: usize, begin_ns: u64, exec_ns: u64) -> Vec<TracedProcess> {
    let of = |n: usize, t_ns| {
        let program = &PROGRAMS[n];
        let mut modules = vec![
            module(program.exe, Some(program.builds[week])),
            module(LIBC, None),
        ];
        if program.library != LIBC {
            modules.push(module(program.library, None));
        }
        TracedProcess {
            pid: pid(n),
            t_ns,
            comm: program.comm.to_owned(),
            exe: program.exe.to_owned(),
            modules,
            ..TracedProcess::default()
        }
    };
    let programs = (0..PROGRAMS.len()).filter(|n| !PROGRAMS[*n].exe.is_empty());
    let mut out: Vec<TracedProcess> = programs
        .clone()
        .filter(|n| *n != EXECUTED)
        .map(|n| of(n, begin_ns))
        .collect();
    let path = format!("/usr/bin/{BEFORE_EXEC}");
    out.push(TracedProcess {
        pid: pid(EXECUTED),
        t_ns: begin_ns,
        comm: "python3".to_owned(),
        exe: path.clone(),
        modules: vec![module(&path, None), module(LIBC, None)],
        ..TracedProcess::default()
    });
    out.extend(programs.map(|n| of(n, exec_ns)));
    out
}
