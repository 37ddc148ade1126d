//! The entries, a file a topic; what only one product or library knows has a file of its own, whatever its language.

mod address_space_lock;
mod bbolt;
mod dotnet;
mod forks;
mod given_back;
mod go;
mod interpreters;
mod java;
mod luajit;
mod lucene;
mod mapped_data;
mod postgresql;
mod startup;
mod wasm;

use super::AdviceEntry;

/// Every entry. To add one, add it here.
pub(super) const ALL_ENTRIES: &[&AdviceEntry] = &[
    &bbolt::BBOLT_POPULATE,
    &bbolt::BBOLT_RANDOM,
    &bbolt::BBOLT_REMAP,
    &address_space_lock::REFS_CLEARING,
    &dotnet::DOTNET_VIRTUAL_RESET,
    &dotnet::DOTNET_RETAIN_VM,
    &dotnet::DOTNET_WRITE_XOR_EXECUTE,
    &startup::DPDK_HUGEPAGES,
    &given_back::ERLANG_CARRIERS,
    &mapped_data::FIRECRACKER_USERFAULT,
    &forks::FORK_LIBUV,
    &forks::FORK_SPAWN,
    &go::GO_COLLAPSE,
    &go::GO_MAPPED_FILE,
    &given_back::HAPROXY_TRIM,
    &java::JAVA_ARENA,
    &java::JVM_HSPERFDATA,
    &mapped_data::LMDB_READAHEAD,
    &luajit::LUAJIT_CODE,
    &luajit::LUAJIT_ROOM,
    &lucene::LUCENE_PREFETCH,
    &lucene::LUCENE_PRELOAD,
    &given_back::MALLOC_TRIM,
    &given_back::MARIADB_FREE,
    &mapped_data::MILVUS_POPULATE,
    &startup::MLOCKALL_ONFAULT,
    &postgresql::POSTGRESQL_HUGE,
    &postgresql::POSTGRESQL_JIT,
    &interpreters::PYTHON_GC_COPIES,
    &interpreters::PYTHON_OBJECT_COPIES,
    &address_space_lock::READ_ADVICE,
    &forks::REDIS_FORK,
    &mapped_data::ROCKSDB_MMAP,
    &interpreters::RUBY_GC_COPIES,
    &address_space_lock::SMAPS_READING,
    &given_back::TCMALLOC_RELEASE,
    &wasm::WASMER_INSTANCES,
    &wasm::WASMTIME_POOL,
    &wasm::WASMTIME_RESIDENT,
];
