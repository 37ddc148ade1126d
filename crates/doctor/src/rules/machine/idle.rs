//! CPU-IDLE: idle CPUs that sleep deeply.

use crate::rules::prelude::*;

use super::common::{kernel_parameter, online_cpus};

const CPU_FOLDER: &str = "/sys/devices/system/cpu";
const IDLE_DRIVER_FILE: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const DMA_LATENCY_FILE: &str = "/dev/cpu_dma_latency";
/// µs to wake up that are no deep sleep: C1 takes 1 to 3 (drivers/idle/intel_idle.c).
const MAX_SHALLOW_WAKE_UP_US: i64 = 3;
/// States that are named.
const MAX_NAMED_STATES: usize = 5;

pub(super) const CPU_IDLE: AuditRule = AuditRule {
    id: "CPU-IDLE",
    title: "idle CPUs sleep deeply",
    severity: Severity::Medium,
    why: "An interrupt to a CPU that sleeps, and so a shootdown or the wake-up of a thread, waits until it has \
          left its sleep, which takes up to hundreds of µs.",
    risk: "More power and heat; other cores may reach less of their highest clock.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile latency-performance (force_latency); kernel \
             Documentation/admin-guide/pm/cpuidle.rst",
    causes: &[],
    check: RuleCheck::System(check_cpu_idle),
};

fn check_cpu_idle(look: &SystemView<'_>) -> CheckResult {
    let (driver, read) = look.read(IDLE_DRIVER_FILE);
    let checked = match &driver {
        FileValue::Absent => CheckResult::ok("this kernel has no driver of sleep states"),
        FileValue::Refused(_) => CheckResult::unknown("the driver of sleep states can't be read"),
        FileValue::Text(name) if name == "none" => {
            CheckResult::ok("no driver of sleep states: idle CPUs halt, and sleep no deeper")
        }
        FileValue::Text(_)
            if kernel_parameter(&look.kernel_parameters(), "idle") == Some("poll") =>
        {
            CheckResult::ok("idle CPUs poll (idle=poll)")
        }
        FileValue::Text(name) => check_sleep_states(look, name),
    };
    checked.with_reads([read])
}

/// Judges the sleep states of the CPUs that nobody is to disturb ([`SystemView::hot_cpus`]), or of all where there are none.
fn check_sleep_states(look: &SystemView<'_>, driver: &str) -> CheckResult {
    let hot = look.hot_cpus();
    let cpus = if hot.is_empty() {
        online_cpus(look)
    } else {
        hot.clone()
    };
    let held = held_wake_up_limit(look);
    let (mut reads, mut deep, mut seen, mut unread) = (vec![held.1], Vec::new(), 0_usize, false);
    let governor = slow_governor(look, &cpus);
    for cpu in cpus {
        let limit = held.0.min(resume_limit(look, cpu));
        let mut sleeps = false;
        for state in look.files_in(&format!("{CPU_FOLDER}/cpu{cpu}/cpuidle"), |n| {
            n.starts_with("state")
        }) {
            let (latency, read) = look.read(&format!("{state}/latency"));
            let disable = look.file(&format!("{state}/disable"));
            let (Some(latency), Some(disable)) = (latency.number(), disable.number()) else {
                unread = true;
                continue;
            };
            seen += 1;
            if disable == 0 && latency > MAX_SHALLOW_WAKE_UP_US && latency <= limit {
                sleeps = true;
                if reads.len() <= MAX_NAMED_STATES {
                    reads.push(read);
                }
            }
        }
        if sleeps {
            deep.push(cpu);
        }
    }
    let checked = if !deep.is_empty() {
        deep_sleep_hazard(look, driver, &deep, !hot.is_empty())
    } else if unread || seen == 0 {
        CheckResult::unknown("the sleep states can't be read")
    } else {
        CheckResult::ok(format!(
            "no sleep takes more than {MAX_SHALLOW_WAKE_UP_US} µs to leave"
        ))
    };
    let checked = match governor {
        None => checked,
        Some(other) => checked.with_note(format!(
            "scaling_governor is '{other}': 'performance' keeps the clock up"
        )),
    };
    checked.with_reads(reads)
}

/// The first governor of these CPUs that lets the clock sink; `None` where there is none, or no governor at all.
fn slow_governor(look: &SystemView<'_>, cpus: &[u32]) -> Option<String> {
    cpus.iter().find_map(|cpu| {
        let file = look.file(&format!("{CPU_FOLDER}/cpu{cpu}/cpufreq/scaling_governor"));
        let text = file.text()?;
        (text != "performance").then(|| text.to_owned())
    })
}

fn deep_sleep_hazard(look: &SystemView<'_>, driver: &str, deep: &[u32], hot: bool) -> CheckResult {
    let which = cpus::format_cpu_list(deep);
    let mut checked = CheckResult::hazard(format!(
        "CPUs {which} may sleep so that they take more than {MAX_SHALLOW_WAKE_UP_US} µs to wake up ({driver})"
    ));
    let limits = deep.iter().map(|&cpu| resume_path(cpu));
    // of single CPUs from 4.x on (Documentation/ABI/testing/sysfs-devices-power)
    for path in limits.filter(|path| hot && look.file(path) != FileValue::Absent) {
        checked = checked.with_fix(Fix::set_file(path, MAX_SHALLOW_WAKE_UP_US.to_string()));
    }
    checked = checked.with_advice(format!(
        "program: hold {DMA_LATENCY_FILE} open, with 0 written to it, while it runs"
    ));
    // without intel_idle the firmware's states are used instead (drivers/acpi/processor_idle.c)
    let parameters: &[&str] = match driver {
        "intel_idle" => &["intel_idle.max_cstate=0", "processor.max_cstate=1"],
        "acpi_idle" => &["processor.max_cstate=1"],
        _ => &["cpuidle.off=1"],
    };
    for parameter in parameters {
        checked = checked.with_fix(Fix::Cmdline((*parameter).to_owned()));
    }
    checked
}

/// How long a wake-up may take, of all CPUs, as programs that hold the file open ask for it: four bytes of a
/// number (kernel/power/qos.c). The kernel's own is 2000 s; from 128 µs on it is no UTF-8 and comes out changed,
/// which is no limit that would help.
fn held_wake_up_limit(look: &SystemView<'_>) -> (i64, FileReading) {
    let value = look.file(DMA_LATENCY_FILE);
    let bytes = value.text().map(str::as_bytes);
    let limit = bytes.and_then(|b| <[u8; 4]>::try_from(b).ok());
    let limit = limit.map(|b| i64::from(i32::from_ne_bytes(b)));
    let shown = match (&value, limit) {
        (_, Some(us)) => format!("{us} µs"),
        (FileValue::Text(_), None) => "no limit below 128 µs".to_owned(),
        (FileValue::Absent, _) => "(absent)".to_owned(),
        (FileValue::Refused(why), _) => format!("({why})"),
    };
    (
        limit.unwrap_or(i64::MAX),
        FileReading::new(DMA_LATENCY_FILE, shown),
    )
}

fn resume_path(cpu: u32) -> String {
    format!("{CPU_FOLDER}/cpu{cpu}/power/pm_qos_resume_latency_us")
}

/// The same of one CPU: 0 stands for no limit, and `n/a` for none at all.
fn resume_limit(look: &SystemView<'_>, cpu: u32) -> i64 {
    let value = look.file(&resume_path(cpu));
    match (value.text(), value.number()) {
        (Some("n/a"), _) => 0,
        (_, Some(us)) if us > 0 => us,
        _ => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, assert_hazard, status_on};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2");
    const RESUME: &str = "/sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us";
    const GOVERNOR: &str = "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor";

    fn machine(disable: &'static str) -> Vec<(&'static str, &'static str)> {
        vec![
            ISOLATED,
            (IDLE_DRIVER_FILE, "intel_idle"),
            ("/sys/devices/system/cpu/cpu2/cpuidle/state1/latency", "2"),
            ("/sys/devices/system/cpu/cpu2/cpuidle/state1/disable", "0"),
            ("/sys/devices/system/cpu/cpu2/cpuidle/state3/latency", "133"),
            (
                "/sys/devices/system/cpu/cpu2/cpuidle/state3/disable",
                disable,
            ),
            (RESUME, "0"),
        ]
    }

    /// Check that a deep state of a hot CPU is a hazard, with a limit for that CPU.
    #[test]
    fn deep_is_a_hazard() {
        let mut files = machine("0");
        // The CPU that nobody is to disturb counts, and not the first.
        files.push((GOVERNOR, "powersave"));
        files.push((
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "ondemand",
        ));
        let found = ask_rule_on(&CPU_IDLE, &files);
        assert_hazard(
            &found,
            "echo 3 > /sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us",
            "tmpfiles.d: w /sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us - - - - 3\n\
             program: hold /dev/cpu_dma_latency open, with 0 written to it, while it runs\n\
             kernel command line: intel_idle.max_cstate=0\nkernel command line: processor.max_cstate=1",
        );
        assert!(found.notes[0].contains("powersave"), "{:?}", found.notes);
    }

    /// Check that a state that is disabled, or that a limit forbids, is none.
    #[test]
    fn limits_count() {
        assert_eq!(status_on(&CPU_IDLE, &machine("1")), FindingStatus::Ok);
        for (path, text, expected) in [
            (DMA_LATENCY_FILE, "\0\0\0\0", FindingStatus::Ok),
            (DMA_LATENCY_FILE, "\x03\0\0\0", FindingStatus::Ok),
            (DMA_LATENCY_FILE, "\0\u{fffd}5w", FindingStatus::Hazard),
            (RESUME, "n/a", FindingStatus::Ok),
            (RESUME, "3", FindingStatus::Ok),
            (RESUME, "200", FindingStatus::Hazard),
            ("/proc/cmdline", "idle=poll", FindingStatus::Ok),
        ] {
            let mut files = machine("0");
            files.push((path, text));
            assert_eq!(status_on(&CPU_IDLE, &files), expected, "{path} {text:?}");
        }
    }

    /// Check that a machine without sleep states is fine, and one whose states can't be read is unknown.
    #[test]
    fn without_states() {
        assert_eq!(
            status_on(&CPU_IDLE, &[(IDLE_DRIVER_FILE, "none")]),
            FindingStatus::Ok
        );
        assert_eq!(status_on(&CPU_IDLE, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&CPU_IDLE, &[(IDLE_DRIVER_FILE, "acpi_idle")]),
            FindingStatus::Unknown
        );
    }
}
