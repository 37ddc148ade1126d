//! Where victim and culprit run, and where quell itself does not.

use anyhow::Context as _;
use quell_lab::pin;
use quell_lab::tsc::{self, TscQuality};

use crate::usage::usage;

/// Refuses a machine on which nothing can be timed, and says where the counter promises nothing.
pub(crate) fn check_counter() -> anyhow::Result<()> {
    match tsc::tsc_quality() {
        Ok(TscQuality::Promised) => Ok(()),
        Ok(TscQuality::Measured) => {
            say!(
                "quell: this CPU does not promise that its time stamp counter runs at one rate (flag nonstop_tsc); measured for \
                 a moment it did"
            );
            Ok(())
        }
        Err(why) => Err(usage(why)),
    }
}

/// Chooses the CPUs of the victim and of the culprit, and keeps quell off the victim's from now on.
pub(crate) fn take_cpus(victim: Option<u32>, culprit: Option<u32>) -> anyhow::Result<(u32, u32)> {
    let allowed = pin::allowed_cpus().context("can't ask which CPUs quell may use")?;
    let (victim, culprit) = choose_cpus(&allowed, victim, culprit).map_err(usage)?;
    let rest: Vec<u32> = allowed.into_iter().filter(|c| *c != victim).collect();
    pin::pin_self(&rest)?;
    Ok((victim, culprit))
}

fn choose_cpus(
    allowed: &[u32],
    victim: Option<u32>,
    culprit: Option<u32>,
) -> Result<(u32, u32), String> {
    for cpu in victim.iter().chain(&culprit) {
        if !allowed.contains(cpu) {
            let all = quell_host::cpus::format_cpu_list(allowed);
            return Err(format!("quell may not use CPU {cpu}: it has {all}"));
        }
    }
    let victim = match (victim, culprit) {
        (Some(victim), _) => Some(victim),
        (None, culprit) => allowed.iter().rev().find(|c| Some(**c) != culprit).copied(),
    };
    let culprit = culprit.or_else(|| allowed.iter().find(|c| Some(**c) != victim).copied());
    match (victim, culprit) {
        (Some(victim), Some(culprit)) if victim != culprit => Ok((victim, culprit)),
        (Some(_), Some(_)) => Err("victim and culprit need a CPU each".to_owned()),
        _ => Err(format!(
            "the lab takes two CPUs, and quell may use {} (taskset(1), cpuset)",
            allowed.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that victim and culprit get a CPU each, as asked for or the two ends, and that what can't be is said.
    #[test]
    fn each_gets_a_cpu() {
        let on = |v, c| choose_cpus(&[0, 1, 5], v, c);
        assert_eq!(on(None, None), Ok((5, 0)));
        assert_eq!(on(Some(0), None), Ok((0, 1)));
        assert_eq!(on(None, Some(5)), Ok((1, 5)));
        assert_eq!(on(Some(1), Some(5)), Ok((1, 5)));
        assert!(on(Some(1), Some(1)).is_err());
        assert!(on(Some(2), None).unwrap_err().contains("0-1,5"));
        assert!(
            choose_cpus(&[3], None, None)
                .unwrap_err()
                .contains("two CPUs")
        );
        assert!(choose_cpus(&[], None, None).is_err());
    }
}
