//! SYS-HUGEPOOL: huge pages are taken from the free memory of a running machine.

use crate::rules::prelude::*;

use super::common;

const POOLS_FOLDER: &str = "/sys/kernel/mm/hugepages";
/// Every kernel with pools has it.
const OVERCOMMIT_FILE: &str = "/proc/sys/vm/nr_overcommit_hugepages";
/// Huge pages that were asked of free memory: for a fault beyond the pool, or to make the pool larger.
const POOL_GROWTH_COUNTERS: [&str; 2] = ["htlb_buddy_alloc_success", "htlb_buddy_alloc_fail"];

pub(super) const SYS_HUGEPOOL: AuditRule = AuditRule {
    id: "SYS-HUGEPOOL",
    title: "huge pages beyond the pool",
    severity: Severity::Medium,
    why: "A huge page that the pool does not have is made when it is asked for: the program compacts memory \
          meanwhile, which moves pages of others with shootdowns.",
    risk: "Memory of the pool serves nothing else; without overcommit a program that asks for more is refused.",
    source: "kernel Documentation/admin-guide/mm/hugetlbpage.rst; github.com/bitcharmer/tlb_shootdowns; \
             johnnysswlab.com and jabperf.com",
    causes: &[],
    check: RuleCheck::System(check_sys_hugepool),
};

fn check_sys_hugepool(look: &SystemView<'_>) -> CheckResult {
    let (mut reads, mut said, mut unread) = (Vec::new(), Vec::new(), false);
    let (mut beyond, mut reserve) = (Vec::new(), Vec::new());
    let pools = look.files_in(POOLS_FOLDER, |name| name.starts_with("hugepages-"));
    for folder in &pools {
        let path = format!("{folder}/nr_overcommit_hugepages");
        let (more, first) = look.read(&path);
        let (has, second) = look.read(&format!("{folder}/nr_hugepages"));
        reads.extend([first, second]);
        let size = page_size_word(folder);
        let pages = has.number().unwrap_or(0);
        match more.number() {
            Some(0) => {}
            Some(n) => {
                said.push(format!("{n} pages of {size} beyond the pool of {pages}"));
                beyond.push(Fix::set_file(path, "0"));
            }
            None => unread = true,
        }
        if pages > 0 {
            reserve.push(Fix::Cmdline(format!("hugepagesz={size} hugepages={pages}")));
        }
    }
    if reserve.is_empty() {
        let advice = "kernel command line: reserve as many as the program needs, such as hugepagesz=1G hugepages=N";
        reserve.push(Fix::Advice(advice.to_owned()));
    }
    let taken = common::total_growth(look, &POOL_GROWTH_COUNTERS).filter(|&n| n > 0);
    let checked = if !said.is_empty() {
        let hazard = CheckResult::hazard(format!("may be taken: {}", said.join(", ")));
        hazard.with_fixes(beyond).with_fixes(reserve)
    } else if taken.is_some() {
        CheckResult::hazard("a pool was made larger while the machine ran").with_fixes(reserve)
    } else if unread {
        CheckResult::unknown("the settings can't be read")
    } else if !pools.is_empty() {
        CheckResult::ok("the pools are all there is")
    } else {
        let (any, read) = look.read(OVERCOMMIT_FILE);
        reads.push(read);
        match any {
            FileValue::Absent => CheckResult::ok("this kernel has no pools of huge pages"),
            FileValue::Text(_) | FileValue::Refused(_) => {
                CheckResult::unknown("the pools can't be seen")
            }
        }
    };
    checked
        .with_reads(reads)
        .with_harm_counters(&POOL_GROWTH_COUNTERS)
}

/// As the command line of the kernel names it: `2M` of `hugepages-2048kB`.
fn page_size_word(folder: &str) -> String {
    let name = folder.rsplit("hugepages-").next().unwrap_or_default();
    match name.trim_end_matches("kB").parse::<u64>() {
        Ok(kb) if kb % (1 << 20) == 0 => format!("{}G", kb >> 20),
        Ok(kb) if kb % (1 << 10) == 0 => format!("{}M", kb >> 10),
        Ok(kb) => format!("{kb}K"),
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::HarmEvidence;
    use crate::finding::FindingStatus;
    use crate::rules::fixture::{ask_rule_on, ask_rule_with, assert_hazard, status_on};

    const MORE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages";
    const HAS: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

    fn taken(n: u64) -> HarmEvidence {
        HarmEvidence {
            where_seen: "in 1.00 s".to_owned(),
            counter_growth: Some([(POOL_GROWTH_COUNTERS[0].to_owned(), n)].into()),
            ..HarmEvidence::default()
        }
    }

    /// Check that pages beyond the pool are a hazard, to be reserved when the machine starts.
    #[test]
    fn overcommit_is_a_hazard() {
        assert_hazard(
            &ask_rule_on(&SYS_HUGEPOOL, &[(MORE, "512"), (HAS, "64")]),
            "echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages",
            "tmpfiles.d: w /sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages - - - - 0\n\
             kernel command line: hugepagesz=2M hugepages=64",
        );
        assert_eq!(
            status_on(&SYS_HUGEPOOL, &[(MORE, "0"), (HAS, "64")]),
            FindingStatus::Ok
        );
        let found = ask_rule_on(&SYS_HUGEPOOL, &[(MORE, "512"), (HAS, "0")]);
        assert!(found.fix_lasting().contains("hugepages=N"), "{found:#?}");
    }

    /// Check that a pool that grew while somebody looked is one too.
    #[test]
    fn growth_is_a_hazard() {
        let files = [(MORE, "0"), (HAS, "64")];
        let found = ask_rule_with(&SYS_HUGEPOOL, &files, &taken(3));
        assert_hazard(
            &found,
            "",
            "kernel command line: hugepagesz=2M hugepages=64",
        );
        assert_eq!(
            ask_rule_with(&SYS_HUGEPOOL, &files, &taken(0)).status,
            FindingStatus::Ok
        );
    }

    /// Check that sizes have the kernel's names, and what can't be read is unknown.
    #[test]
    fn what_is_missing() {
        assert_eq!(page_size_word("/x/hugepages-1048576kB"), "1G");
        assert_eq!(page_size_word("/x/hugepages-64kB"), "64K");
        assert_eq!(status_on(&SYS_HUGEPOOL, &[]), FindingStatus::Ok);
        assert_eq!(
            status_on(&SYS_HUGEPOOL, &[(OVERCOMMIT_FILE, "0")]),
            FindingStatus::Unknown
        );
        assert_eq!(
            status_on(&SYS_HUGEPOOL, &[(MORE, "x")]),
            FindingStatus::Unknown
        );
    }
}
