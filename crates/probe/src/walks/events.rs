//! The events that count TLB misses, by processor.

use quell_host::cpus::ProcessorModel;

/// The types of events (include/uapi/linux/perf_event.h).
const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_HW_CACHE: u32 = 3;
const PERF_TYPE_RAW: u32 = 4;

/// An event, as perf_event_open(2) takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CounterEvent {
    pub(super) kind: u32,
    pub(super) config: u64,
}

/// PERF_COUNT_HW_CPU_CYCLES.
pub(super) const CYCLES_EVENT: CounterEvent = CounterEvent {
    kind: PERF_TYPE_HARDWARE,
    config: 0,
};

/// The kernel's own names for misses that take a walk, for loads, stores and code: PERF_COUNT_HW_CACHE_DTLB is 3 and ITLB
/// 4, a read is 0 and a write 1 << 8, a miss 1 << 16. They count on Intel completed walks (arch/x86/events/intel/core.c), on
/// AMD misses of the second level, stores among the loads (arch/x86/events/amd/core.c).
pub(super) const MISS_EVENTS: [CounterEvent; 3] =
    [miss_event(3), miss_event(3 | 1 << 8), miss_event(4)];

const fn miss_event(which: u64) -> CounterEvent {
    CounterEvent {
        kind: PERF_TYPE_HW_CACHE,
        config: which | 1 << 16,
    }
}

/// An event of Intel's: its number, the mask of its units, and how much at least must happen in a cycle that counts.
const fn intel_event(number: u64, units: u64, at_least: u64) -> CounterEvent {
    CounterEvent {
        kind: PERF_TYPE_RAW,
        config: number | units << 8 | at_least << 24,
    }
}

/// The models of family 6, grouped by their events. Numbers of models are those of arch/x86/include/asm/intel-family.h.
const HASWELL_TO_BROADWELL: [u32; 8] = [0x3c, 0x45, 0x46, 0x3f, 0x3d, 0x47, 0x4f, 0x56];
const SKYLAKE_TO_ICE_LAKE: [u32; 15] = [
    0x4e, 0x5e, 0x8e, 0x9e, 0x55, 0xa5, 0xa6,
    0x66, // Skylake to Comet Lake, and their servers
    0x7d, 0x7e, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7, // Ice Lake, Tiger Lake, Rocket Lake
];
const SAPPHIRE_RAPIDS: [u32; 2] = [0x8f, 0xcf];

/// The events that count the cycles of page walks, for loads, stores and code; `None` for a processor whose events are not
/// known here.
///
/// They are the events `DTLB_LOAD_MISSES`, `DTLB_STORE_MISSES` and `ITLB_MISSES` of Intel's lists, as the kernel has them in
/// tools/perf/pmu-events/arch/x86/ (broadwellx, skylakex, icelakex, sapphirerapids: virtual-memory.json). `WALK_DURATION`
/// counts the cycles of one walker; from Skylake on there are two, and `WALK_ACTIVE` counts cycles in which one of them is
/// busy at least. AMD tells how many walks there are, and not how long they take.
pub(super) fn walk_cycles(model: &ProcessorModel) -> Option<[CounterEvent; 3]> {
    if model.vendor != "GenuineIntel" || model.family != 6 {
        return None;
    }
    let is_in = |models: &[u32]| models.contains(&model.model);
    if is_in(&HASWELL_TO_BROADWELL) {
        return Some([0x08, 0x49, 0x85].map(|number| intel_event(number, 0x10, 0)));
    }
    if is_in(&SKYLAKE_TO_ICE_LAKE) {
        return Some([0x08, 0x49, 0x85].map(|number| intel_event(number, 0x10, 1)));
    }
    is_in(&SAPPHIRE_RAPIDS).then(|| [0x12, 0x13, 0x11].map(|number| intel_event(number, 0x10, 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that events are those of the lists, and that for a processor which is not in them none is guessed.
    #[test]
    fn events_of_processors() {
        let of = |vendor: &str, family, model| {
            let model = ProcessorModel {
                vendor: vendor.into(),
                family,
                model,
            };
            walk_cycles(&model).map(|events| events.map(|e| e.config))
        };
        assert_eq!(of("GenuineIntel", 6, 0x4f), Some([0x1008, 0x1049, 0x1085]));
        let skylake = Some([0x0100_1008, 0x0100_1049, 0x0100_1085]);
        assert_eq!(of("GenuineIntel", 6, 0x55), skylake);
        assert_eq!(of("GenuineIntel", 6, 0x6a), skylake);
        let sapphire = Some([0x0100_1012, 0x0100_1013, 0x0100_1011]);
        assert_eq!(of("GenuineIntel", 6, 0x8f), sapphire);
        for (vendor, family, model) in [
            ("AuthenticAMD", 25, 1),
            ("GenuineIntel", 6, 0x2a),
            ("GenuineIntel", 15, 0x55),
            ("", 0, 0),
        ] {
            assert_eq!(of(vendor, family, model), None, "{vendor} {family} {model}");
        }
        assert_eq!(
            MISS_EVENTS.map(|e| e.config),
            [0x1_0003, 0x1_0103, 0x1_0004]
        );
    }
}
