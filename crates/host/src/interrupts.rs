//! `/proc/interrupts`: the kernel's own count of TLB shootdown interrupts.

use std::path::Path;

use anyhow::{Context, Result};

use crate::under;

/// The sum of the line `TLB:` over all CPUs: how many flush requests victims have answered since
/// boot (arch/x86/kernel/irq.c, `irq_tlb_count`). `None` where the kernel has no such line.
///
/// # Errors
///
/// If the file can't be read.
pub fn tlb(root: &Path) -> Result<Option<u64>> {
    let path = under(root, Path::new("/proc/interrupts"));
    let text = std::fs::read(&path)
        .with_context(|| format!("counting interrupts by {}", path.display()))?;
    Ok(sum(&text, b"TLB:"))
}

/// The sum of the numbers behind a label, up to the description.
fn sum(text: &[u8], label: &[u8]) -> Option<u64> {
    let line = text
        .split(|&b| b == b'\n')
        .find_map(|l| l.trim_ascii_start().strip_prefix(label))?;
    let words = line
        .split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty());
    let numbers = words.map_while(|w| std::str::from_utf8(w).ok()?.parse::<u64>().ok());
    Some(numbers.fold(0, u64::wrapping_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the CPUs' counts are added up, and that a machine without the line has none.
    #[test]
    fn cpus_are_summed() {
        let text = b"           CPU0       CPU1\n  0:  1  2  IO-APIC\nTLB:      12        30   TLB shootdowns\n";
        assert_eq!(sum(text, b"TLB:"), Some(42));
        assert_eq!(sum(text, b"IPI0:"), None);
        assert_eq!(sum(b"TLB:", b"TLB:"), Some(0));
    }

    proptest::proptest! {
        /// Check that no bytes make the reader fail.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            sum(&bytes, b"TLB:");
        }
    }
}
