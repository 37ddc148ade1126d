//! IRQ-AFF: devices interrupt hot CPUs.

use quell_host::cpus;

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

use super::common::{cpu_list, for_hot, mask, mask_text, online, without};

const FOLDER: &str = "/proc/irq";
const DEFAULT: &str = "/proc/irq/default_smp_affinity";
/// Files of every interrupt; what else lies there is a folder for each driver that takes it
/// (kernel/irq/proc.c, register_handler_proc).
const OWN: &[&str] = &[
    "affinity_hint",
    "effective_affinity",
    "effective_affinity_list",
    "node",
    "smp_affinity",
    "smp_affinity_list",
    "spurious",
];
/// Interrupts that are named.
const NAMED: usize = 5;

pub(super) const RULE: Rule = Rule {
    id: "IRQ-AFF",
    title: "devices interrupt hot CPUs",
    severity: Severity::Medium,
    why: "Each interrupt of a device takes its CPU for some µs, and the work that follows it (softirq) for longer.",
    risk: "The other CPUs take more interrupts; a network card that is fed by one queue a CPU loses throughput.",
    source: "github.com/bitcharmer/tlb_shootdowns; kernel Documentation/core-api/irq/irq-affinity.rst; irqbalance(1)",
    causes: &[],
    check: Check::System(|look| for_hot(look, check)),
};

fn check(look: &Look<'_>, hot: &[u32]) -> Checked {
    let rest = without(&online(look), hot);
    let (default, read) = look.read(DEFAULT);
    let irqs = look.numbered(FOLDER);
    let (mut hit, mut reads, mut unread) = (Vec::new(), vec![read], irqs.is_empty());
    for irq in &irqs {
        let drivers = look.list(irq, |name| !OWN.contains(&name));
        if drivers.is_empty() {
            continue; // nobody takes it: it does not come
        }
        match goes_to(look, irq) {
            Some(cpus) if cpus.iter().any(|cpu| hot.contains(cpu)) => {
                if hit.len() < NAMED {
                    let names: Vec<&str> = drivers.iter().map(|d| last(d)).collect();
                    let value = format!("{} ({})", cpus::text(&cpus), names.join(", "));
                    reads.push(Read::new(irq.clone(), value));
                }
                hit.push(last(irq));
            }
            Some(_) => {}
            None => unread = true,
        }
    }
    // where interrupts go that are yet to come
    let later = default.text().and_then(mask);
    let later_hot = later
        .as_ref()
        .is_some_and(|l| l.iter().any(|cpu| hot.contains(cpu)));
    let checked = if !hit.is_empty() {
        let said = format!("{} interrupts go to CPUs {}", hit.len(), cpus::text(hot));
        fixes(look, Checked::hazard(said), hot, &rest, &hit, later_hot)
    } else if later_hot {
        let said = format!("new interrupts may go to CPUs {}", cpus::text(hot));
        fixes(look, Checked::hazard(said), hot, &rest, &hit, true).severity(Severity::Low)
    } else if irqs.is_empty() && default == Value::Absent {
        Checked::ok("this machine has no interrupts that can be steered")
    } else if unread || later.is_none() {
        Checked::unknown("where interrupts go can't be read")
    } else {
        Checked::ok("no interrupt goes to the hot CPUs")
    };
    checked.read(reads)
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Where an interrupt goes: of the CPUs that it may go to the kernel chose these (from 4.13 on).
fn goes_to(look: &Look<'_>, irq: &str) -> Option<Vec<u32>> {
    match look.file(&format!("{irq}/effective_affinity_list")) {
        Value::Absent => match look.file(&format!("{irq}/smp_affinity_list")) {
            Value::Absent => None,
            allowed => cpu_list(&allowed),
        },
        effective => cpu_list(&effective),
    }
}

fn fixes(
    look: &Look<'_>,
    checked: Checked,
    hot: &[u32],
    rest: &[u32],
    hit: &[&str],
    later: bool,
) -> Checked {
    if rest.is_empty() {
        return checked.fix(Fix::Advice("leave a CPU to the kernel".to_owned()));
    }
    let mut checked = checked;
    let others = cpus::text(rest);
    if !hit.is_empty() {
        // No setting that lasts: the next start may number them otherwise. Those that the kernel keeps to
        // itself (queues of NVMe) refuse.
        checked = checked.fix(Fix::Command(format!(
            "for irq in {}; do echo {others} > /proc/irq/$irq/smp_affinity_list; done",
            hit.join(" ")
        )));
        checked = checked.note(
            "interrupts of NVMe and other queues that the kernel manages refuse to be moved: isolcpus=managed_irq,… \
             keeps them away",
        );
    }
    if later {
        // for now; irqaffinity= makes it last
        checked = checked.fix(Fix::Command(format!(
            "echo {} > {DEFAULT}",
            mask_text(rest)
        )));
    }
    checked = checked.fix(Fix::Cmdline(format!("irqaffinity={others}")));
    if look.runs("irqbalance") {
        checked = checked.fix(Fix::Advice(format!(
            "irqbalance: IRQBALANCE_BANNED_CPULIST={} in /etc/default/irqbalance or /etc/sysconfig/irqbalance",
            cpus::text(hot)
        )));
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2-3");
    const FREE: (&str, &str) = (DEFAULT, "f3");

    /// Check that an interrupt that goes to a hot CPU is a hazard, and one without a driver is none.
    #[test]
    fn interrupts_of_hot_cpus() {
        let files = [
            ISOLATED,
            (DEFAULT, "ff"),
            ("/proc/irq/24/effective_affinity_list", "2"),
            ("/proc/irq/24/smp_affinity_list", "0-7"),
            ("/proc/irq/24/eth0/x", ""),
            ("/proc/irq/25/effective_affinity_list", "0"),
            ("/proc/irq/25/disk/x", ""),
            ("/proc/irq/3/effective_affinity_list", "3"),
            ("/proc/9/comm", "irqbalance"),
        ];
        let found = ask(&RULE, &files);
        assert_hazard(
            &found,
            "for irq in 24; do echo 0-1,4-7 > /proc/irq/$irq/smp_affinity_list; done\n\
             echo f3 > /proc/irq/default_smp_affinity",
            "kernel command line: irqaffinity=0-1,4-7\n\
             irqbalance: IRQBALANCE_BANNED_CPULIST=2-3 in /etc/default/irqbalance or /etc/sysconfig/irqbalance",
        );
        assert_eq!(found.read[1].value, "2 (eth0)");
        assert_eq!(status(&RULE, &files[1..]), Status::Ok, "no hot CPU");
    }

    /// Check that what may come later is a smaller hazard, and where all go elsewhere there is none.
    #[test]
    fn others() {
        let elsewhere = [
            ("/proc/irq/24/effective_affinity_list", "0"),
            ("/proc/irq/24/eth0/x", ""),
        ];
        let with = |default| [ISOLATED, default, elsewhere[0], elsewhere[1]];
        assert_eq!(status(&RULE, &with(FREE)), Status::Ok);
        let later = ask(&RULE, &with((DEFAULT, "ff")));
        assert_eq!(
            (later.status, later.severity),
            (Status::Hazard, Severity::Low)
        );
        let old = [
            ISOLATED,
            FREE,
            ("/proc/irq/24/smp_affinity_list", "0-7"),
            elsewhere[1],
        ];
        assert_eq!(status(&RULE, &old), Status::Hazard, "before 4.13");
        let garbage = [
            ISOLATED,
            FREE,
            ("/proc/irq/24/effective_affinity_list", "x"),
            elsewhere[1],
        ];
        assert_eq!(status(&RULE, &garbage), Status::Unknown);
        assert_eq!(status(&RULE, &[ISOLATED, FREE]), Status::Unknown);
        assert_eq!(status(&RULE, &[ISOLATED]), Status::Ok, "none to steer");
    }
}
