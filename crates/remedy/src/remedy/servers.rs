//! Servers and stores with settings in files of their own: said, and not made.

use quell_event::Cause;

use super::{Remedy, RemedyAnswer, RemedyCase};
use crate::SoftwareKind;

/// Work of the kernel on ordinary pages, which it does not do to those of hugetlbfs; the first not to memory with a policy
/// of its own either.
const MOVING_CAUSES: [Cause; 7] = [
    Cause::MigrateNuma,
    Cause::MigrateOther,
    Cause::Reclaim,
    Cause::Compaction,
    Cause::Ksm,
    Cause::ThpCollapse,
    Cause::ThpSplit,
];

/// The share of the shootdowns from which on forks are worth a word.
const MENTIONED_FORK_SHARE: f64 = 0.05;

/// Redis and Valkey: saving forks, and defragmenting frees the blocks that it moved.
pub(super) const REDIS: Remedy = Remedy {
    id: "redis.conf",
    stops: "the write protection and the copies of each background save, and the memory that active defragmentation frees",
    worse: "jemalloc-bg-thread yes or no: it is who gives back that changes, and not how often (not measured here)",
    source: "redis.conf of redis/redis: save, appendonly, activedefrag, disable-thp; src/rdb.c, rdbSaveBackground. Not measured here",
    consider: consider_redis,
    ..Remedy::BY_SETTING
};

fn consider_redis(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let program = case.program_of_kinds(&[SoftwareKind::Redis, SoftwareKind::Valkey])?;
    let file = if program.kind == SoftwareKind::Redis {
        "redis.conf"
    } else {
        "valkey.conf"
    };
    let forks = case.part_of_causes(&[Cause::Fork, Cause::Cow]);
    if forks >= MENTIONED_FORK_SHARE {
        return Some(RemedyAnswer::advise(
            &["save \"\"", "appendonly no"],
            format!(
                "in {file}, where a replica saves: each save and each rewrite of the log forks, and {:.0} % of \
                 the shootdowns are of forks and copies; disable-thp yes (the default) keeps a copy at 4 KB. \
                 Not measured here",
                forks * 100.0
            ),
        ));
    }
    let back = case.part_of_causes(&[Cause::MadviseDontneed, Cause::MadviseFree]);
    (back >= 0.2).then(|| {
        RemedyAnswer::advise(
            &["activedefrag no"],
            format!(
                "in {file} (the default): what defragmenting frees is given back. Not measured here"
            ),
        )
    })
}

/// PostgreSQL: shared memory mapped once, in huge pages of the pool, which nobody moves, splits or merges.
pub(super) const POSTGRESQL: Remedy = Remedy {
    id: "postgresql.conf",
    stops: "reclaim, compaction and migration of shared_buffers, and the mapping of shared memory anew for each parallel query",
    worse: "huge_pages = on without enough vm.nr_hugepages: the server does not start (try, the default, goes on without)",
    source: "postgresql.org/docs, Resource Consumption: huge_pages, min_dynamic_shared_memory (14 on); Managing Kernel Resources: Linux Huge Pages. Not measured here",
    consider: consider_postgresql,
    ..Remedy::BY_SETTING
};

fn consider_postgresql(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    let found = case.program_of_kinds(&[SoftwareKind::PostgreSql])?;
    let mut settings = Vec::new();
    let mut why = Vec::new();
    let moved = case.part_of_causes(&MOVING_CAUSES);
    if moved >= 0.05 {
        settings.push("huge_pages = on");
        why.push(format!(
            "{:.0} % of the shootdowns are by what the kernel does to pages, and it leaves those of the pool alone \
             (vm.nr_hugepages must hold shared_buffers: postgres -C shared_memory_size_in_huge_pages says how many)",
            moved * 100.0
        ));
    }
    let mapped = case.part_of_causes(&[Cause::Munmap, Cause::Truncate]);
    if mapped >= 0.05 && !found.is_below(14, 0, 0) {
        settings.push("min_dynamic_shared_memory = 256MB");
        why.push(
            "parallel queries take their shared memory from it instead of mapping their own (14 on)"
                .to_owned(),
        );
    }
    if settings.is_empty() {
        return None;
    }
    Some(RemedyAnswer::advise(
        &settings,
        format!("in postgresql.conf: {}. Not measured here", why.join("; ")),
    ))
}

/// MongoDB: its tcmalloc gives nothing back on a timer.
pub(super) const MONGODB: Remedy = Remedy {
    id: "mongodb.parameters",
    stops: "madvise(MADV_DONTNEED) of free pages that tcmalloc releases",
    worse: "tcmallocAggressiveMemoryDecommit (up to 7): it gives back at every free; and 8.0 wants huge pages, 7.0 and before do not",
    source: "mongodb.com/docs: MongoDB Server Parameters, tcmallocReleaseRate (0 by default from 8.0 on, bytes a second; 1 before) and tcmallocEnableBackgroundThread; TCMalloc Performance Optimization. Not measured here",
    consider: |case| {
        case.program_of_kinds(&[SoftwareKind::MongoDb])?;
        (case.part_of_causes(&[Cause::MadviseDontneed]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &[
                    "setParameter: {tcmallocReleaseRate: 0, tcmallocEnableBackgroundThread: false}",
                ],
                "in mongod.conf: free memory stays; up to 7.0 there is no tcmallocEnableBackgroundThread, and the \
                 release rate is 1. Not measured here",
            )
        })
    },
    ..Remedy::BY_SETTING
};

/// ClickHouse: its jemalloc is tuned as any other; but a thread of the server's, which watches memory, changes decay meanwhile.
pub(super) const CLICKHOUSE: Remedy = Remedy {
    id: "clickhouse.config",
    stops: "the purges by which the server's memory worker overrides jemalloc's decay when memory runs short",
    worse: "a server near its memory limit: the purges are what keeps it below",
    source: "clickhouse.com/docs, server settings: memory_worker_decay_adjustment_period_ms, memory_worker_purge_dirty_pages_threshold_ratio; session settings: min_bytes_to_use_mmap_io. Not measured here",
    consider: |case| {
        case.program_of_kinds(&[SoftwareKind::ClickHouse])?;
        (case.part_of_causes(&[Cause::MadviseDontneed, Cause::MadviseFree]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &[
                    "<memory_worker_decay_adjustment_period_ms>0</memory_worker_decay_adjustment_period_ms>",
                    "<memory_worker_purge_dirty_pages_threshold_ratio>0</memory_worker_purge_dirty_pages_threshold_ratio>",
                ],
                "in config.xml: the memory worker sets jemalloc's dirty_decay_ms to 0 under pressure, and purges what \
                 is dirty above that ratio; 0 turns each off, and jemalloc's own settings hold. Versions without these \
                 settings refuse none. Not measured here",
            )
        })
    },
    ..Remedy::BY_SETTING
};

/// MySQL and MariaDB: the buffer pool in large pages, which nobody moves, splits or merges.
pub(super) const MYSQL: Remedy = Remedy {
    id: "mysql.cnf",
    stops: "reclaim, compaction and migration of the buffer pool",
    worse: "large-pages without enough vm.nr_hugepages, or without the right to lock memory: the server warns, and takes small ones",
    source: "dev.mysql.com/doc/refman, Enabling Large Page Support; innodb_numa_interleave. Not measured here",
    consider: consider_mysql,
    ..Remedy::BY_SETTING
};

fn consider_mysql(case: &RemedyCase<'_>) -> Option<RemedyAnswer> {
    case.program_of_kinds(&[SoftwareKind::MySql])?;
    let mut settings = Vec::new();
    let moved = case.part_of_causes(&MOVING_CAUSES[1..]);
    let numa = case.part_of_causes(&MOVING_CAUSES[..1]);
    if moved >= 0.05 {
        settings.push("large-pages");
    }
    if numa >= 0.05 {
        settings.push("innodb_numa_interleave = ON");
    }
    if settings.is_empty() {
        return None;
    }
    let sum = (moved + numa) * 100.0;
    Some(RemedyAnswer::advise(
        &settings,
        format!(
            "under [mysqld] of my.cnf: {sum:.0} % of the shootdowns are by what the kernel does to pages. Those of \
             the huge page pool stay where they are, and memory with a policy of its own is not balanced (MariaDB \
             has no innodb_numa_interleave from 10.4 on). Not measured here"
        ),
    ))
}

/// RocksDB: files are read, instead of mapped and unmapped.
pub(super) const ROCKSDB: Remedy = Remedy {
    id: "rocksdb.options",
    stops: "munmap of table files when they are closed, and the write-back of mapped ones",
    worse: "data that is all in memory, which mapped reads serve without a copy",
    source: "facebook/rocksdb include/rocksdb/options.h: allow_mmap_reads, allow_mmap_writes (both false by default). Not measured here",
    consider: |case| {
        case.program_of_kinds(&[SoftwareKind::RocksDb])?;
        let part = case.part_of_causes(&[Cause::Munmap, Cause::Writeback, Cause::Truncate]);
        (part >= 0.2).then(|| {
            RemedyAnswer::advise(
                &["allow_mmap_reads=false", "allow_mmap_writes=false"],
                "under [DBOptions] of its OPTIONS file, or by the program's own settings, if they are on (the report \
                 shows .sst files as regions then). Not measured here",
            )
        })
    },
    ..Remedy::BY_SETTING
};

/// Envoy: its tcmalloc gives nothing back on a timer.
pub(super) const ENVOY: Remedy = Remedy {
    id: "envoy.bootstrap",
    stops: "madvise(MADV_DONTNEED) of free pages that tcmalloc releases on a timer, or under overload",
    worse: "an Envoy near its memory limit: shrinking is what keeps it below",
    source: "envoyproxy.io docs, Overload manager (envoy.overload_actions.shrink_heap) and config.bootstrap.v3.MemoryAllocatorManager (bytes_to_release, 0 by default). Not measured here",
    consider: |case| {
        case.program_of_kinds(&[SoftwareKind::Envoy])?;
        (case.part_of_causes(&[Cause::MadviseDontneed]) >= 0.05).then(|| {
            RemedyAnswer::advise(
                &["memory_allocator_manager: {bytes_to_release: 0}"],
                "in the bootstrap, and no action envoy.overload_actions.shrink_heap in overload_manager: free memory \
                 is given back by these two only. Not measured here",
            )
        })
    },
    ..Remedy::BY_SETTING
};
