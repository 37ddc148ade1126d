//! The entries, a file each.

mod bbolt_populate;
mod bbolt_random;
mod bbolt_remap;
mod clear_refs;
mod dotnet_reset;
mod dotnet_retain;
mod dotnet_wx;
mod dpdk_hugepages;
mod erlang_carriers;
mod firecracker_userfault;
mod fork_libuv;
mod fork_spawn;
mod go_collapse;
mod go_mapped_file;
mod haproxy_trim;
mod java_arena;
mod jvm_hsperfdata;
mod lmdb_readahead;
mod luajit_code;
mod luajit_room;
mod lucene_prefetch;
mod lucene_preload;
mod malloc_trim;
mod mariadb_free;
mod milvus_populate;
mod mlockall_onfault;
mod postgresql_huge;
mod postgresql_jit;
mod python_gc_copies;
mod python_object_copies;
mod read_advice;
mod redis_fork;
mod rocksdb_mmap;
mod ruby_gc_copies;
mod smaps;
mod tcmalloc_release;
mod wasmer_instances;
mod wasmtime_pool;
mod wasmtime_resident;

use super::AdviceEntry;

/// Every entry. To add one, add it here.
pub(super) const ALL_ENTRIES: &[&AdviceEntry] = &[
    &bbolt_populate::ADVICE_ENTRY,
    &bbolt_random::ADVICE_ENTRY,
    &bbolt_remap::ADVICE_ENTRY,
    &clear_refs::ADVICE_ENTRY,
    &dotnet_reset::ADVICE_ENTRY,
    &dotnet_retain::ADVICE_ENTRY,
    &dotnet_wx::ADVICE_ENTRY,
    &dpdk_hugepages::ADVICE_ENTRY,
    &erlang_carriers::ADVICE_ENTRY,
    &firecracker_userfault::ADVICE_ENTRY,
    &fork_libuv::ADVICE_ENTRY,
    &fork_spawn::ADVICE_ENTRY,
    &go_collapse::ADVICE_ENTRY,
    &go_mapped_file::ADVICE_ENTRY,
    &haproxy_trim::ADVICE_ENTRY,
    &java_arena::ADVICE_ENTRY,
    &jvm_hsperfdata::ADVICE_ENTRY,
    &lmdb_readahead::ADVICE_ENTRY,
    &luajit_code::ADVICE_ENTRY,
    &luajit_room::ADVICE_ENTRY,
    &lucene_prefetch::ADVICE_ENTRY,
    &lucene_preload::ADVICE_ENTRY,
    &malloc_trim::ADVICE_ENTRY,
    &mariadb_free::ADVICE_ENTRY,
    &milvus_populate::ADVICE_ENTRY,
    &mlockall_onfault::ADVICE_ENTRY,
    &postgresql_huge::ADVICE_ENTRY,
    &postgresql_jit::ADVICE_ENTRY,
    &python_gc_copies::ADVICE_ENTRY,
    &python_object_copies::ADVICE_ENTRY,
    &read_advice::ADVICE_ENTRY,
    &redis_fork::ADVICE_ENTRY,
    &rocksdb_mmap::ADVICE_ENTRY,
    &ruby_gc_copies::ADVICE_ENTRY,
    &smaps::ADVICE_ENTRY,
    &tcmalloc_release::ADVICE_ENTRY,
    &wasmer_instances::ADVICE_ENTRY,
    &wasmtime_pool::ADVICE_ENTRY,
    &wasmtime_resident::ADVICE_ENTRY,
];
