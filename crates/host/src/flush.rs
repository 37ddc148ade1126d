//! Whether this machine flushes the TLBs of other CPUs without interrupting them.
//!
//! Then there is less to see than happens: no shootdown is sent, no `TLB:` counted.

use std::fmt;

/// A way to flush another CPU's TLB that no interrupt tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentFlush {
    /// AMD's INVLPGB broadcasts an invalidation (Linux 6.15, for processes that run on many CPUs).
    Invlpgb,
    /// KVM: virtual CPUs that don't run are marked, and flushed when they run again.
    Kvm,
    /// Hyper-V: the hypervisor is asked by a hypercall.
    HyperV,
    /// The processor flushes by an instruction that reaches all CPUs (arm64's TLBI).
    Broadcast,
}

impl SilentFlush {
    /// Whether so little is left to see that every figure wants the warning. What KVM skips is idle
    /// CPUs and ones that the host has taken away: no program there is interrupted either way.
    #[must_use]
    pub fn hides_most(self) -> bool {
        self != Self::Kvm
    }
}

impl fmt::Display for SilentFlush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invlpgb => {
                "this processor has INVLPGB: Linux 6.15 and later flush other CPUs by it without interrupts \
                 where a process runs on many"
            }
            Self::Kvm => {
                "KVM lets this guest skip virtual CPUs that don't run: they are flushed later, without an \
                 interrupt, and not counted"
            }
            Self::HyperV => {
                "Hyper-V flushes other CPUs for this guest by a hypercall, without interrupts in the guest: \
                 most of what happens can't be seen"
            }
            Self::Broadcast => {
                "this processor flushes all CPUs by one instruction, without interrupts: there are no \
                 shootdowns to see, and flushing still takes time"
            }
        })
    }
}

/// The bits of CPUID that concern flushes. They are zero where a leaf is not there.
#[derive(Clone, Copy, Debug, Default)]
struct Cpuid {
    /// Leaf 8000_0008h, EBX. Bit 3: INVLPGB (AMD64 Architecture Programmer's Manual, volume 3).
    extended_ebx: u32,
    /// Leaf 4000_0000h, EBX, ECX, EDX: the hypervisor's name.
    hypervisor: [u32; 3],
    /// Leaf 4000_0001h, EAX and EDX, of KVM (Documentation/virt/kvm/x86/cpuid.rst).
    kvm: (u32, u32),
    /// Leaf 4000_0004h, EAX, of Hyper-V (Top-Level Functional Specification: recommendations).
    hyperv_eax: u32,
    /// Leaf 1, ECX. Bit 3: MWAIT.
    features_ecx: u32,
}

const CPUID_INVLPGB: u32 = 1 << 3;
const CPUID_MWAIT: u32 = 1 << 3;
const KVM_STEAL_TIME: u32 = 1 << 5;
const KVM_PV_TLB_FLUSH: u32 = 1 << 9;
const KVM_HINT_REALTIME: u32 = 1;
const HYPERV_REMOTE_FLUSH: u32 = 1 << 2;

fn hypervisor_name(text: &[u8; 12]) -> [u32; 3] {
    let word = |at: usize| u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]);
    [word(0), word(4), word(8)]
}

/// The ways of flushing in silence that these bits stand for, as the kernel decides it: pv_tlb_flush_supported() in arch/x86/kernel/kvm.c, hyperv_setup_mmu_ops()
/// in arch/x86/hyperv/mmu.c.
fn silent_flushes(c: &Cpuid) -> Vec<SilentFlush> {
    let mut found = Vec::new();
    if c.extended_ebx & CPUID_INVLPGB != 0 {
        found.push(SilentFlush::Invlpgb);
    }
    if c.hypervisor == hypervisor_name(b"KVMKVMKVM\0\0\0")
        && c.kvm.0 & KVM_PV_TLB_FLUSH != 0
        && c.kvm.0 & KVM_STEAL_TIME != 0
        && c.kvm.1 & KVM_HINT_REALTIME == 0
        && c.features_ecx & CPUID_MWAIT == 0
    {
        found.push(SilentFlush::Kvm);
    }
    if c.hypervisor == hypervisor_name(b"Microsoft Hv") && c.hyperv_eax & HYPERV_REMOTE_FLUSH != 0 {
        found.push(SilentFlush::HyperV);
    }
    found
}

/// The ways that this machine has, none on most.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn find_silent_flushes() -> Vec<SilentFlush> {
    use std::arch::x86_64::__cpuid;
    // Rust 1.89 takes CPUID for unsafe, later ones don't: every x86-64 has it.
    #[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
    // SAFETY: CPUID is part of x86-64, and changes nothing but the registers that it is declared to.
    let leaf = |n| unsafe { __cpuid(n) };
    let mut c = Cpuid::default();
    if leaf(0x8000_0000).eax >= 0x8000_0008 {
        c.extended_ebx = leaf(0x8000_0008).ebx;
    }
    c.features_ecx = leaf(1).ecx;
    // bit 31: there is a hypervisor, and it answers for 4000_0000h and following
    if c.features_ecx >> 31 == 1 {
        let base = leaf(0x4000_0000);
        c.hypervisor = [base.ebx, base.ecx, base.edx];
        let features = leaf(0x4000_0001);
        c.kvm = (features.eax, features.edx);
        if base.eax >= 0x4000_0004 {
            c.hyperv_eax = leaf(0x4000_0004).eax;
        }
    }
    silent_flushes(&c)
}

/// The ways that this machine has.
#[cfg(not(target_arch = "x86_64"))]
#[must_use]
pub fn find_silent_flushes() -> Vec<SilentFlush> {
    vec![SilentFlush::Broadcast]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KVM: Cpuid = Cpuid {
        extended_ebx: 0,
        hypervisor: [0x4b4d_564b, 0x564b_4d56, 0x4d],
        kvm: (KVM_PV_TLB_FLUSH | KVM_STEAL_TIME, 0),
        hyperv_eax: 0,
        features_ecx: 0,
    };

    /// Check that each way is recognised by the bits that the kernel goes by, and by no fewer.
    #[test]
    fn each_way_is_recognised() {
        assert_eq!(silent_flushes(&Cpuid::default()), []);
        assert_eq!(silent_flushes(&KVM), [SilentFlush::Kvm]);
        let steady = Cpuid {
            kvm: (KVM.kvm.0, KVM_HINT_REALTIME),
            ..KVM
        };
        assert_eq!(silent_flushes(&steady), []);
        let no_steal_time = Cpuid {
            kvm: (KVM_PV_TLB_FLUSH, 0),
            ..KVM
        };
        assert_eq!(silent_flushes(&no_steal_time), []);
        let mwait = Cpuid {
            features_ecx: CPUID_MWAIT,
            ..KVM
        };
        assert_eq!(silent_flushes(&mwait), []);
        let amd = Cpuid {
            extended_ebx: CPUID_INVLPGB,
            ..Cpuid::default()
        };
        assert_eq!(silent_flushes(&amd), [SilentFlush::Invlpgb]);
        let hyperv = Cpuid {
            hypervisor: hypervisor_name(b"Microsoft Hv"),
            hyperv_eax: HYPERV_REMOTE_FLUSH,
            ..Cpuid::default()
        };
        assert_eq!(silent_flushes(&hyperv), [SilentFlush::HyperV]);
        // the same bits of another hypervisor mean something else
        assert_eq!(
            silent_flushes(&Cpuid {
                hypervisor: hypervisor_name(b"XenVMMXenVMM"),
                ..KVM
            }),
            []
        );
    }

    /// Check that this machine can be asked, and that each way is said in words.
    #[test]
    fn this_machine_answers() {
        for way in find_silent_flushes() {
            assert!(way.to_string().contains("interrupt"), "{way}");
        }
    }
}
