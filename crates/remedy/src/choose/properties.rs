//! Properties that hold for any evidence.

use super::*;
use proptest::prelude::*;

fn any_cause() -> impl Strategy<Value = Cause> {
    (0..Cause::ALL.len()).prop_map(|i| Cause::ALL[i])
}

proptest! {
    /// Check for any evidence that shares are shares, that each change has evidence and a cost, that the plan is read back as it was, that
    /// the library keeps no more memory than the budget allows, and that its settings don't depend on the remedies' order.
    #[test]
    fn plans_hold_for_any_evidence(
        causes in proptest::collection::vec((any_cause(), 0..4usize, 1..5000u64), 0..8),
        rss in proptest::option::of(1..1u64 << 40),
        faults in proptest::option::of(0..1u64 << 40),
        cpus in proptest::option::of(1..256u32),
        budget in 0.0..2.0f64,
    ) {
        let modules = ["", APP, LIBC, "/opt/libmimalloc.so"];
        let sources: Vec<ShootdownSource> =
            causes.iter().map(|(c, m, n)| source(*c, modules[*m], *n)).collect();
        let mut evidence = seen(&sources);
        evidence.max_rss = rss;
        evidence.page_faults = faults;
        evidence.cpus = cpus;
        let found = [
            libc(),
            found(SoftwareKind::Jemalloc, APP, Linking::Static, Version::exact(5, 3, 1)),
            found(SoftwareKind::Mimalloc, "/opt/libmimalloc.so", Linking::Static, Version::exact(2, 2, 7)),
        ];
        let plan = chosen(&found, &evidence, budget);
        prop_assert!((0.0..=1.0).contains(&plan.predicted_stop()));
        for remedy in &plan.remedies {
            prop_assert!((0.0..=1.0).contains(&remedy.predicted_stop));
            prop_assert!(!remedy.evidence.is_empty() && !remedy.cost.is_empty());
        }
        prop_assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan.clone());
        let mut turned = plan.clone();
        turned.remedies.reverse();
        let library = |plan: &Plan| plan.environment(&|_| None).remove("QUELL_SHIM");
        prop_assert_eq!(library(&turned), library(&plan));
        if let (Some(rss), Some(shim)) = (rss, plan.environment(&|_| None).get("QUELL_SHIM")) {
            let sizes = shim.split(',').filter_map(|s| s.strip_prefix("rss=")?.strip_suffix('M'));
            for size in sizes {
                let bytes = size.parse::<u64>().unwrap() << 20;
                prop_assert!(bytes as f64 <= rss as f64 * (1.0 + budget) + 1.0);
            }
        }
    }
}
