//! Programs that have settings of their own: they are recognised by the file's name and by texts that only they hold.
//!
//! A name alone proves nothing (a wrapper may have it), and a text alone neither (a client may print it).

use super::Facts;
use crate::{FoundSoftware, Linking, SoftwareKind, Version};

/// The signature of a server: its file's name, and texts that are all in it.
struct ServerSignature {
    kind: SoftwareKind,
    names: &'static [&'static str],
    texts: &'static [&'static str],
}

const SERVER_SIGNATURES: &[ServerSignature] = &[
    ServerSignature {
        kind: SoftwareKind::Valkey,
        names: &["valkey-server", "valkey-check-rdb", "valkey-check-aof"],
        texts: &["lazyfree-lazy-eviction"],
    },
    // Debian's redis-server is a link to redis-check-rdb: one file is all of them.
    ServerSignature {
        kind: SoftwareKind::Redis,
        names: &["redis-server", "redis-check-rdb", "redis-check-aof"],
        texts: &["lazyfree-lazy-eviction"],
    },
    ServerSignature {
        kind: SoftwareKind::PostgreSql,
        names: &["postgres"],
        texts: &["shared_buffers", "huge_pages"],
    },
    ServerSignature {
        kind: SoftwareKind::MongoDb,
        names: &["mongod", "mongos"],
        texts: &["tcmallocReleaseRate"],
    },
    ServerSignature {
        kind: SoftwareKind::ClickHouse,
        names: &["clickhouse"],
        texts: &["max_server_memory_usage_to_ram_ratio"],
    },
    ServerSignature {
        kind: SoftwareKind::MySql,
        names: &["mysqld", "mariadbd"],
        texts: &["innodb_buffer_pool_size"],
    },
    ServerSignature {
        kind: SoftwareKind::Envoy,
        names: &["envoy"],
        texts: &["envoy.overload_actions.shrink_heap"],
    },
];

/// The servers.
pub(super) fn recognise_server(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let file = facts.path.file_name()?.to_string_lossy();
    // mysqld-debug, mongod-8.0, clickhouse-server.
    let named = |name: &&str| {
        file.strip_prefix(*name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.', '_']))
    };
    let program = SERVER_SIGNATURES
        .iter()
        .find(|p| p.names.iter().any(named))?;
    if !program.texts.iter().all(|t| facts.ends_string(t)) {
        return None;
    }
    let how = format!("its name, {file}, and its settings");
    Some(FoundSoftware {
        version: stated_version(program.kind, facts),
        ..facts.found_here(program.kind, Linking::Static, how)
    })
}

/// PostgreSQL's version stands behind its name. The other servers have no text with both.
fn stated_version(kind: SoftwareKind, facts: &Facts<'_>) -> Option<Version> {
    const POSTGRESQL_NAME: &str = "postgres (PostgreSQL) ";
    if kind != SoftwareKind::PostgreSql {
        return None;
    }
    let text = facts.string_with(POSTGRESQL_NAME)?;
    Version::parse_leading(text.split_once(POSTGRESQL_NAME)?.1.as_bytes())
}

/// RocksDB, in whatever program: a library of its own, or the names of its options and its messages.
pub(super) fn recognise_rocksdb(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let texts = [
        "allow_mmap_reads",
        "write_buffer_size",
        "rocksdb.block.cache.miss",
    ];
    if !texts.iter().all(|t| facts.ends_string(t)) {
        return None;
    }
    let linking = if facts.elf.is_library() && facts.path.to_string_lossy().contains("librocksdb") {
        Linking::SharedLibrary
    } else {
        Linking::Static
    };
    Some(facts.found_here(
        SoftwareKind::RocksDb,
        linking,
        "the names of RocksDB's options and counters",
    ))
}

/// NumPy: its compiled part, by its file's name and by a function that sets whether it asks for huge pages.
pub(super) fn recognise_numpy(facts: &Facts<'_>) -> Option<FoundSoftware> {
    let file = facts.path.file_name()?.to_string_lossy();
    let named =
        file.starts_with("_multiarray_umath.") && facts.ends_string("_set_madvise_hugepage");
    named.then(|| {
        let how = "its compiled part, which can ask for huge pages";
        facts.found_here(SoftwareKind::NumPy, Linking::SharedLibrary, how)
    })
}
