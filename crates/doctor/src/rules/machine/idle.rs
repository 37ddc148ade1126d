//! CPU-IDLE: idle CPUs that sleep deeply.

use crate::finding::{Read, Severity};
use crate::fix::Fix;
use crate::look::{Look, Value};
use crate::rule::{Check, Checked, Rule};

use super::common::{online, parameter};

const CPU: &str = "/sys/devices/system/cpu";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";
const LATENCY: &str = "/dev/cpu_dma_latency";
/// µs to wake up that are no deep sleep: C1 takes 1 to 3 (drivers/idle/intel_idle.c).
const SHALLOW: i64 = 3;
/// States that are named.
const NAMED: usize = 5;

pub(super) const RULE: Rule = Rule {
    id: "CPU-IDLE",
    title: "idle CPUs sleep deeply",
    severity: Severity::Medium,
    why: "An interrupt to a CPU that sleeps, and so a shootdown or the wake-up of a thread, waits until it has \
          left its sleep, which takes up to hundreds of µs.",
    risk: "More power and heat; other cores may reach less of their highest clock.",
    source: "github.com/bitcharmer/tlb_shootdowns; tuned profile latency-performance (force_latency); kernel \
             Documentation/admin-guide/pm/cpuidle.rst",
    causes: &[],
    check: Check::System(check),
};

fn check(look: &Look<'_>) -> Checked {
    let (driver, read) = look.read(DRIVER);
    let checked = match &driver {
        Value::Absent => Checked::ok("this kernel has no driver of sleep states"),
        Value::Refused(_) => Checked::unknown("the driver of sleep states can't be read"),
        Value::Text(name) if name == "none" => {
            Checked::ok("no driver of sleep states: idle CPUs halt, and sleep no deeper")
        }
        Value::Text(_) if parameter(&look.cmdline(), "idle") == Some("poll") => {
            Checked::ok("idle CPUs poll (idle=poll)")
        }
        Value::Text(name) => states(look, name),
    };
    checked.read([read])
}

/// Asks the states of the hot CPUs, or of all where there are none.
fn states(look: &Look<'_>, driver: &str) -> Checked {
    let hot = look.hot_cpus();
    let cpus = if hot.is_empty() {
        online(look)
    } else {
        hot.clone()
    };
    let held = held(look);
    let (mut reads, mut deep, mut seen, mut unread) = (vec![held.1], Vec::new(), 0_usize, false);
    for cpu in cpus {
        let limit = held.0.min(resume_limit(look, cpu));
        let mut sleeps = false;
        for state in look.list(&format!("{CPU}/cpu{cpu}/cpuidle"), |n| {
            n.starts_with("state")
        }) {
            let (latency, read) = look.read(&format!("{state}/latency"));
            let disable = look.file(&format!("{state}/disable"));
            let (Some(latency), Some(disable)) = (latency.number(), disable.number()) else {
                unread = true;
                continue;
            };
            seen += 1;
            if disable == 0 && latency > SHALLOW && latency <= limit {
                sleeps = true;
                if reads.len() <= NAMED {
                    reads.push(read);
                }
            }
        }
        if sleeps {
            deep.push(cpu);
        }
    }
    let checked = if !deep.is_empty() {
        hazard(look, driver, &deep, !hot.is_empty())
    } else if unread || seen == 0 {
        Checked::unknown("the sleep states can't be read")
    } else {
        Checked::ok(format!("no sleep takes more than {SHALLOW} µs to leave"))
    };
    let governor = look.file(&format!("{CPU}/cpu0/cpufreq/scaling_governor"));
    let checked = match governor.text() {
        Some("performance") | None => checked,
        Some(other) => checked.note(format!(
            "scaling_governor is '{other}': 'performance' keeps the clock up"
        )),
    };
    checked.read(reads)
}

fn hazard(look: &Look<'_>, driver: &str, deep: &[u32], hot: bool) -> Checked {
    let which = quell_host::cpus::text(deep);
    let mut checked = Checked::hazard(format!(
        "CPUs {which} may sleep so that they take more than {SHALLOW} µs to wake up ({driver})"
    ));
    let limits = deep.iter().map(|&cpu| resume_path(cpu));
    // of single CPUs from 4.x on (Documentation/ABI/testing/sysfs-devices-power)
    for path in limits.filter(|path| hot && look.file(path) != Value::Absent) {
        checked = checked.fix(Fix::write(path, SHALLOW.to_string()));
    }
    checked = checked.fix(Fix::Advice(format!(
        "program: hold {LATENCY} open, with 0 written to it, while it runs"
    )));
    // without intel_idle the firmware's states are used instead (drivers/acpi/processor_idle.c)
    let parameters: &[&str] = match driver {
        "intel_idle" => &["intel_idle.max_cstate=0", "processor.max_cstate=1"],
        "acpi_idle" => &["processor.max_cstate=1"],
        _ => &["cpuidle.off=1"],
    };
    for parameter in parameters {
        checked = checked.fix(Fix::Cmdline((*parameter).to_owned()));
    }
    checked
}

/// How long a wake-up may take, of all CPUs, as programs that hold the file open ask for it: four bytes of a
/// number (kernel/power/qos.c). The kernel's own is 2000 s; from 128 µs on it is no UTF-8 and comes out changed,
/// which is no limit that would help.
fn held(look: &Look<'_>) -> (i64, Read) {
    let value = look.file(LATENCY);
    let bytes = value.text().map(str::as_bytes);
    let limit = bytes.and_then(|b| <[u8; 4]>::try_from(b).ok());
    let limit = limit.map(|b| i64::from(i32::from_ne_bytes(b)));
    let shown = match (&value, limit) {
        (_, Some(us)) => format!("{us} µs"),
        (Value::Text(_), None) => "no limit below 128 µs".to_owned(),
        (Value::Absent, _) => "(absent)".to_owned(),
        (Value::Refused(why), _) => format!("({why})"),
    };
    (limit.unwrap_or(i64::MAX), Read::new(LATENCY, shown))
}

fn resume_path(cpu: u32) -> String {
    format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us")
}

/// The same of one CPU: 0 stands for no limit, and `n/a` for none at all.
fn resume_limit(look: &Look<'_>, cpu: u32) -> i64 {
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
    use crate::finding::Status;
    use crate::rules::fixture::{ask, assert_hazard, status};

    const ISOLATED: (&str, &str) = ("/sys/devices/system/cpu/isolated", "2");
    const RESUME: &str = "/sys/devices/system/cpu/cpu2/power/pm_qos_resume_latency_us";
    const GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

    fn machine(disable: &'static str) -> Vec<(&'static str, &'static str)> {
        vec![
            ISOLATED,
            (DRIVER, "intel_idle"),
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
        files.push((GOVERNOR, "powersave"));
        let found = ask(&RULE, &files);
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
        assert_eq!(status(&RULE, &machine("1")), Status::Ok);
        for (path, text, expected) in [
            (LATENCY, "\0\0\0\0", Status::Ok),
            (LATENCY, "\x03\0\0\0", Status::Ok),
            (LATENCY, "\0\u{fffd}5w", Status::Hazard),
            (RESUME, "n/a", Status::Ok),
            (RESUME, "3", Status::Ok),
            (RESUME, "200", Status::Hazard),
            ("/proc/cmdline", "idle=poll", Status::Ok),
        ] {
            let mut files = machine("0");
            files.push((path, text));
            assert_eq!(status(&RULE, &files), expected, "{path} {text:?}");
        }
    }

    /// Check that a machine without sleep states is fine, and one whose states can't be read is unknown.
    #[test]
    fn without_states() {
        assert_eq!(status(&RULE, &[(DRIVER, "none")]), Status::Ok);
        assert_eq!(status(&RULE, &[]), Status::Ok);
        assert_eq!(status(&RULE, &[(DRIVER, "acpi_idle")]), Status::Unknown);
    }
}
