//! Whether an address is where a call returns to.

/// Is the end of these bytes a call of x86-64? `e8` with four bytes of distance, or `ff /2` with a
/// register, a memory operand, and one or four bytes of displacement (Intel SDM, volume 2, CALL).
pub(crate) fn ends_in_call(code: &[u8]) -> bool {
    let at = |back: usize| {
        code.len()
            .checked_sub(back)
            .and_then(|i| code.get(i))
            .copied()
    };
    let indirect = |back: usize| {
        at(back) == Some(0xff) && at(back - 1).is_some_and(|modrm| modrm & 0x38 == 0x10)
    };
    at(5) == Some(0xe8) || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that calls of every form are seen, and that what precedes another instruction is not.
    #[test]
    fn calls_are_recognised() {
        assert!(ends_in_call(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        assert!(ends_in_call(&[0, 0, 0, 0, 0, 0xff, 0xd0])); // call *%rax
        assert!(ends_in_call(&[0, 0xff, 0x15, 1, 2, 3, 4])); // call *disp(%rip)
        assert!(ends_in_call(&[0, 0, 0, 0, 0xff, 0x53, 0x18])); // call *0x18(%rbx)
        assert!(!ends_in_call(&[0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10]));
        assert!(!ends_in_call(&[0xff, 0xe0]));
        assert!(!ends_in_call(&[]));
    }
}
