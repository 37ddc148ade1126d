//! `quell run` with a plan that preloads libquell.so, or that does something before the program starts.

use std::process::{Command, Output};

use crate::common::{QUELL, alone, beside_others, json, quell, root_only, worst};

fn plan(dir: &tempfile::TempDir, tables: &str) -> String {
    let path = dir.path().join("plan.toml");
    let head = "schema = \"quell/plan/1\"\n[[remedies]]\nremedy = \"shim.zero\"\n";
    std::fs::write(&path, format!("{head}{tables}")).expect("a file");
    path.display().to_string()
}

const PRELOAD: &str = "[remedies.sets]\nLD_PRELOAD = \"libquell.so\"\nQUELL_SHIM = \"cache=8M\"\n";

fn said(out: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&out.stdout), text(&out.stderr))
}

/// Check that the program that is started has the library loaded, behind what the user preloads but for a C library, and that the
/// same file can be had by hand.
#[test]
fn is_loaded() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(&dir, PRELOAD);
    let run = |args: &[&str]| {
        let mut command = Command::new(QUELL);
        command.args(["run", "--plan", &plan, "--"]).args(args);
        command
            .env("LD_PRELOAD", "libc.so.6:libm.so.6")
            .output()
            .expect("quell starts")
    };
    let (maps, complaints) = said(&run(&["cat", "/proc/self/maps"]));
    assert!(maps.contains("/libquell.so"), "{maps}");
    assert!(!complaints.contains("preload"), "{complaints}");
    let (list, _) = said(&run(&["sh", "-c", "echo $LD_PRELOAD"]));
    let (path, _) = said(&quell(&["run", "--library"]));
    assert_eq!(list.trim(), format!("libm.so.6:{}:libc.so.6", path.trim()));
}

/// Check that a setting that is none is said by the library, and the program runs.
#[test]
fn bad_setting_is_said() {
    let _beside = beside_others();
    let (path, _) = said(&quell(&["run", "--library"]));
    let out = Command::new("true")
        .env("LD_PRELOAD", path.trim())
        .env("QUELL_SHIM", "cache=1M,colour=red")
        .output()
        .expect("true starts");
    assert!(out.status.success());
    let (_, complaint) = said(&out);
    assert_eq!(
        complaint,
        "libquell.so: QUELL_SHIM has 'colour=red', which is no setting, or no value of it; it is left out\n"
    );
}

/// Check that what a plan starts with holds in the program, and that what the kernel refuses is said with what
/// it is, and starts nothing.
#[test]
fn starts() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let with = plan(
        &dir,
        "[remedies.starts]\ntimer_slack_ns = \"77000\"\ncpus = \"0\"\nthp = \"never\"\n",
    );
    let cat = ["cat", "/proc/self/timerslack_ns", "/proc/self/status"];
    let out = quell(&[&["run", "--plan", &with, "--"][..], &cat].concat());
    let (status, complaint) = said(&out);
    assert!(status.starts_with("77000\n"), "{status}{complaint}");
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    assert!(status.contains("THP_enabled:\t0\n"), "{status}");
    let (dry, _) = said(&quell(&["run", "--plan", &with, "--dry-run", "--", "true"]));
    assert!(dry.contains("# and by 'quell run': cpus=0\n"), "{dry}");

    let with = plan(&dir, "[remedies.starts]\ncpus = \"8191\"\n");
    let out = quell(&["run", "--plan", &with, "--", "echo", "started"]);
    let (none, complaint) = said(&out);
    assert_eq!((out.status.code(), none.as_str()), (Some(1), ""));
    assert!(
        complaint.contains("the plan's cpus=8191 was refused") && complaint.contains("such a CPU"),
        "{complaint}"
    );
}

/// Check that stat shows the library's counters also without the probe, which takes no rights.
#[test]
fn counted_without_the_probe() {
    let _beside = beside_others();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(&dir, PRELOAD);
    let worst = worst(dir.path()).display().to_string();
    let run = [QUELL, "run", "--plan", &plan, "--", &worst, "3000000"];
    for (json_too, wanted) in [
        (true, "\"dontneed_zeroed\":"),
        (false, "MADV_DONTNEED zeroed"),
    ] {
        let mut args = vec!["stat", "--backend", "proc", "-o", "/dev/stderr"];
        args.extend(json_too.then_some("--json"));
        args.push("--");
        let (_, text) = said(&quell(&[&args[..], &run].concat()));
        assert!(text.contains(wanted), "{text}");
    }
}

/// Check that the worst case under the library shoots hardly at all, and that stat shows by the library's
/// counters why.
#[test]
fn stops_the_worst_case() {
    if !root_only("stops_the_worst_case") {
        return;
    }
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder");
    let plan = plan(&dir, PRELOAD);
    let worst = worst(dir.path()).display().to_string();
    // Long enough to be looked at while it runs, with the library and without.
    let under = ["stat", "--json", "-o", "/dev/stderr", "--"];
    let run = [QUELL, "run", "--plan", &plan, "--", &worst, "3000000"];
    let out = quell(&[&under[..], &run].concat());
    let with = json(&out.stderr);
    let shim = &with["shim"][0]["counters"];
    let zeroed = shim["dontneed_zeroed"]
        .as_u64()
        .expect("the library's counters");
    let asked = shim["dontneed"].as_u64().expect("the library's counters");
    // When one of the two threads has ended, or does not get its CPU, there is nobody to interrupt.
    assert!(asked > 1000 && zeroed * 2 >= asked, "{shim}");
    // A thread that loses the CPU where it holds the library's lock leaves the other to the kernel for so long: on a busy
    // machine that is some hundred calls each time.
    let shootdowns = with["shootdowns"].as_u64().expect("shootdowns");
    assert!(shootdowns < 60_000, "{shootdowns} of 6,000,000 calls");
    // So of the calls that would have interrupted the other CPU 99 of 100 were zeroed.
    assert!(zeroed >= shootdowns * 99, "{shootdowns} beside {shim}");
}
