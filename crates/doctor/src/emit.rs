//! The lasting fixes, in the form of the tool that keeps them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use quell_event::named_enum;
use quell_event::text::is_plain;
use quell_remedy::quote;

use crate::finding::{Finding, FindingStatus, Severity};
use crate::fix::{Fix, shell_argument};

named_enum! {
    /// Where fixes go.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FixFormat {
        /// A file for /etc/sysctl.d.
        Sysctl = "sysctl",
        /// A file for /etc/tmpfiles.d.
        Tmpfiles = "tmpfiles",
        /// A drop-in for a service of systemd.
        Systemd = "systemd",
        /// Parameters for the kernel's command line.
        Cmdline = "cmdline",
        /// A profile of tuned.
        Tuned = "tuned",
        /// Options of `docker run`.
        Docker = "docker",
        /// A patch of a Kubernetes pod template.
        K8s = "k8s",
        /// Commands for a shell.
        Shell = "shell",
    }
}

impl FixFormat {
    /// A command is for now only, so that it is for the shell alone.
    fn can_hold(self, fix: &Fix) -> bool {
        fix.lasting_text().is_some() || self == Self::Shell
    }
}

/// A fix of a hazard, and its rule.
type RuleFix<'a> = (&'static str, &'a Fix);

/// The form of the output, and the hazards that go into it.
#[derive(Clone, Debug)]
pub struct EmitOptions {
    /// Where it goes.
    pub form: FixFormat,
    /// Hazards of this severity and above.
    pub least_severity: Severity,
    /// The profile of tuned that is in use, which a new one builds on.
    pub tuned_profile: Option<String>,
}

/// The lasting fixes of the hazards that are wanted, in one form. Fixes that this form can't hold, hazards of a lower
/// severity and unknown findings are named in comments, so that nobody takes the output for all there is.
#[must_use]
pub fn emit_fixes(findings: &[Finding], wanted: &EmitOptions) -> String {
    let form = wanted.form;
    let hazards = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Hazard);
    let (hazards, lesser): (Vec<_>, Vec<_>) =
        hazards.partition(|f| f.severity >= wanted.least_severity);
    let fixes: Vec<(&'static str, Fix)> = hazards
        .into_iter()
        .flat_map(|f| f.fixes.iter().map(move |fix| (f.rule, fix.clone())))
        .filter(|(_, fix)| form.can_hold(fix))
        .collect();
    let fixes = merge_variables(fixes);
    let fixes: Vec<RuleFix<'_>> = fixes.iter().map(|(rule, fix)| (*rule, fix)).collect();
    let (text, held) = match form {
        FixFormat::Sysctl => sysctl_file(&fixes),
        FixFormat::Tmpfiles => tmpfiles_file(&fixes),
        FixFormat::Systemd => systemd_drop_in(&fixes),
        FixFormat::Cmdline => kernel_command_line(&fixes),
        FixFormat::Tuned => tuned_profile_file(&fixes, wanted.tuned_profile.as_deref()),
        FixFormat::Docker => docker_options(&fixes),
        FixFormat::K8s => kubernetes_patch(&fixes),
        FixFormat::Shell => shell_script(&fixes),
    };
    // a rule with one of its fixes held has what it needs: several are ways to the same end
    let helped: BTreeSet<&str> = held.iter().map(|&i| fixes[i].0).collect();
    let rules: BTreeSet<&str> = fixes.iter().map(|(rule, _)| *rule).collect();
    let mut out = format!(
        "# by quell doctor: {} of {} rules\n{text}",
        helped.len(),
        rules.len()
    );
    let left = fixes.iter().filter(|(rule, _)| !helped.contains(rule));
    let left = left.map(|(rule, fix)| {
        let text = fix.lasting_text().or_else(|| fix.command_now());
        format!("{rule}: {}", text.unwrap_or_default())
    });
    write_comment(&mut out, &format!("not for {}", form.name()), left);
    let lesser = lesser.into_iter().filter(|f| !f.fixes.is_empty());
    let lesser = lesser.map(|f| format!("{}: {}", f.rule, f.severity));
    let title = format!("left out, below {} (--fail-on)", wanted.least_severity);
    write_comment(&mut out, &title, lesser);
    let unknown = findings
        .iter()
        .filter(|f| f.status == FindingStatus::Unknown);
    let unknown = unknown.map(|f| format!("{}: {}", f.rule, f.said));
    write_comment(&mut out, "could not be told", unknown);
    out
}

/// Lines that no tool reads, where there are any.
fn write_comment(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    for (i, line) in lines.enumerate() {
        if i == 0 {
            let _ = writeln!(out, "# {title}:");
        }
        let _ = writeln!(out, "#   {}", one_line(&line));
    }
}

/// One value for each variable: several rules may add to `JAVA_TOOL_OPTIONS`, and the last one would win.
fn merge_variables(mut fixes: Vec<(&'static str, Fix)>) -> Vec<(&'static str, Fix)> {
    let mut values: BTreeMap<String, String> = BTreeMap::new();
    for (_, fix) in &fixes {
        if let Fix::Env { name, value } = fix {
            let all =
                quell_remedy::merge_setting(name, values.get(name).map(String::as_str), value);
            values.insert(name.clone(), all);
        }
    }
    for (_, fix) in &mut fixes {
        if let Fix::Env { name, value } = fix
            && let Some(all) = values.get(name)
        {
            value.clone_from(all);
        }
    }
    fixes
}

fn one_line(text: &str) -> String {
    text.replace(|c| !is_plain(c), " ")
}

/// The lines of those fixes that have one, each under its rule, none twice; and which they are.
fn rule_lines(
    fixes: &[RuleFix<'_>],
    line: impl Fn(&Fix) -> Option<String>,
) -> (String, Vec<usize>) {
    let (mut out, mut held, mut seen) = (String::new(), Vec::new(), BTreeSet::new());
    for (i, (rule, fix)) in fixes.iter().enumerate() {
        let Some(text) = line(fix) else { continue };
        held.push(i);
        if seen.insert(text.clone()) {
            let _ = writeln!(out, "# {rule}\n{text}");
        }
    }
    (out, held)
}

fn sysctl_file(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    rule_lines(fixes, |fix| match fix {
        Fix::Sysctl { name, value } => Some(format!("{name} = {value}")),
        _ => None,
    })
}

fn tmpfiles_file(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    rule_lines(fixes, |fix| match fix {
        // '%' begins a specifier there (tmpfiles.d(5))
        Fix::Write { path, value } => Some(format!(
            "w {} - - - - {}",
            path.replace('%', "%%"),
            value.replace('%', "%%")
        )),
        _ => None,
    })
}

fn systemd_drop_in(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    let (text, held) = rule_lines(fixes, |fix| match fix {
        Fix::Directive(directive) => Some(directive.clone()),
        Fix::Env { name, value } => Some(quote::systemd_line(name, value)),
        _ => None,
    });
    let head = if text.is_empty() { "" } else { "[Service]\n" };
    (format!("{head}{text}"), held)
}

fn kernel_words(fixes: &[RuleFix<'_>]) -> (Vec<String>, Vec<usize>) {
    let (mut words, mut held) = (Vec::new(), Vec::new());
    for (i, (_, fix)) in fixes.iter().enumerate() {
        if let Fix::Cmdline(parameter) = fix {
            held.push(i);
            if !words.contains(parameter) {
                words.push(parameter.clone());
            }
        }
    }
    (words, held)
}

fn kernel_command_line(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    let (words, held) = kernel_words(fixes);
    let end = if words.is_empty() { "" } else { "\n" };
    (words.join(" ") + end, held)
}

fn tuned_profile_file(fixes: &[RuleFix<'_>], active: Option<&str>) -> (String, Vec<usize>) {
    let (sysctl, mut held) = sysctl_file(fixes);
    let (sysfs, more) = rule_lines(fixes, |fix| match fix {
        Fix::Write { path, value } => Some(format!("{path} = {value}")),
        _ => None,
    });
    held.extend(more);
    let (words, more) = kernel_words(fixes);
    held.extend(more);
    let mut out = "[main]\nsummary = what quell doctor found\n".to_owned();
    // without it the settings of the profile in use would be lost
    if let Some(active) = active.map(one_line).filter(|a| !a.trim().is_empty()) {
        let _ = writeln!(out, "include = {}", active.trim());
    }
    for (section, text) in [("sysctl", sysctl), ("sysfs", sysfs)] {
        if !text.is_empty() {
            let _ = write!(out, "\n[{section}]\n{text}");
        }
    }
    if !words.is_empty() {
        let _ = write!(out, "\n[bootloader]\ncmdline_quell = {}\n", words.join(" "));
    }
    (out, held)
}

/// The option of a container that does what a directive of a service does.
fn docker_option(fix: &Fix) -> Option<String> {
    match fix {
        Fix::Env { name, value } => Some(format!(
            "--env {}",
            shell_argument(&format!("{name}={value}"))
        )),
        Fix::Directive(text) if text == "LimitMEMLOCK=infinity" => {
            Some("--ulimit memlock=-1:-1 --cap-add IPC_LOCK".to_owned())
        }
        // none for CPUAffinity=: from a cpuset of the rest threads that pin themselves can't get out
        Fix::Directive(text) => {
            let nodes = text.strip_prefix("NUMAMask=")?;
            Some(format!("--cpuset-mems {}", shell_argument(nodes)))
        }
        _ => None,
    }
}

fn docker_options(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    rule_lines(fixes, docker_option)
}

fn kubernetes_patch(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    let (mut variables, mut lock, mut held) = (BTreeMap::new(), false, Vec::new());
    for (i, (_, fix)) in fixes.iter().enumerate() {
        match fix {
            Fix::Env { name, value } => {
                variables.insert(name, value);
            }
            Fix::Directive(text) if text == "LimitMEMLOCK=infinity" => lock = true,
            _ => continue,
        }
        held.push(i);
    }
    if held.is_empty() {
        return (String::new(), held);
    }
    let mut out =
        "# kubectl patch deployment NAME --patch-file THIS; put your container's name in\n\
                   spec:\n  template:\n    spec:\n      containers:\n      - name: CONTAINER\n"
            .to_owned();
    if !variables.is_empty() {
        out.push_str("        env:\n");
        for (name, value) in variables {
            let (name, value) = (quote::yaml_string(name), quote::kubernetes_value(value));
            let _ = writeln!(out, "        - name: {name}\n          value: {value}");
        }
    }
    if lock {
        out.push_str(
            "        # for a container that runs as root: another user's program has to hold it too (setcap)\n        \
             securityContext:\n          capabilities:\n            add: [\"IPC_LOCK\"]\n",
        );
    }
    (out, held)
}

/// Warns of a command, because undo takes back settings only.
fn command_warning(fix: &Fix) -> &'static str {
    match fix {
        Fix::Command(text) if text == "swapoff -a" => {
            "# it reads back all that is swapped: only where that much memory is free"
        }
        _ => "# 'quell doctor --undo' does not take this back",
    }
}

/// One line that fails keeps no other from being tried: a service that isn't there can't be stopped. Whether all
/// went well is the status of the last line, for it may be sourced.
fn shell_script(fixes: &[RuleFix<'_>]) -> (String, Vec<usize>) {
    let (text, held) = rule_lines(fixes, |fix| {
        let line = match fix {
            Fix::Env { name, value } => format!("export {name}={}", shell_argument(value)),
            Fix::Directive(text) if text == "LimitMEMLOCK=infinity" => {
                "ulimit -l unlimited".to_owned()
            }
            // not every distribution has it
            Fix::Mask(unit) => {
                return Some(format!(
                    "if systemctl cat {unit} >/dev/null 2>&1; then {} || failed=1; fi",
                    fix.command_now()?
                ));
            }
            Fix::Command(_) => {
                return Some(format!(
                    "{}\n{} || failed=1",
                    command_warning(fix),
                    one_line(&fix.command_now()?)
                ));
            }
            Fix::Sysctl { .. } | Fix::Write { .. } => fix.command_now()?,
            _ => return None,
        };
        Some(format!("{line} || failed=1"))
    });
    let end = if text.is_empty() {
        ""
    } else {
        "[ -z \"$failed\" ]\n"
    };
    (format!("failed=\n{text}{end}"), held)
}
