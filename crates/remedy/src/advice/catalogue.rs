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
pub(super) const ALL: &[&AdviceEntry] = &[
    &bbolt_populate::ENTRY,
    &bbolt_random::ENTRY,
    &bbolt_remap::ENTRY,
    &clear_refs::ENTRY,
    &dotnet_reset::ENTRY,
    &dotnet_retain::ENTRY,
    &dotnet_wx::ENTRY,
    &dpdk_hugepages::ENTRY,
    &erlang_carriers::ENTRY,
    &firecracker_userfault::ENTRY,
    &fork_libuv::ENTRY,
    &fork_spawn::ENTRY,
    &go_collapse::ENTRY,
    &go_mapped_file::ENTRY,
    &haproxy_trim::ENTRY,
    &java_arena::ENTRY,
    &jvm_hsperfdata::ENTRY,
    &lmdb_readahead::ENTRY,
    &luajit_code::ENTRY,
    &luajit_room::ENTRY,
    &lucene_prefetch::ENTRY,
    &lucene_preload::ENTRY,
    &malloc_trim::ENTRY,
    &mariadb_free::ENTRY,
    &milvus_populate::ENTRY,
    &mlockall_onfault::ENTRY,
    &postgresql_huge::ENTRY,
    &postgresql_jit::ENTRY,
    &python_gc_copies::ENTRY,
    &python_object_copies::ENTRY,
    &read_advice::ENTRY,
    &redis_fork::ENTRY,
    &rocksdb_mmap::ENTRY,
    &ruby_gc_copies::ENTRY,
    &smaps::ENTRY,
    &tcmalloc_release::ENTRY,
    &wasmer_instances::ENTRY,
    &wasmtime_pool::ENTRY,
    &wasmtime_resident::ENTRY,
];
