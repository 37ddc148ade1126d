//! Perf maps: how a JIT tells profilers the names of the code that it makes.
//!
//! The kernel's tools/perf/Documentation/jit-interface.txt has the format: `START SIZE NAME` a line,
//! the numbers in hexadecimal without `0x`, the name to the end of the line. The JIT appends as it
//! compiles, so a later line for the same place replaces an earlier one, and the last line may be
//! half-written.

use std::io::{BufRead, BufReader, Read};

/// More is not read. Node's maps grow by some megabytes an hour.
pub const MAX_MAP_BYTES: u64 = 256 << 20;

/// A longer line is no line of a map, and ends the reading: that file is something else.
const MAX_LINE_BYTES: usize = 64 << 10;

/// How often lines may cover the addresses asked for. A JIT uses a place again and again, but only a map
/// that is made to cost time comes near this.
const MAX_COVERS: usize = 1 << 20;

/// The names at addresses, which must be sorted, from the first [`MAX_MAP_BYTES`] of a map or up to the first
/// error. Lines that are none are passed over.
pub fn find_function_names(map: impl Read, addresses: &[u64]) -> Vec<Option<String>> {
    debug_assert!(addresses.is_sorted());
    let mut found = vec![None; addresses.len()];
    let mut map = BufReader::with_capacity(MAX_LINE_BYTES, map.take(MAX_MAP_BYTES));
    let mut line = Vec::new();
    let mut covers = 0;
    loop {
        line.clear();
        let length = (&mut map)
            .take(MAX_LINE_BYTES as u64)
            .read_until(b'\n', &mut line);
        if !length.is_ok_and(|n| n > 0) || line.pop() != Some(b'\n') {
            return found;
        }
        let Some((start, end, name)) = parse_line(&line) else {
            continue;
        };
        let first = addresses.partition_point(|a| *a < start);
        for (address, slot) in addresses[first..].iter().zip(&mut found[first..]) {
            if *address >= end {
                break;
            }
            covers += 1;
            if covers > MAX_COVERS {
                return found;
            }
            *slot = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
}

fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = split_number(line)?;
    let (size, name) = split_number(rest)?;
    let name = name.trim_ascii();
    (size > 0 && !name.is_empty()).then_some((start, start.saturating_add(size), name))
}

/// Splits a line into the number at its start and the rest.
fn split_number(line: &[u8]) -> Option<(u64, &[u8])> {
    let end = line.iter().position(|b| *b == b' ')?;
    let digits = &line[..end];
    // some write it, though they should not
    let digits = digits.strip_prefix(b"0x").unwrap_or(digits);
    // from_str_radix would take a sign
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let number = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    Some((number, &line[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAP: &[u8] = b"\
7f0000001000 40 LazyCompile:~main /app/index.js:1:1
7f0000001040 10 py::<module>:/app/a.py
0x7f0000002000 0x20 old
garbage
7f0000003000 0 empty
7f0000003000 8
7f0000002000 20 new
7f0000004000 100 cut he";

    /// Check that places inside functions are named, the later name wins, and half a line names nothing.
    #[test]
    fn names_are_found() {
        let at = [
            0x7f00_0000_0fff,
            0x7f00_0000_1000,
            0x7f00_0000_103f,
            0x7f00_0000_1040,
            0x7f00_0000_1050,
            0x7f00_0000_2001,
            0x7f00_0000_3000,
            0x7f00_0000_4000,
        ];
        let found = find_function_names(MAP, &at);
        let main = Some("LazyCompile:~main /app/index.js:1:1");
        let python = Some("py::<module>:/app/a.py");
        let found: Vec<_> = found.iter().map(Option::as_deref).collect();
        assert_eq!(
            found,
            [None, main, main, python, None, Some("new"), None, None]
        );
    }

    /// Check that a line without an end is no reason to fill the memory.
    #[test]
    fn endless_lines_end() {
        let endless = std::io::repeat(b'7').take(1 << 40);
        assert_eq!(find_function_names(endless, &[7]), [None]);
    }

    /// Check that a map of which every line covers every address is not read for ever.
    #[test]
    fn overlaps_end() {
        let addresses: Vec<u64> = (0..10_000).collect();
        let map = b"0 ffffff f\n".repeat(100_000);
        let found = find_function_names(&map[..], &addresses);
        assert!(found.iter().all(|n| n.as_deref() == Some("f")));
    }

    proptest! {
        /// Check that whatever a JIT writes is read back.
        #[test]
        fn written_is_read(
            functions in proptest::collection::btree_map(0u64..1 << 40, "[!-~][ -~]{0,20}[!-~]", 1..30)
        ) {
            // 16 bytes each, so that none overlap
            let text: String = functions.iter().map(|(at, name)| format!("{:x} 10 {name}\n", at * 16)).collect();
            let addresses: Vec<u64> = functions.keys().map(|at| at * 16 + 15).collect();
            let found: Vec<String> = find_function_names(text.as_bytes(), &addresses).into_iter().flatten().collect();
            prop_assert_eq!(found, functions.into_values().collect::<Vec<_>>());
        }

        /// Check that no bytes make the reader panic.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300), address: u64) {
            let _ = find_function_names(&bytes[..], &[0, address]);
        }

        /// Check that a map with one byte changed and cut anywhere is read without panic.
        #[test]
        fn damaged(at in 0..MAP.len(), byte: u8, cut in 0..MAP.len(), address: u64) {
            let mut text = MAP.to_vec();
            text[at] = byte;
            let _ = find_function_names(&text[..cut], &[address]);
        }
    }
}
