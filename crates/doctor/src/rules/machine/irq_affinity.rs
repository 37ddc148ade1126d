//! IRQ-AFF: devices interrupt hot CPUs.

use crate::rules::prelude::*;

use super::common::{
    check_hot_cpus, cpu_list, cpu_mask_text, cpus_without, online_cpus, parse_cpu_mask,
};

const IRQ_FOLDER: &str = "/proc/irq";
const DEFAULT_AFFINITY_FILE: &str = "/proc/irq/default_smp_affinity";
/// Files of every interrupt; what else lies there is a folder for each driver that takes it
/// (kernel/irq/proc.c, register_handler_proc).
const OWN_IRQ_FILES: &[&str] = &[
    "affinity_hint",
    "effective_affinity",
    "effective_affinity_list",
    "node",
    "smp_affinity",
    "smp_affinity_list",
    "spurious",
];
/// Interrupts that are named.
const MAX_NAMED_INTERRUPTS: usize = 5;

pub(super) const IRQ_AFF: AuditRule = AuditRule {
    id: "IRQ-AFF",
    title: "devices interrupt hot CPUs",
    severity: Severity::Medium,
    why: "Each interrupt of a device takes its CPU for some µs, and the work that follows it (softirq) for longer.",
    risk: "The other CPUs take more interrupts; a network card that is fed by one queue a CPU loses throughput.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/core-api/irq/irq-affinity.rst; irqbalance(1)",
    causes: &[],
    check: RuleCheck::System(|look| check_hot_cpus(look, check_irq_aff)),
};

fn check_irq_aff(look: &SystemView<'_>, hot: &[u32]) -> CheckResult {
    let rest = cpus_without(&online_cpus(look), hot);
    let (default, read) = look.read(DEFAULT_AFFINITY_FILE);
    let irqs = look.numbered_files_in(IRQ_FOLDER);
    let (mut hit, mut reads, mut unread) = (Vec::new(), vec![read], irqs.is_empty());
    for irq in &irqs {
        let drivers = look.files_in(irq, |name| !OWN_IRQ_FILES.contains(&name));
        if drivers.is_empty() {
            continue; // nobody takes it: it does not come
        }
        match interrupted_cpus(look, irq) {
            Some(cpus) if cpus.iter().any(|cpu| hot.contains(cpu)) => {
                if hit.len() < MAX_NAMED_INTERRUPTS {
                    let names: Vec<&str> = drivers.iter().map(|d| last_path_part(d)).collect();
                    let value = format!("{} ({})", cpus::format_cpu_list(&cpus), names.join(", "));
                    reads.push(FileReading::new(irq.clone(), value));
                }
                hit.push(last_path_part(irq));
            }
            Some(_) => {}
            None => unread = true,
        }
    }
    // where interrupts go that are yet to come
    let later = default.text().and_then(parse_cpu_mask);
    let later_hot = later
        .as_ref()
        .is_some_and(|l| l.iter().any(|cpu| hot.contains(cpu)));
    let checked = if !hit.is_empty() {
        let said = format!(
            "{} interrupts go to CPUs {}",
            hit.len(),
            cpus::format_cpu_list(hot)
        );
        add_affinity_fixes(look, CheckResult::hazard(said), hot, &rest, &hit, later_hot)
    } else if later_hot {
        let said = format!(
            "new interrupts may go to CPUs {}",
            cpus::format_cpu_list(hot)
        );
        add_affinity_fixes(look, CheckResult::hazard(said), hot, &rest, &hit, true)
            .with_severity(Severity::Low)
    } else if irqs.is_empty() && default == FileValue::Absent {
        CheckResult::ok("this machine has no interrupts that can be steered")
    } else if unread || later.is_none() {
        CheckResult::unknown("where interrupts go can't be read")
    } else {
        CheckResult::ok("no interrupt goes to the hot CPUs")
    };
    checked.with_reads(reads)
}

fn last_path_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Where an interrupt goes: of the CPUs that it may go to the kernel chose these (from 4.13 on).
fn interrupted_cpus(look: &SystemView<'_>, irq: &str) -> Option<Vec<u32>> {
    match look.file(&format!("{irq}/effective_affinity_list")) {
        FileValue::Absent => match look.file(&format!("{irq}/smp_affinity_list")) {
            FileValue::Absent => None,
            allowed => cpu_list(&allowed),
        },
        effective => cpu_list(&effective),
    }
}

fn add_affinity_fixes(
    look: &SystemView<'_>,
    checked: CheckResult,
    hot: &[u32],
    rest: &[u32],
    hit: &[&str],
    later: bool,
) -> CheckResult {
    if rest.is_empty() {
        return checked.with_advice("leave a CPU to the kernel");
    }
    let mut checked = checked;
    let others = cpus::format_cpu_list(rest);
    if !hit.is_empty() {
        // No setting that lasts: the next start may number them otherwise. Those that the kernel keeps to
        // itself (queues of NVMe) refuse.
        checked = checked.with_fix(Fix::Command(format!(
            "for irq in {}; do echo {others} > /proc/irq/$irq/smp_affinity_list; done",
            hit.join(" ")
        )));
        checked = checked.with_note(
            "interrupts of NVMe and other queues that the kernel manages refuse to be moved: isolcpus=managed_irq,… \
             keeps them away",
        );
    }
    if later {
        // for now; irqaffinity= makes it last
        checked = checked.with_fix(Fix::Command(format!(
            "echo {} > {DEFAULT_AFFINITY_FILE}",
            cpu_mask_text(rest)
        )));
    }
    checked = checked.with_fix(Fix::Cmdline(format!("irqaffinity={others}")));
    if look.is_running("irqbalance") {
        checked = checked.with_advice(format!(
            "irqbalance: IRQBALANCE_BANNED_CPULIST={} in /etc/default/irqbalance or /etc/sysconfig/irqbalance",
            cpus::format_cpu_list(hot)
        ));
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");
    const FREE: (&str, &str) = (DEFAULT_AFFINITY_FILE, "f3");

    /// Check that an interrupt that goes to a hot CPU is a hazard, and one without a driver is none.
    #[test]
    fn interrupts_of_hot_cpus() {
        let files = [
            ISOLATED,
            (DEFAULT_AFFINITY_FILE, "ff"),
            ("/proc/irq/24/effective_affinity_list", "2"),
            ("/proc/irq/24/smp_affinity_list", "0-7"),
            ("/proc/irq/24/eth0/x", ""),
            ("/proc/irq/25/effective_affinity_list", "0"),
            ("/proc/irq/25/disk/x", ""),
            ("/proc/irq/3/effective_affinity_list", "3"),
            ("/proc/9/comm", "irqbalance"),
        ];
        let found = ask_rule_on(&IRQ_AFF, &files);
        assert_hazard(
            &found,
            "for irq in 24; do echo 0-1,4-7 > /proc/irq/$irq/smp_affinity_list; done\n\
             echo f3 > /proc/irq/default_smp_affinity",
            "kernel command line: irqaffinity=0-1,4-7\n\
             irqbalance: IRQBALANCE_BANNED_CPULIST=2-3 in /etc/default/irqbalance or /etc/sysconfig/irqbalance",
        );
        assert_eq!(found.read[1].value, "2 (eth0)");
        assert_eq!(
            status_on(&IRQ_AFF, &files[1..]),
            FindingStatus::Ok,
            "no hot CPU"
        );
    }

    /// Check that what may come later is a smaller hazard, and where all go elsewhere there is none.
    #[test]
    fn others() {
        let elsewhere = [
            ("/proc/irq/24/effective_affinity_list", "0"),
            ("/proc/irq/24/eth0/x", ""),
        ];
        let with = |default| [ISOLATED, default, elsewhere[0], elsewhere[1]];
        assert_eq!(status_on(&IRQ_AFF, &with(FREE)), FindingStatus::Ok);
        let later = ask_rule_on(&IRQ_AFF, &with((DEFAULT_AFFINITY_FILE, "ff")));
        assert_eq!(
            (later.status, later.severity),
            (FindingStatus::Hazard, Severity::Low)
        );
        let old = [
            ISOLATED,
            FREE,
            ("/proc/irq/24/smp_affinity_list", "0-7"),
            elsewhere[1],
        ];
        assert_eq!(
            status_on(&IRQ_AFF, &old),
            FindingStatus::Hazard,
            "before 4.13"
        );
        let garbage = [
            ISOLATED,
            FREE,
            ("/proc/irq/24/effective_affinity_list", "x"),
            elsewhere[1],
        ];
        assert_eq!(status_on(&IRQ_AFF, &garbage), FindingStatus::Unknown);
        assert_eq!(
            status_on(&IRQ_AFF, &[ISOLATED, FREE]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&IRQ_AFF, &[ISOLATED]),
            FindingStatus::Ok,
            "none to steer"
        );
    }
}
