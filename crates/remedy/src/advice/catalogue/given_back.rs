//! Memory that a program has given back to the system by itself.

use quell_event::Mechanism;

use crate::advice::{AdviceEntry, SeenCost, Sight};

/// Advice on memory that is not needed, and what waits for it.
const RELEASE_MECHANISMS: &[Mechanism] = &[
    Mechanism::Advise,
    Mechanism::LockMmap,
    Mechanism::ShootdownWait,
];

/// Programs that call malloc_trim(3) themselves.
pub(super) const MALLOC_TRIM: AdviceEntry = AdviceEntry {
    id: "malloc.trim",
    what: "the program has malloc_trim(3) give freed pages back, and faults them in again",
    seen_by: "madvise below malloc_trim",
    mechanisms: RELEASE_MECHANISMS,
    switch: "call it after rare large peaks, and not by a timer or after each request (Java: no -XX:TrimNativeHeapInterval); \
             no tunable of glibc stops it, and quell prove tries to drop the calls",
    why: "it looks at each free block of every arena and gives whole pages back whatever M_TRIM_THRESHOLD says: 7 to 11 ms a call \
          in aMule, page faults from 20 a minute to 1,600, and the peak of memory stayed",
    source: "https://github.com/amule-org/amule/pull/1156 https://github.com/s3fs-fuse/s3fs-fuse/issues/936",
    instead_of: &[],
    look: |entry, scene| {
        entry.costs_if_any(&[Mechanism::Advise], scene, |cost| {
            cost.calls_any(&["malloc_trim"])
        })
    },
};

fn is_haproxy_trim(cost: &SeenCost) -> bool {
    cost.calls_any(&["trim_all_pools"])
        || (cost.calls_any(&["malloc_trim"]) && cost.is_in("haproxy"))
}

/// HAProxy, which trims its memory at a reload.
pub(super) const HAPROXY_TRIM: AdviceEntry = AdviceEntry {
    id: "haproxy.trim",
    what: "HAProxy gives freed memory back by malloc_trim",
    seen_by: "madvise below trim_all_pools, or below malloc_trim that HAProxy calls",
    mechanisms: RELEASE_MECHANISMS,
    switch: "`no-memory-trimming` in the global section (2.4.15, 2.5 and later)",
    why: "a trim looks at every arena and can take long enough to stop a worker: threads of 128 stood still for 203 ms; without \
          it old and new processes take more memory together during a reload",
    source: "https://github.com/haproxy/haproxy/issues/1884 https://github.com/haproxy/haproxy/issues/3083",
    instead_of: &["malloc.trim"],
    look: |entry, scene| entry.costs_if_any(&[Mechanism::Advise], scene, is_haproxy_trim),
};

/// The functions that a program calls for this, in C and C++.
const RELEASE_FUNCTIONS: &[&str] = &[
    "MallocExtension_ReleaseFreeMemory",
    "MallocExtension_ReleaseToSystem",
    "MallocExtension::ReleaseFreeMemory",
    "MallocExtension::ReleaseToSystem",
    "TCMallocImplementation::ReleaseToSystem",
];

/// Programs that have gperftools' tcmalloc give all of its free memory back.
pub(super) const TCMALLOC_RELEASE: AdviceEntry = AdviceEntry {
    id: "tcmalloc.release",
    what: "the program has tcmalloc give its free memory back, span by span under the lock of its page heap",
    seen_by: "madvise below ReleaseFreeMemory or ReleaseToSystem of gperftools",
    mechanisms: RELEASE_MECHANISMS,
    switch: "call ReleaseToSystem with some MB at a time, or never; TCMALLOC_RELEASE_RATE has no say in it, \
             TCMALLOC_DISABLE_MEMORY_RELEASE=1 stops it, which quell prove tries",
    why: "each span is one madvise, and whoever needs memory waits for the lock: 2 GB took 0.09 to 0.18 s; a case did 2.5 times \
          the work without",
    source: "https://github.com/gperftools/gperftools/issues/754",
    instead_of: &[],
    look: |entry, scene| entry.costs(scene, |cost| cost.calls_any(RELEASE_FUNCTIONS)),
};

fn is_pool(cost: &SeenCost) -> bool {
    let frames = || cost.stack.iter();
    let is_server =
        frames().any(|f| f.file.starts_with("mariadbd") || f.file.starts_with("mysqld"));
    is_server && frames().any(|f| f.function.starts_with("buf_"))
}

/// MariaDB's buffer pool, which gave each freed page back.
pub(super) const MARIADB_FREE: AdviceEntry = AdviceEntry {
    id: "mariadb.free",
    what: "MariaDB gives each free page of its buffer pool back by madvise(MADV_FREE)",
    seen_by: "madvise(MADV_FREE) below functions of InnoDB's buffer pool (buf_…)",
    mechanisms: &[Mechanism::Advise],
    switch: "a MariaDB that has the fix of MDEV-31953: pages are given back under memory pressure only",
    why: "pages of the pool are freed and used again all the time, and each advice clears page table entries: reported as a loss \
          of performance, and taken out",
    source: "https://github.com/MariaDB/server/pull/2805 https://github.com/MariaDB/server/pull/2234",
    instead_of: &[],
    look: |_, scene| {
        let given = scene.given.iter();
        Sight::of_costs(given.filter(|c| {
            c.mechanism == Mechanism::Advise && c.advice.as_str() == "MADV_FREE" && is_pool(c)
        }))
    },
};

fn is_carrier(cost: &SeenCost) -> bool {
    const CARRIER_FUNCTIONS: &[&str] = &["erts_mmap", "erts_munmap", "erts_mremap"];
    cost.is_within("erts_mseg_") || cost.calls_any(CARRIER_FUNCTIONS)
}

/// Erlang, whose large carriers are unmapped as soon as they are free.
pub(super) const ERLANG_CARRIERS: AdviceEntry = AdviceEntry {
    id: "erlang.carriers",
    what: "Erlang's allocators map memory for large binaries and heaps, and unmap it",
    seen_by: "mmap and munmap below erts_mseg_…",
    mechanisms: &[
        Mechanism::Map,
        Mechanism::Unmap,
        Mechanism::LockMmap,
        Mechanism::ShootdownWait,
    ],
    switch: "+MMscs MB +MMsco false (a super carrier as large as the peak; without the second it ends where that is full) or \
             +MMmcs 30 (more segments are kept); both keep memory, and quell prove tries the like",
    why: "a segment that is free goes back to the system where ten are kept already. Copies of 20 binaries of 1 MB on OTP 25, two \
          CPUs: 1.3 s of CPU time by default, 0.42 s with +MMscs 512, 0.45 s with +MMmcs 30",
    source: "https://www.erlang.org/doc/apps/erts/erts_alloc.html",
    instead_of: &[],
    look: |entry, scene| entry.costs_if_any(&[Mechanism::Unmap], scene, is_carrier),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::advise;
    use crate::advice::testing::{fires, fires_by_evidence, gives, is_quiet, recorded, scene};

    /// Check that a timer's trims fire it, with the thread that calls them.
    #[test]
    fn fires_on_a_timer() {
        let advised = fires(&MALLOC_TRIM, &recorded("02-malloc-trim-timer"));
        assert_eq!(advised.place, "trim: trimmer (trim)");
    }

    /// Check that it goes by the trim.
    #[test]
    fn malloc_trim_goes_by_evidence() {
        let stack = "madvise (libc.so.6) < malloc_trim (libc.so.6) < sweep (rippled)";
        fires_by_evidence(
            &MALLOC_TRIM,
            &scene(&[(Mechanism::Advise, stack)]),
            "rippled",
        );
    }

    /// Check that the trim fires it, and that it replaces the entry for any program.
    #[test]
    fn haproxy_trim_goes_by_evidence() {
        let stack = "madvise (libc.so.6) < malloc_trim (libc.so.6) < trim_all_pools (haproxy) < run_poll_loop (haproxy)";
        let trim = scene(&[(Mechanism::Advise, stack)]);
        fires_by_evidence(&HAPROXY_TRIM, &trim, "haproxy");
        assert_eq!(advise(&trim).len(), 1);
    }

    /// Check that a program's own releases fire it.
    #[test]
    fn fires_on_releases() {
        fires(&TCMALLOC_RELEASE, &recorded("01-gperftools-release"));
    }

    /// Check that it goes by the release, by the C interface too.
    #[test]
    fn tcmalloc_release_goes_by_evidence() {
        let stack = "madvise (libc.so.6) < TCMalloc_SystemRelease(void*, unsigned long) (libtcmalloc.so.4) < \
                     MallocExtension_ReleaseFreeMemory (libtcmalloc.so.4) < idle (tserver)";
        fires_by_evidence(
            &TCMALLOC_RELEASE,
            &scene(&[(Mechanism::Advise, stack)]),
            "tserver",
        );
    }

    /// Check that it goes by the pool's advice.
    #[test]
    fn mariadb_free_goes_by_evidence() {
        let stack = "buf_LRU_block_free_non_file_page(buf_block_t*) (mariadbd)";
        fires_by_evidence(&MARIADB_FREE, &gives("MADV_FREE", stack), "mariadbd");
        is_quiet(&MARIADB_FREE, &gives("MADV_DONTNEED", stack));
        is_quiet(
            &MARIADB_FREE,
            &gives("MADV_FREE", "je_pages_purge_lazy (mariadbd)"),
        );
    }

    /// Check that copies of large binaries fire it.
    #[test]
    fn fires_on_binaries() {
        let advised = fires(&ERLANG_CARRIERS, &recorded("erlang-binaries"));
        assert!(advised.place.contains("beam.smp"), "{advised:?}");
    }

    /// Check that it goes by the carriers.
    #[test]
    fn erlang_carriers_goes_by_evidence() {
        let stack = "munmap (libc.so.6) < ? (beam.smp) < erts_mseg_dealloc_opt (beam.smp)";
        fires_by_evidence(
            &ERLANG_CARRIERS,
            &scene(&[(Mechanism::Unmap, stack)]),
            "beam.smp",
        );
    }
}
