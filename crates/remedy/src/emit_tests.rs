//! The forms that a plan is written in, as they are read.

use super::*;
use crate::Planned;

fn plan() -> Plan {
    let table = |pairs: &[(&str, &str)]| {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect::<BTreeMap<_, _>>()
    };
    Plan {
        remedies: vec![
            Planned {
                remedy: "shim.cache".to_owned(),
                sets: table(&[("LD_PRELOAD", "libquell.so"), ("QUELL_SHIM", "cache=64M")]),
                ..Planned::default()
            },
            Planned {
                remedy: "mine".to_owned(),
                sets: table(&[("MINE", "it's \"5 %\" of $(HOME)\\")]),
                starts: table(&[
                    ("cpus", "0-3,5"),
                    ("ksm", "never"),
                    ("numa", "bind:0-1"),
                    ("thp", "never"),
                    ("timer_slack_ns", "5000"),
                ]),
                ..Planned::default()
            },
        ],
        notes: Vec::new(),
    }
}

fn shown(form: PlanForm) -> String {
    let plan = plan();
    emit_plan(&plan, &plan.environment(&|_| None), form)
}

/// Check the lines for a shell, as people see them.
#[test]
fn shell() {
    insta::assert_snapshot!(shown(PlanForm::Shell), @r#"
    # by quell plan: source it before the program is started
    # shim.cache, mine
    export LD_PRELOAD="$(quell run --library)"
    export MINE='it'\''s "5 %" of $(HOME)\'
    export QUELL_SHIM='cache=64M'
    # not for shell:
    #   cpus=0-3,5: taskset -c 0-3,5 PROGRAM
    #   ksm=never: quell run starts it so: make it the command, with --plan FILE
    #   numa=bind:0-1: numactl --membind=0-1 PROGRAM
    #   thp=never: quell run starts it so: make it the command, with --plan FILE
    #   timer_slack_ns=5000: quell run starts it so: make it the command, with --plan FILE
    "#);
}

/// Check the drop-in, which holds all but one.
#[test]
fn systemd_directive() {
    insta::assert_snapshot!(shown(PlanForm::Systemd), @r#"
    # by quell plan: as /etc/systemd/system/NAME.service.d/quell.conf; then systemctl daemon-reload
    # shim.cache, mine
    # first, unless quell's package is installed: install -D -m 644 "$(quell run --library)" /usr/lib/quell/libquell.so
    [Service]
    Environment="LD_PRELOAD=/usr/lib/quell/libquell.so"
    Environment="MINE=it's \"5 %%\" of $(HOME)\\"
    Environment="QUELL_SHIM=cache=64M"
    CPUAffinity=0-3,5
    MemoryKSM=no
    NUMAPolicy=bind
    NUMAMask=0-1
    TimerSlackNSec=5000
    # not for systemd:
    #   thp=never: put quell run --plan FILE -- before the command of ExecStart
    "#);
}

/// Check the lines of a Dockerfile.
#[test]
fn docker() {
    insta::assert_snapshot!(shown(PlanForm::Docker), @r#"
    # by quell plan: at the end of the Dockerfile
    # shim.cache, mine
    # first, beside the Dockerfile: cp "$(quell run --library)" libquell.so
    COPY libquell.so /usr/lib/quell/libquell.so
    ENV LD_PRELOAD="/usr/lib/quell/libquell.so"
    ENV MINE="it's \"5 %\" of \$(HOME)\\"
    ENV QUELL_SHIM="cache=64M"
    # not for docker:
    #   cpus=0-3,5: docker run --cpuset-cpus 0-3,5
    #   ksm=never: quell run starts it so: make it the command, with --plan FILE
    #   numa=bind:0-1: docker run --cpuset-mems 0-1
    #   thp=never: quell run starts it so: make it the command, with --plan FILE
    #   timer_slack_ns=5000: quell run starts it so: make it the command, with --plan FILE
    "#);
}

/// Check the patch of a pod template.
#[test]
fn kubernetes() {
    insta::assert_snapshot!(shown(PlanForm::K8s), @r#"
    # by quell plan: kubectl patch deployment NAME --patch-file THIS; put your container's name in
    # shim.cache, mine
    # first: the image needs the file that 'quell run --library' names, as /usr/lib/quell/libquell.so
    spec:
      template:
        spec:
          containers:
          - name: CONTAINER
            env:
            - name: "LD_PRELOAD"
              value: "/usr/lib/quell/libquell.so"
            - name: "MINE"
              value: "it's \"5 %\" of $$(HOME)\\"
            - name: "QUELL_SHIM"
              value: "cache=64M"
    # not for k8s:
    #   cpus=0-3,5: a pod of the class Guaranteed, on nodes with the static CPU manager policy, gets CPUs of its own
    #   ksm=never: quell run starts it so: make it the command, with --plan FILE
    #   numa=bind:0-1: quell run starts it so: make it the command, with --plan FILE
    #   thp=never: quell run starts it so: make it the command, with --plan FILE
    #   timer_slack_ns=5000: quell run starts it so: make it the command, with --plan FILE
    "#);
}

/// Check that each form has its name, that an empty plan says so, and that parts which a form can't hold stay comments.
#[test]
fn edges() {
    for form in PlanForm::ALL {
        assert_eq!(form.name().parse(), Ok(form));
        let none = emit_plan(&Plan::default(), &BTreeMap::new(), form);
        assert!(none.ends_with("# nothing to set\n"), "{none}");
        let odd = BTreeMap::from([("A-B".to_owned(), "x\nexport C=1".to_owned())]);
        let text = emit_plan(&Plan::default(), &odd, form);
        assert!(text.lines().all(|l| l.starts_with('#')), "{text}");
    }
    assert!("sysctl".parse::<PlanForm>().is_err());
}

/// Check that a shell finds the library wherever it lies at that time, and keeps other preloaded libraries.
#[test]
fn shell_finds_the_library() {
    for library in ["libquell.so", "/run/quell/0123/libquell.so"] {
        assert_eq!(
            shell_export("LD_PRELOAD", &format!("/a b.so:{library}")),
            "export LD_PRELOAD='/a b.so:'\"$(quell run --library)\""
        );
    }
    assert_eq!(
        shell_export("LD_PRELOAD", "a.so:libquell.so:libc.so.6"),
        "export LD_PRELOAD='a.so:'\"$(quell run --library)\"':libc.so.6'"
    );
    for other in ["/a/notlibquell.so", "libquell.so.1:/a.so"] {
        assert_eq!(
            shell_export("LD_PRELOAD", other),
            format!("export LD_PRELOAD='{other}'")
        );
    }
    assert_eq!(shell_export("A", "libquell.so"), "export A='libquell.so'");
}
