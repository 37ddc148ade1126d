//! The probe's tables and records, as Rust reads them: the twin of `bpf/shootdown.h`.
//!
//! Everything is copied out of a byte slice of the right size, so that no alignment is assumed and
//! no foreign pointer is kept.

/// Implemented for types of which every pattern of bytes is a value.
///
/// # Safety
///
/// The type is `repr(C)`, has no padding and only integer members or arrays of them.
pub(crate) unsafe trait Pod: Copy + Default {}

/// Copies a value out of the front of `bytes`; `None` if they are too few.
pub(crate) fn read_pod<T: Pod>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, and `Pod` makes any of them a valid `T`; the read assumes no
    // alignment.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a value, for a map.
pub(crate) fn bytes_of<T: Pod>(value: &T) -> &[u8] {
    // SAFETY: `Pod` has no padding, so every byte is initialised, and the slice borrows the value.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The 64-bit words of a value or record, such as addresses; bytes behind the last whole word are left out.
pub(crate) fn words_of(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + Clone {
    let (words, _rest) = bytes.as_chunks::<8>();
    words.iter().copied().map(u64::from_ne_bytes)
}

macro_rules! pod {
    ($($(#[$meta:meta])* struct $name:ident { $($field:ident: $ty:ty,)+ })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $ty,)+ }
            // SAFETY: integers and arrays of them; `layouts_agree` checks that there is no padding.
            unsafe impl Pod for $name {}

            impl $name {
                /// Size less the sum of the members' sizes.
                #[cfg(test)]
                fn padding() -> usize {
                    size_of::<Self>() $(- size_of::<$ty>())+
                }
            }
        )+
    };
}
pub(crate) use pod;

pod! {
    struct ProbeConfig {
        fn_flush_tlb_func: u64,
        fn_flush_all: u64,
        fn_flush_kernel: u64,
        ncpu: u32,
        scope: u32,
        self_tgid: u32,
        stack_every: u32,
        recording: u32,
        places: u32,
        row: u32,
        sampling: u32,
        timed_apart_ns: u32,
        by_cgroup: u32,
        keys: u32,
        slow_ticks: u32,
        unwinds: u32,
        zero: u32,
    }
    struct ProbeState {
        next_culprit: u32,
        next_victim: u32,
        scope_gen: u32,
        zero: u32,
    }
    struct CulpritKey {
        tgid: u32,
        kstack: i32,
        nr: i16,
        advice: u8,
        flags: u8,
        high: u32,
    }
    struct CulpritInfo {
        key: CulpritKey,
        comm: [u8; 16],
        cgroup: u64,
    }
    struct VictimInfo {
        tgid: u32,
        bystander: u32,
        comm: [u8; 16],
    }
    struct CulpritCounts {
        shootdowns: u64,
        full: u64,
        pages: u64,
        victims: u64,
        wait_ns: u64,
        delay_ns: u64,
        stall_ns: u64,
        untimed: u64,
    }
    struct VictimCounts {
        hits: u64,
        stall_ns: u64,
        untimed: u64,
        zero: u64,
    }
    struct ProbeHealth {
        empty_sends: u64,
        lost_records: u64,
        lost_stacks: u64,
        lost_details: u64,
        crowded: u64,
        self_shootdowns: u64,
        self_victims: u64,
        wrong_memos: u64,
        unseen: u64,
    }
    struct SendRecord {
        kind: u8,
        flags: u8,
        cpu: u16,
        seq: u32,
        t_ns: u64,
        tgid: u32,
        tid: u32,
        start: u64,
        end: u64,
        caller: u64,
        kstack: i32,
        ustack: i32,
        culprit: u32,
        targets: u32,
        cgroup: u64,
        comm: [u8; 16],
    }
    struct VictimRecord {
        kind: u8,
        bystander: u8,
        cpu: u16,
        culprit_cpu: u16,
        zero: u16,
        seq: u32,
        tgid: u32,
        tid: u32,
        delay_ns: u32,
        stall_ns: u32,
        zero2: u32,
        end_ns: u64,
        comm: [u8; 16],
    }
    struct EndRecord {
        kind: u16,
        culprit_cpu: u16,
        seq: u32,
        end_ns: u64,
        victims: u32,
        unseen: u32,
    }
    struct SampleRecord {
        kind: u8,
        flags: u8,
        frames: u16,
        tgid: u32,
        culprit: u32,
        every: u32,
        start: u64,
        end: u64,
        caller: u64,
        stack: [u64; 4],
    }
}

pub(crate) const SCOPE_ALL: u32 = 0;
pub(crate) const SCOPE_TREE: u32 = 1;
pub(crate) const SCOPE_CPUS: u32 = 2;

/// The most frames of a stack that the kernel keeps of it, innermost first, of its own stacks and of programs' each; the outer
/// ones beyond are missing. The C side's word for it stays, because a test compares the two.
pub(crate) const STACK_DEPTH: usize = 64;

pub(crate) const MAX_PLACES: u32 = 8;
/// The size of a `struct flush_request`.
pub(crate) const REQUEST_BYTES: u32 = 32;

/// Which programs are attached, as each CPU knows it: `COUNTING_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum ProbePhase {
    Not,
    All,
    Timed,
    Told,
}

pub(crate) const RECORD_SEND: u8 = 1;
pub(crate) const RECORD_VICTIM: u8 = 2;
pub(crate) const RECORD_SAMPLE: u8 = 3;
pub(crate) const RECORD_END: u8 = 4;

pub(crate) const SEND_OWN: u8 = 1;

pub(crate) const CULPRIT_COMPAT: u8 = 1;
pub(crate) const CULPRIT_EXITING: u8 = 2;

pub(crate) const NR_FAULT: i16 = -1;
pub(crate) const NR_KTHREAD: i16 = -2;
pub(crate) const NR_KERNEL: i16 = -3;

pub(crate) const HIST_WAIT: usize = 0;
pub(crate) const HIST_DELAY: usize = 1;
pub(crate) const HIST_STALL: usize = 2;
/// The size of a `struct hist`: the buckets and the maximum.
pub(crate) const HIST_BYTES: usize = (quell_event::histogram::BUCKET_COUNT + 1) * 8;
/// The key of a map with one entry.
pub(crate) const ONLY_KEY: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that no type has padding, that is, bytes that the compiler may treat as unwritten.
    #[test]
    fn layouts_agree() {
        let header = include_str!("bpf/shootdown.h");
        let defines = |name, n| header.contains(&format!("#define {name} {n}\n"));
        assert!(defines("STACK_DEPTH", STACK_DEPTH));
        // the numbers of the static assertions there
        assert_eq!(size_of::<ProbeConfig>(), 80);
        assert_eq!(size_of::<ProbeState>(), 16);
        assert_eq!(size_of::<CulpritInfo>(), 40);
        assert_eq!(size_of::<VictimInfo>(), 24);
        assert_eq!(size_of::<CulpritCounts>(), 64);
        assert_eq!(size_of::<VictimCounts>(), 32);
        assert_eq!(size_of::<ProbeHealth>(), 72);
        assert_eq!(size_of::<CulpritKey>(), 16);
        assert_eq!(size_of::<SendRecord>(), 88);
        assert_eq!(size_of::<VictimRecord>(), 56);
        assert_eq!(size_of::<SampleRecord>(), 72);
        assert_eq!(size_of::<EndRecord>(), 24);
        assert_eq!(ProbeConfig::padding(), 0);
        assert_eq!(ProbeState::padding(), 0);
        assert_eq!(CulpritKey::padding(), 0);
        assert_eq!(CulpritInfo::padding(), 0);
        assert_eq!(VictimInfo::padding(), 0);
        assert_eq!(CulpritCounts::padding(), 0);
        assert_eq!(VictimCounts::padding(), 0);
        assert_eq!(ProbeHealth::padding(), 0);
        assert_eq!(SendRecord::padding(), 0);
        assert_eq!(VictimRecord::padding(), 0);
        assert_eq!(SampleRecord::padding(), 0);
        assert_eq!(EndRecord::padding(), 0);
    }

    /// Check that too few bytes are no value.
    #[test]
    fn short_is_none() {
        assert_eq!(read_pod::<VictimCounts>(&[0; 31]), None);
        assert_eq!(
            read_pod::<VictimCounts>(&[0; 33]),
            Some(VictimCounts::default())
        );
    }
}
