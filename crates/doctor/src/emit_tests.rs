//! The forms that fixes are written in.

use crate::emit::{EmitOptions, FixFormat};
use crate::finding::{Finding, FindingStatus, Severity};
use crate::fix::Fix;

fn finding(rule: &'static str, fixes: &[Fix]) -> Finding {
    Finding {
        rule,
        title: "",
        status: FindingStatus::Hazard,
        severity: Severity::High,
        read: Vec::new(),
        said: String::new(),
        why: "",
        harm: None,
        fixes: fixes.to_vec(),
        risk: "",
        source: "",
        notes: Vec::new(),
    }
}

fn emit(findings: &[Finding], form: FixFormat) -> String {
    let wanted = EmitOptions {
        form,
        least_severity: Severity::Medium,
        tuned_profile: Some("throughput-performance\n".to_owned()),
    };
    crate::emit::emit_fixes(findings, &wanted)
}

fn findings() -> Vec<Finding> {
    vec![
        finding(
            "SYS-A",
            &[Fix::set_sysctl("vm.a", "0"), Fix::Cmdline("a=0".to_owned())],
        ),
        finding("SYS-B", &[Fix::set_file("/sys/b%", "never")]),
        finding(
            "PROC-C",
            &[Fix::Directive("LimitMEMLOCK=infinity".to_owned())],
        ),
        finding("ALLOC-D", &[Fix::set_variable("D", "x:1,\"y\" 5%")]),
        finding(
            "PROC-E",
            &[Fix::Advice("program: do it otherwise".to_owned())],
        ),
    ]
}

/// Check that each form holds what it can, quoted as that tool reads it, and names the rest.
#[test]
fn forms_hold_what_they_can() {
    let text = |form| emit(&findings(), form);
    let sysctl = text(FixFormat::Sysctl);
    assert!(sysctl.starts_with("# by quell doctor: 1 of 5 rules\n# SYS-A\nvm.a = 0\n"));
    assert!(sysctl.contains("# not for sysctl:\n#   SYS-B: tmpfiles.d: w /sys/b%"));
    assert!(text(FixFormat::Tmpfiles).contains("\nw /sys/b%% - - - - never\n"));
    let unit = text(FixFormat::Systemd);
    assert!(unit.contains("[Service]\n# PROC-C\nLimitMEMLOCK=infinity\n"));
    assert!(unit.contains(r#"Environment="D=x:1,\"y\" 5%%""#), "{unit}");
    assert!(text(FixFormat::Cmdline).contains("\na=0\n"));
    let tuned = text(FixFormat::Tuned);
    assert!(
        tuned.contains("[sysfs]\n# SYS-B\n/sys/b% = never\n"),
        "{tuned}"
    );
    assert!(tuned.contains("cmdline_quell = a=0"), "{tuned}");
    assert!(
        tuned.contains("\ninclude = throughput-performance\n"),
        "{tuned}"
    );
    assert!(text(FixFormat::Docker).contains("--ulimit memlock=-1:-1"));
    let pod = text(FixFormat::K8s);
    assert!(pod.contains(r#"value: "x:1,\"y\" 5%""#), "{pod}");
    let shell = text(FixFormat::Shell);
    assert!(shell.contains("export D='x:1,\"y\" 5%'"), "{shell}");
    for form in FixFormat::ALL {
        assert!(text(form).contains("PROC-E"), "{}", form.name());
        assert_eq!(form.name().parse(), Ok(form));
    }
}

/// Check that what several rules add to one variable stands there once, whole.
#[test]
fn variables_are_merged() {
    let found = [
        finding(
            "ALLOC-JVM",
            &[Fix::set_variable("JAVA_TOOL_OPTIONS", "-Xms1g -ea")],
        ),
        finding(
            "PROC-HSPERF",
            &[Fix::set_variable("JAVA_TOOL_OPTIONS", "-XX:+X")],
        ),
    ];
    for form in [
        FixFormat::Systemd,
        FixFormat::K8s,
        FixFormat::Docker,
        FixFormat::Shell,
    ] {
        let text = emit(&found, form);
        assert_eq!(text.matches("JAVA_TOOL_OPTIONS").count(), 1, "{text}");
        assert!(text.contains("-Xms1g -ea -XX:+X"), "{text}");
        assert!(
            text.starts_with("# by quell doctor: 2 of 2 rules"),
            "{text}"
        );
    }
}

/// Check that a value of the process that is looked at begins no directive of its own, and that a command that
/// fails keeps no other from being tried.
#[test]
fn values_stay_values() {
    let found = [
        finding(
            "ALLOC-D",
            &[Fix::set_variable("D", "a:1\nExecStartPre=/x\u{1}")],
        ),
        finding(
            "SYS-KSM",
            &[Fix::Mask("ksm.service"), Fix::set_sysctl("vm.a", "0")],
        ),
    ];
    let unit = emit(&found, FixFormat::Systemd);
    assert!(
        unit.contains(r#"Environment="D=a:1\x0aExecStartPre=/x\x01""#),
        "{unit}"
    );
    let dir = tempfile::tempdir().unwrap();
    // the first command fails, the second says that it was run
    let path = dir.path().display();
    let commands =
        format!("systemctl() {{ [ \"$1\" = cat ]; }}; sysctl() {{ touch '{path}/run'; }}\n");
    let text = commands + &emit(&found, FixFormat::Shell) + "echo \"$? $D\"";
    let out = std::process::Command::new("sh")
        .args(["-c", &text])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&out.stdout),
        "1 a:1\nExecStartPre=/x\u{1}\n"
    );
    assert!(dir.path().join("run").exists());
}

/// Check that commands are for the shell, with a warning, and that a unit that isn't there is not masked.
#[test]
fn commands_are_for_the_shell() {
    let fixes = [
        Fix::Command("swapoff -a".to_owned()),
        Fix::Mask("swap.target"),
    ];
    let found = [finding("SYS-SWAP", &fixes)];
    let shell = emit(&found, FixFormat::Shell);
    assert!(
        shell.contains(
            "# it reads back all that is swapped: only where that much memory is free\nswapoff -a || failed=1\n"
        ),
        "{shell}"
    );
    assert!(
        shell.contains(
            "if systemctl cat swap.target >/dev/null 2>&1; then systemctl mask --now swap.target || failed=1; fi"
        ),
        "{shell}"
    );
    assert!(!emit(&found, FixFormat::Sysctl).contains("swapoff"));
}

/// Check that what is below the severity that was asked for is left out, and that it and what could not be told
/// are named.
#[test]
fn what_is_left_out_is_named() {
    let info = Finding {
        severity: Severity::Info,
        ..finding("SYS-I", &[Fix::set_sysctl("vm.i", "1")])
    };
    let unknown = Finding {
        status: FindingStatus::Unknown,
        said: "can't be read\n".to_owned(),
        ..finding("SYS-U", &[])
    };
    assert_eq!(
        emit(&[info, unknown], FixFormat::Sysctl),
        "# by quell doctor: 0 of 0 rules\n# left out, below medium (--fail-on):\n#   SYS-I: info\n\
         # could not be told:\n#   SYS-U: can't be read \n"
    );
}

/// Check that CPUs of a service are no cpuset of a container, which threads that pin themselves can't leave.
#[test]
fn affinity_is_no_cpuset() {
    let found = [finding(
        "PROC-BLAST",
        &[Fix::Directive("CPUAffinity=0-5".to_owned())],
    )];
    let text = emit(&found, FixFormat::Docker);
    assert!(!text.contains("--cpuset-cpus"), "{text}");
    assert!(text.contains("# not for docker:\n#   PROC-BLAST"), "{text}");
}

/// Check that without hazards nothing but a comment is written.
#[test]
fn nothing_to_write() {
    let mut fine = findings();
    for f in &mut fine {
        f.status = FindingStatus::Ok;
    }
    assert_eq!(
        emit(&fine, FixFormat::Sysctl),
        "# by quell doctor: 0 of 0 rules\n"
    );
}
