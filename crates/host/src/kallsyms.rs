//! `/proc/kallsyms`: where the functions of the running kernel lie.
//!
//! `ADDRESS TYPE NAME[\t[MODULE]]` a line (kernel/kallsyms.c, s_show). The addresses are those of this
//! boot, so a kernel at a random address (KASLR) needs no more than this. For those who may not know
//! them (kernel.kptr_restrict, and no CAP_SYSLOG) they are all zero; lockdown hides nothing here.

/// The address of a function. A compiler may have put a suffix to a static one (`.isra.0`,
/// `.constprop.0`). 0 where addresses are hidden.
#[must_use]
pub fn address_of(text: &[u8], name: &str) -> Option<u64> {
    let mut with_suffix = None;
    for line in text.split(|&b| b == b'\n') {
        let Some((address, kind, rest)) = split_symbol(line) else {
            continue;
        };
        let Some(tail) = rest.strip_prefix(name.as_bytes()) else {
            continue;
        };
        if !matches!(kind, b't' | b'T') {
            continue;
        }
        match tail.first() {
            None | Some(b'\t') => return Some(parse_address(address)),
            Some(b'.') => with_suffix = Some(parse_address(address)),
            Some(_) => {}
        }
    }
    with_suffix
}

/// Whether a variable of that name is there. They are in the list with `CONFIG_KALLSYMS_ALL` only.
#[must_use]
pub fn has_variable(text: &[u8], name: &str) -> bool {
    let mut symbols = text.split(|&b| b == b'\n').filter_map(split_symbol);
    symbols.any(|(_, kind, rest)| !matches!(kind, b't' | b'T') && rest == name.as_bytes())
}

/// Whether there are functions here and none says where it is.
#[must_use]
pub fn is_hidden(text: &[u8]) -> bool {
    let mut functions = text
        .split(|&b| b == b'\n')
        .filter_map(split_symbol)
        .filter(|(_, kind, _)| matches!(kind, b't' | b'T'))
        .peekable();
    functions.peek().is_some() && functions.all(|(address, ..)| parse_address(address) == 0)
}

/// The address, type and name of a line: 16 digits, a space, a letter, a space, and the rest.
fn split_symbol(line: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    Some((line.get(..16)?, *line.get(17)?, line.get(19..)?))
}

fn parse_address(digits: &[u8]) -> u64 {
    let digits = std::str::from_utf8(digits).ok();
    digits
        .and_then(|d| u64::from_str_radix(d, 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SYMBOLS: &[u8] = b"ffffffff81342490 t __pfx_flush_tlb_func\n\
        ffffffff813424a0 t flush_tlb_func\n\
        ffffffff81341e40 t do_flush_tlb_all.isra.0\n\
        ffffffff81341e50 D do_kernel_range_flush\n\
        ffffffffc0001000 t in_module\t[kvm]\n\
        short\n\n";

    /// Check that a function is found by its whole name, with a compiler's suffix, and only as code.
    #[test]
    fn functions_are_found() {
        let find = |name| address_of(SYMBOLS, name);
        assert_eq!(find("flush_tlb_func"), Some(0xffff_ffff_8134_24a0));
        assert_eq!(find("do_flush_tlb_all"), Some(0xffff_ffff_8134_1e40));
        assert_eq!(find("in_module"), Some(0xffff_ffff_c000_1000));
        assert_eq!(find("do_kernel_range_flush"), None);
        assert_eq!(find("flush_tlb"), None);
    }

    /// Check that hidden addresses are told from shown ones, and from a file that has none.
    #[test]
    fn hidden_addresses_are_told() {
        let hidden = b"0000000000000000 T _text\n0000000000000000 t flush_tlb_func\n";
        assert!(is_hidden(hidden));
        assert_eq!(address_of(hidden, "flush_tlb_func"), Some(0));
        assert!(!is_hidden(SYMBOLS));
        // per-CPU variables of older kernels lie at 0 for everybody
        assert!(!is_hidden(b"0000000000000000 A fixed_percpu_data\n"));
        assert!(!is_hidden(b""));
    }

    proptest! {
        /// Check that no bytes in place of kallsyms make the search fail.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = address_of(&bytes, "flush_tlb_func");
            let _ = is_hidden(&bytes);
        }

        /// Check that every function of a text is found where it says.
        #[test]
        fn written_is_found(
            functions in proptest::collection::hash_map("[a-z_]{1,12}", 1u64.., 1..20),
            module: bool,
        ) {
            let tail = if module { "\t[m]" } else { "" };
            let text: String = functions.iter().map(|(name, at)| format!("{at:016x} t {name}{tail}\n")).collect();
            for (name, at) in &functions {
                prop_assert_eq!(address_of(text.as_bytes(), name), Some(*at));
            }
            prop_assert!(!is_hidden(text.as_bytes()));
        }
    }
}
