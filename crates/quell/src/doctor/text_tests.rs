//! The text of an audit, as it is read.

use quell_doctor::{FileReading, Finding, FindingStatus, Fix, Harm, Severity, WorkloadProfile};

use super::text::findings_text;

pub(super) fn finding_fixture(rule: &'static str, status: FindingStatus) -> Finding {
    Finding {
        rule,
        title: "same-page merging runs",
        status,
        severity: Severity::High,
        read: vec![FileReading::new("/sys/kernel/mm/ksm/run", "1")],
        said: "ksmd merges pages".to_owned(),
        why: "ksmd write-protects and merges pages of programs that opted in: a shootdown for each, and the next write to a merged page is a fault that copies it.",
        harm: None,
        fixes: vec![
            Fix::Write {
                path: "/sys/kernel/mm/ksm/run".to_owned(),
                value: "2".to_owned(),
            },
            Fix::Mask("ksm.service"),
        ],
        risk: "Virtual machines with the same content take more memory.",
        source: "kernel Documentation/admin-guide/mm/ksm.rst",
        notes: vec!["ksmtuned runs and will switch KSM on again".to_owned()],
    }
}

fn plain_findings_text(findings: &[Finding], all: bool) -> String {
    anstream::adapter::strip_str(&findings_text(findings, WorkloadProfile::LowLatency, all))
        .to_string()
}

/// Check that a hazard is told whole, with its harm, and what could not be told in a line.
#[test]
fn hazards_are_told_whole() {
    let harmful = Finding {
        harm: Some(Harm {
            description: "12 shootdowns by ksm in 5.00 s".to_owned(),
            count: 12,
        }),
        ..finding_fixture("SYS-KSM", FindingStatus::Hazard)
    };
    let unknown = Finding {
        said: "the setting can't be read\u{1b}[2J".to_owned(),
        notes: Vec::new(),
        ..finding_fixture("SYS-X", FindingStatus::Unknown)
    };
    let fine = Finding {
        said: "ksmd does not merge".to_owned(),
        notes: Vec::new(),
        ..finding_fixture("SYS-FINE", FindingStatus::Ok)
    };
    insta::assert_snapshot!(plain_findings_text(&[harmful, unknown.clone(), fine.clone()], true), @r#"
    1 hazard, 1 of them did harm; 1 unknown, 1 fine (for low-latency)

    high      SYS-KSM  same-page merging runs
              did harm: 12 shootdowns by ksm in 5.00 s
              ksmd merges pages.
              read     /sys/kernel/mm/ksm/run: 1
              why      ksmd write-protects and merges pages of programs that opted in: a shootdown for
                       each, and the next write to a merged page is a fault that copies it.
              now      echo 2 > /sys/kernel/mm/ksm/run
              now      systemctl mask --now ksm.service
              lasting  tmpfiles.d: w /sys/kernel/mm/ksm/run - - - - 2
              lasting  systemctl mask ksm.service
              cost     Virtual machines with the same content take more memory.
              note     ksmtuned runs and will switch KSM on again
              source   kernel Documentation/admin-guide/mm/ksm.rst

    Unknown: could not be told
      SYS-X             same-page merging runs: the setting can't be read [2J

    Fine
      SYS-FINE          same-page merging runs: ksmd does not merge
    "#);
    let brief = plain_findings_text(&[unknown, fine], false);
    assert!(brief.starts_with("0 hazards; 1 unknown, 1 fine"), "{brief}");
    assert!(!brief.contains("SYS-FINE"), "{brief}");
}

/// Check that what is fine is told all the same where there is something to know about it.
#[test]
fn notes_of_what_is_fine() {
    let fine = Finding {
        said: "set to never".to_owned(),
        notes: vec!["mongod 8 wants 'always'".to_owned()],
        ..finding_fixture("SYS-THP", FindingStatus::Ok)
    };
    let said = plain_findings_text(&[fine], false);
    assert!(said.contains("SYS-THP"), "{said}");
    assert!(said.contains("mongod 8 wants 'always'"), "{said}");
}
