//! Scenes for the tests of the catalogue.

use std::path::Path;

use quell_event::{HolderRole, HolderRow, Mechanism};

use super::{AdviceEntry, Advised, MIN_TIME_NS, MappedFile, Scene, SeenCost, advise};

/// CPU time of a scene that was made up, and the time that passed.
const SECOND: u64 = 1_000_000_000;
/// What a stack in it costs: enough to be worth a word.
const WORTHY: u64 = 50_000_000;

/// A stack, as `inner (file) < outer (file)`.
fn stack(text: &str) -> Vec<super::SeenFrame> {
    let frames = text.split(" < ").map(str::to_owned);
    frames.map(super::SeenFrame::from).collect()
}

fn cost(mechanism: Mechanism, stack_text: &str) -> SeenCost {
    SeenCost {
        pid: 7,
        comm: "p".into(),
        mechanism,
        advice: "".into(),
        cpu_ns: WORTHY,
        blocked_ns: 0,
        stack: stack(stack_text),
    }
}

/// A program that spends its time in such stacks, and has forked ten times.
pub(super) fn scene(costs: &[(Mechanism, &str)]) -> Scene {
    Scene {
        cpu_ns: SECOND,
        wall_ns: SECOND,
        costs: costs.iter().map(|(m, text)| cost(*m, text)).collect(),
        forks: vec![super::SeenForks { pid: 7, forks: 10 }],
        ..Scene::default()
    }
}

/// A program that gave such advice.
pub(super) fn gives(advice: &str, stack_text: &str) -> Scene {
    let mut scene = scene(&[(Mechanism::Advise, stack_text)]);
    scene.given.clone_from(&scene.costs);
    scene.given[0].advice = advice.into();
    scene
}

/// A program that waits for another one, which holds its lock.
pub(super) fn waits_for(comm: &str, doing: &str) -> Scene {
    Scene {
        cpu_ns: SECOND,
        wall_ns: SECOND,
        holders: vec![HolderRow {
            pid: 7,
            holder_pid: 9,
            holder_comm: comm.into(),
            mechanism: Mechanism::LockMmap,
            doing: doing.into(),
            role: HolderRole::Alone,
            blocked_ns: WORTHY,
            waits: 3,
            longest_ns: WORTHY / 2,
        }],
        ..Scene::default()
    }
}

/// The same with a file mapped.
pub(super) fn with_file(mut scene: Scene, path: &str) -> Scene {
    scene.files.push(MappedFile {
        pid: 7,
        path: path.into(),
    });
    scene
}

/// The same, but its threads slept for it.
pub(super) fn asleep(mut scene: Scene) -> Scene {
    for cost in &mut scene.costs {
        (cost.cpu_ns, cost.blocked_ns) = (0, cost.cpu_ns);
    }
    scene
}

/// What was recorded of a real program, by the name of its file in `tests/accounts`.
pub(super) fn recorded(name: &str) -> Scene {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accounts");
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn found(entry: &AdviceEntry, scene: &Scene) -> Option<Advised> {
    advise(scene).into_iter().find(|a| a.id == entry.id)
}

/// Checks that an entry fires on its own scene.
#[track_caller]
pub(super) fn fires(entry: &AdviceEntry, scene: &Scene) -> Advised {
    let found = found(entry, scene);
    found.unwrap_or_else(|| panic!("{} does not fire: {:?}", entry.id, advise(scene)))
}

/// Checks that an entry says nothing.
#[track_caller]
pub(super) fn is_quiet(entry: &AdviceEntry, scene: &Scene) {
    assert_eq!(found(entry, scene), None, "{} fires", entry.id);
}

/// Checks that an entry fires on a scene that was made up, and not where one thing is missing: enough time, the
/// mechanism, or the evidence. The name of the process stays.
#[track_caller]
pub(super) fn fires_by_evidence(entry: &AdviceEntry, scene: &Scene, comm: &str) -> Advised {
    let mut scene = scene.clone();
    for cost in scene.costs.iter_mut().chain(&mut scene.given) {
        cost.comm = comm.into();
    }
    let advised = fires(entry, &scene);
    assert!(advised.cpu_ns + advised.blocked_ns >= WORTHY, "{advised:?}");

    let mut little = scene.clone();
    for cost in little.costs.iter_mut().chain(&mut little.given) {
        cost.cpu_ns = cost.cpu_ns.min(MIN_TIME_NS / 4);
        cost.blocked_ns = cost.blocked_ns.min(MIN_TIME_NS / 4);
    }
    for holder in &mut little.holders {
        holder.blocked_ns = MIN_TIME_NS / 4;
    }
    is_quiet(entry, &little);

    let mut else_done = scene.clone();
    for cost in else_done.costs.iter_mut().chain(&mut else_done.given) {
        cost.mechanism = Mechanism::Exec;
    }
    for holder in &mut else_done.holders {
        holder.doing = "page fault".into();
    }
    is_quiet(entry, &else_done);

    let mut by_name_alone = scene;
    for cost in by_name_alone
        .costs
        .iter_mut()
        .chain(&mut by_name_alone.given)
    {
        cost.stack = stack("work (app) < main (app)");
    }
    for holder in &mut by_name_alone.holders {
        holder.doing = "brk".into();
    }
    is_quiet(entry, &by_name_alone);
    advised
}
