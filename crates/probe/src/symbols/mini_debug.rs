//! `.gnu_debugdata`: a small symbol table inside a stripped file.
//!
//! Fedora and its relatives put the functions that strip(1) takes away back as an ELF file compressed
//! with xz (GDB's manual, "MiniDebugInfo").

use xz4rust::{DICT_SIZE_MIN, XzDecoder};

/// The most bytes that a section may become: that of a large browser is 20 MB.
const MAX_UNPACKED_BYTES: usize = 128 << 20;

/// The most bytes of a section that is unpacked at all, because a stream of empty blocks takes time and makes nothing.
const MAX_PACKED_BYTES: usize = 64 << 20;

/// The largest window into the unpacked bytes. `xz -9` asks for 64 MiB.
const MAX_WINDOW_BYTES: usize = 64 << 20;

/// So much is unpacked at a time.
const UNPACK_STEP_BYTES: usize = 256 << 10;

/// The ELF file in the section; `None` if it is damaged or too large.
pub(super) fn unpack_mini_debug(mut section: &[u8]) -> Option<Vec<u8>> {
    if section.len() > MAX_PACKED_BYTES {
        return None;
    }
    let mut decoder = XzDecoder::in_heap_with_alloc_dict_size(DICT_SIZE_MIN, MAX_WINDOW_BYTES);
    let mut file = Vec::new();
    let mut room = vec![0; UNPACK_STEP_BYTES];
    loop {
        let step = decoder.decode(section, &mut room).ok()?;
        let (taken, made) = (step.input_consumed(), step.output_produced());
        file.extend_from_slice(room.get(..made)?);
        section = section.get(taken..)?;
        if file.len() > MAX_UNPACKED_BYTES {
            return None;
        }
        if step.is_end_of_stream() {
            return Some(file);
        }
        // The section is cut short.
        if taken == 0 && made == 0 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    /// Compresses with xz, or says loudly that it can't.
    fn xz(test: &str, level: &str, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut command = Command::new("xz");
        command
            .args([level, "--stdout"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED {test}: no xz");
            return None;
        };
        let mut input = child.stdin.take().unwrap();
        let bytes = bytes.to_vec();
        let writer = std::thread::spawn(move || input.write_all(&bytes));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        Some(output.stdout)
    }

    /// Check that what xz packs at any level is unpacked, and that cut or damaged it is refused.
    #[test]
    fn packed_is_unpacked() {
        let text: Vec<u8> = (0..400_000u32)
            .flat_map(|n| (n.wrapping_mul(n) % 1013).to_le_bytes())
            .collect();
        for level in ["-0", "-6", "-9"] {
            let Some(packed) = xz("packed_is_unpacked", level, &text) else {
                return;
            };
            assert!(unpack_mini_debug(&packed) == Some(text.clone()), "{level}");
            for cut in [0, 1, 20, packed.len() / 2, packed.len() - 1] {
                assert!(
                    unpack_mini_debug(&packed[..cut]).is_none(),
                    "{level} cut at {cut}"
                );
            }
        }
    }

    /// Check that a small section can't fill the memory.
    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; MAX_UNPACKED_BYTES + UNPACK_STEP_BYTES];
        if let Some(packed) = xz("bombs_are_refused", "-0", &zeros) {
            assert!(packed.len() < 1 << 20);
            assert!(unpack_mini_debug(&packed).is_none());
        }
    }

    proptest! {
        /// Check that no bytes make the decoder panic or go on for ever.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = unpack_mini_debug(&bytes);
            let mut with_head = b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec();
            with_head.extend(bytes);
            let _ = unpack_mini_debug(&with_head);
        }
    }
}
