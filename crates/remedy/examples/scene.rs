//! Writes the parts of a trace that advice rests on, small enough to be kept as an input of its tests:
//! `cargo run -p quell-remedy --example scene -- TRACE >crates/remedy/tests/accounts/NAME.json`

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use quell_event::trace::Trace;
use quell_remedy::advice::{Scene, mapped_files};

/// What has less of the time is left out.
const LEAST: f64 = 0.002;
/// Outer frames are left out from here on.
const FRAMES: usize = 12;
/// Longer names are cut: those of C++ and Rust.
const NAME: usize = 160;

fn main() -> anyhow::Result<()> {
    let dir = std::env::args_os().nth(1);
    let dir = dir.context("name a trace, as of 'quell record -o TRACE'")?;
    let trace = Trace::open(Path::new(&dir))?;
    let tally = trace.read_tally()?.context("the trace has no counts")?;
    let account = tally.account.context("the trace has no account")?;
    let (costs, _) = trace.read_account()?;
    let stacks = trace.read_stacks()?.rows;
    let processes = trace.read_processes()?.rows;
    let files = mapped_files(processes.values());
    let stack = |id: u32| stacks.get(&id);
    let mut scene = Scene::new(&account, tally.duration_ns, &costs, &stack, files);
    shorten(&mut scene);
    let text = serde_json::to_string_pretty(&scene)? + "\n";
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

fn shorten(scene: &mut Scene) {
    let (cpu_ns, wall_ns) = (scene.cpu_ns as f64, scene.wall_ns as f64);
    let matters =
        |cpu: u64, blocked: u64| cpu as f64 >= LEAST * cpu_ns || blocked as f64 >= LEAST * wall_ns;
    for costs in [&mut scene.costs, &mut scene.given] {
        costs.retain(|c| matters(c.cpu_ns, c.blocked_ns));
        for frame in costs.iter_mut().flat_map(|c| {
            c.stack.truncate(FRAMES);
            &mut c.stack
        }) {
            frame.function = frame.function.cut_to(NAME);
        }
    }
    scene.holders.retain(|h| matters(0, h.blocked_ns));
    let pids: Vec<u32> = scene.costs.iter().map(|c| c.pid).collect();
    scene.files.retain(|f| pids.contains(&f.pid));
    scene.forks.retain(|f| pids.contains(&f.pid));
}
