//! `/proc/interrupts`: the kernel's own count of TLB shootdown interrupts.

use std::path::Path;

use anyhow::{Context, Result};

use crate::under;

/// The line `TLB:`: how many flush requests victims have answered since boot (irq_tlb_count in
/// arch/x86/kernel/irq.c), all CPUs together. `None` where the kernel has no such line.
///
/// # Errors
///
/// If the file can't be read.
pub fn read_flush_interrupts(root: &Path) -> Result<Option<u64>> {
    let cpus = read_flush_interrupts_by_cpu(root)?;
    Ok(cpus.map(|cpus| cpus.iter().fold(0, |sum, (_, n)| n.wrapping_add(sum))))
}

/// The same for each CPU that is online: its number and its count.
///
/// # Errors
///
/// If the file can't be read.
pub fn read_flush_interrupts_by_cpu(root: &Path) -> Result<Option<Vec<(u32, u64)>>> {
    let path = under(root, Path::new("/proc/interrupts"));
    let text = std::fs::read(&path)
        .with_context(|| format!("counting interrupts by {}", path.display()))?;
    Ok(parse_counts(&text, b"TLB:"))
}

/// The numbers behind a label, up to the description, each with the CPU of its column.
fn parse_counts(text: &[u8], label: &[u8]) -> Option<Vec<(u32, u64)>> {
    let mut lines = text.split(|&b| b == b'\n');
    let heading = split_words(lines.next()?);
    let cpus = heading.map_while(|w| w.strip_prefix("CPU")?.parse::<u32>().ok());
    let line = lines.find_map(|l| l.trim_ascii_start().strip_prefix(label))?;
    let numbers = split_words(line).map_while(|w| w.parse::<u64>().ok());
    Some(cpus.zip(numbers).collect())
}

fn split_words(line: &[u8]) -> impl Iterator<Item = &str> {
    line.split(u8::is_ascii_whitespace)
        .filter(|w| !w.is_empty())
        .map_while(|w| std::str::from_utf8(w).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that each CPU has its count, also where one is offline, and that a machine without the line has none.
    #[test]
    fn each_cpu_has_its_count() {
        let text = b"           CPU0       CPU2\n  0:  1  2  IO-APIC\nTLB:      12        30   TLB shootdowns\n";
        assert_eq!(parse_counts(text, b"TLB:"), Some(vec![(0, 12), (2, 30)]));
        assert_eq!(parse_counts(text, b"IPI0:"), None);
        assert_eq!(parse_counts(b"CPU0\nTLB:", b"TLB:"), Some(vec![]));
    }

    proptest::proptest! {
        /// Check that no bytes make the reader fail.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            parse_counts(&bytes, b"TLB:");
        }
    }
}
