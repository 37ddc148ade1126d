//! A plan in the form of another launcher: a shell, systemd, Docker, Kubernetes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use quell_event::text::is_plain;
use quell_event::{Text, named_enum};

use crate::conf::{SHIM_LIBRARY, is_shim_library};
use crate::{Numa, Plan, Start, quote};

/// Where quell's packages put the library, and where the forms expect it.
const INSTALLED_LIBRARY: &str = "/usr/lib/quell/libquell.so";

named_enum! {
    /// Where a plan goes; the names are those of `quell plan --emit`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PlanForm {
        /// Lines for a POSIX shell.
        Shell = "shell",
        /// A drop-in for a service of systemd.
        Systemd = "systemd",
        /// Lines of a Dockerfile.
        Docker = "docker",
        /// A strategic merge patch of a Kubernetes workload.
        K8s = "k8s",
    }
}

impl PlanForm {
    /// How it is used.
    fn usage_line(self) -> &'static str {
        match self {
            Self::Shell => "source it before the program is started",
            Self::Systemd => {
                "as /etc/systemd/system/NAME.service.d/quell.conf; then systemctl daemon-reload"
            }
            Self::Docker => "at the end of the Dockerfile",
            Self::K8s => {
                "kubectl patch deployment NAME --patch-file THIS; put your container's name in"
            }
        }
    }

    /// The step to do before, where the plan preloads quell's library: its place on this machine may be another after a restart,
    /// and an image has none. A shell asks quell for the place.
    fn first_step(self) -> Option<String> {
        const LIBRARY_COMMAND: &str = "\"$(quell run --library)\"";
        match self {
            Self::Shell => None,
            Self::Systemd => Some(format!(
                "first, unless quell's package is installed: install -D -m 644 {LIBRARY_COMMAND} {INSTALLED_LIBRARY}"
            )),
            Self::Docker => Some(format!(
                "first, beside the Dockerfile: cp {LIBRARY_COMMAND} {SHIM_LIBRARY}"
            )),
            Self::K8s => Some(format!(
                "first: the image needs the file that 'quell run --library' names, as {INSTALLED_LIBRARY}"
            )),
        }
    }
}

/// The plan in one form, with `environment` as the values after merging. Parts that the form can't hold become comments, so that
/// nobody takes it for the whole plan.
#[must_use]
pub fn emit_plan(plan: &Plan, environment: &BTreeMap<String, String>, form: PlanForm) -> String {
    let ids: Vec<&str> = plan.remedies.iter().map(|r| r.remedy.as_str()).collect();
    let mut out = format!("# by quell plan: {}\n", form.usage_line());
    let what = if ids.is_empty() {
        "nothing to set".to_owned()
    } else {
        ids.join(", ")
    };
    push_comment(&mut out, &what);
    let preload = environment.get("LD_PRELOAD");
    let library = preload.is_some_and(|list| around_library(list).is_some());
    if let Some(first) = form.first_step().filter(|_| library) {
        push_comment(&mut out, &first);
    }
    let mut left = Vec::new();
    let mut lines = Vec::new();
    if form == PlanForm::Docker && library {
        lines.push(format!("COPY {SHIM_LIBRARY} {INSTALLED_LIBRARY}"));
    }
    for (name, value) in environment {
        match variable_line(form, name, value) {
            Some(line) => lines.push(line),
            None => left.push(format!("{name}={value}")),
        }
    }
    for start in plan.starts() {
        match start_directive(form, &start) {
            Ok(line) => lines.push(line),
            Err(why) => left.push(format!("{start}: {why}")),
        }
    }
    if !lines.is_empty() {
        match form {
            PlanForm::Shell | PlanForm::Docker => {}
            PlanForm::Systemd => out.push_str("[Service]\n"),
            PlanForm::K8s => out.push_str(
                "spec:\n  template:\n    spec:\n      containers:\n      - name: CONTAINER\n        env:\n",
            ),
        }
    }
    for line in lines {
        // Writing to a String does not fail.
        let _ = writeln!(out, "{line}");
    }
    if !left.is_empty() {
        push_comment(&mut out, &format!("not for {}:", form.name()));
    }
    for text in left {
        push_comment(&mut out, &format!("  {text}"));
    }
    out
}

/// One line, whatever is in it, and none that nobody reads to its end.
fn push_comment(out: &mut String, text: &str) {
    let text = Text::from(text.replace(|c: char| !is_plain(c), " "));
    let _ = writeln!(out, "# {text}");
}

/// The text before and behind the preload library in LD_PRELOAD, if it is there. Its folder may be another after a restart.
fn around_library(preload: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    for path in preload.split_inclusive([':', ' ']) {
        let name = path.trim_end_matches([':', ' ']);
        if is_shim_library(name) {
            return Some((&preload[..start], &preload[start + name.len()..]));
        }
        start += path.len();
    }
    None
}

/// A line for a shell that sets a variable for good.
#[must_use]
pub fn shell_export(name: &str, value: &str) -> String {
    let around = match name {
        "LD_PRELOAD" => around_library(value),
        _ => None,
    };
    let quoted = |text: &str| {
        if text.is_empty() {
            String::new()
        } else {
            quote::shell_word(text)
        }
    };
    let value = match around {
        Some((before, behind)) => quoted(before) + r#""$(quell run --library)""# + &quoted(behind),
        None => quote::shell_word(value),
    };
    format!("export {name}={value}")
}

/// The line that sets one variable; none where the form can't hold the name or the value. A shell asks quell for the preload
/// library's place, and the other forms name the place where quell's package puts it.
fn variable_line(form: PlanForm, name: &str, value: &str) -> Option<String> {
    if !quote::is_name(name) {
        return None;
    }
    let installed = match name {
        "LD_PRELOAD" if form != PlanForm::Shell => around_library(value),
        _ => None,
    }
    .map(|(before, behind)| format!("{before}{INSTALLED_LIBRARY}{behind}"));
    let value = installed.as_deref().unwrap_or(value);
    Some(match form {
        PlanForm::Shell => shell_export(name, value),
        PlanForm::Systemd => quote::systemd_line(name, value),
        PlanForm::Docker => format!("ENV {name}={}", quote::dockerfile_word(value)?),
        PlanForm::K8s => format!(
            "        - name: {}\n          value: {}",
            quote::yaml_string(name),
            quote::kubernetes_value(value)
        ),
    })
}

/// A start of the plan as a directive of that form; an error is the command that would do it.
fn start_directive(form: PlanForm, start: &Start) -> Result<String, String> {
    if form == PlanForm::Systemd {
        return systemd_directive(start);
    }
    Err(match (form, start) {
        (PlanForm::Docker, Start::Cpus(list)) => format!("docker run --cpuset-cpus {list}"),
        (PlanForm::Docker, Start::Numa(Numa::Bind(nodes))) => {
            format!("docker run --cpuset-mems {nodes}")
        }
        (PlanForm::Shell, Start::Cpus(list)) => format!("taskset -c {list} PROGRAM"),
        (PlanForm::Shell, Start::Numa(numa)) => format!("numactl {} PROGRAM", numactl_options(numa)),
        (PlanForm::K8s, Start::Cpus(_)) => {
            "a pod of the class Guaranteed, on nodes with the static CPU manager policy, gets CPUs of its own"
                .to_owned()
        }
        _ => "quell run starts it so: make it the command, with --plan FILE".to_owned(),
    })
}

fn numactl_options(numa: &Numa) -> String {
    match numa {
        Numa::Local => "--localalloc".to_owned(),
        Numa::Bind(nodes) => format!("--membind={nodes}"),
        Numa::Interleave(nodes) => format!("--interleave={nodes}"),
        Numa::Preferred(node) => format!("--preferred={node}"),
    }
}

/// systemd.exec(5), and systemd.resource-control(5) for MemoryKSM (254).
fn systemd_directive(start: &Start) -> Result<String, String> {
    Ok(match start {
        Start::ThpNever => {
            return Err("put quell run --plan FILE -- before the command of ExecStart".to_owned());
        }
        Start::Ksm { merge } => format!("MemoryKSM={}", if *merge { "yes" } else { "no" }),
        Start::TimerSlack { ns } => format!("TimerSlackNSec={ns}"),
        Start::Cpus(list) => format!("CPUAffinity={list}"),
        Start::Numa(numa) => match numa {
            Numa::Local => "NUMAPolicy=local".to_owned(),
            Numa::Bind(nodes) => format!("NUMAPolicy=bind\nNUMAMask={nodes}"),
            Numa::Interleave(nodes) => format!("NUMAPolicy=interleave\nNUMAMask={nodes}"),
            Numa::Preferred(node) => format!("NUMAPolicy=preferred\nNUMAMask={node}"),
        },
    })
}

#[cfg(test)]
#[path = "emit_tests.rs"]
mod tests;
