//! Names out of a stripped Go program: its runtime prints stack traces, so it keeps the table that
//! strip(1) and the linker's `-s` leave alone.
//!
//! The table's layout is Go's own (src/internal/abi/symtab.go and src/runtime/symtab.go, `pcHeader`),
//! the same since Go 1.18 except for its first number. Older tables are not read.

use quell_host::functions::{self, ReadRef};

/// The first number of a table since Go 1.18, and since Go 1.20.
const GO_TABLE_MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];

/// The function at which a program of Go's own linker begins, on x86-64.
const GO_ENTRY_SYMBOL: &[u8] = b"_rt0_amd64_linux";

/// The names of the functions at linked addresses.
pub(super) fn names_at<'d>(
    data: impl ReadRef<'d>,
    addresses: &[u64],
) -> Option<Vec<Option<String>>> {
    let table = functions::section_contents(data, ".gopclntab")
        .or_else(|| functions::section_contents(data, ".data.rel.ro.gopclntab"))?;
    let table = GoFunctionTable::parse(data, table)?;
    let name = |address: &u64| {
        let (_, name) = table.function_at(*address)?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Some(addresses.iter().map(name).collect())
}

struct GoFunctionTable<'d> {
    /// The address from which the functions' addresses are counted.
    text: u64,
    functions: usize,
    names: &'d [u8],
    /// A list of (address, place of its record) as 32-bit numbers, and the records.
    list: &'d [u8],
}

impl<'d> GoFunctionTable<'d> {
    fn parse<'f>(data: impl ReadRef<'f>, table: &'d [u8]) -> Option<Self> {
        let magic = read_u32(table, 0)?;
        let known = GO_TABLE_MAGICS.contains(&u32::try_from(magic).ok()?) && *table.get(7)? == 8;
        let field = |n: usize| read_u64(table, 8 + 8 * n).filter(|_| known);
        let part = |n: usize| table.get(usize::try_from(field(n)?).ok()?..);
        let functions = usize::try_from(field(0)?).ok()?;
        let (names, list) = (part(3)?, part(7)?);
        // Position-independent programs have 0 here until they are loaded, and Go 1.26 always has.
        let (text, sure) = match field(2)? {
            0 => (functions::section_address(data, ".text")?, false),
            text => (text, true),
        };
        let table = Self {
            text,
            functions,
            names,
            list,
        };
        // With C code linked in, .text begins with that, and the table would be read wrong. The function at which the program
        // starts shows whether it is.
        let entry = functions::entry_address(data)?;
        (sure || table.function_at(entry) == Some((entry, GO_ENTRY_SYMBOL))).then_some(table)
    }

    /// The function at an address: where it starts, and its name.
    fn function_at(&self, address: u64) -> Option<(u64, &'d [u8])> {
        let wanted = address.checked_sub(self.text)?;
        let (mut low, mut high) = (0, self.functions);
        // The search finds the last function that begins at or before the address.
        while low < high {
            let middle = low + (high - low) / 2;
            if read_u32(self.list, middle.checked_mul(8)?)? <= wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let at = low.checked_sub(1)?.checked_mul(8)?;
        // The entry after the last function is its end.
        if low == self.functions && read_u32(self.list, low.checked_mul(8)?)? <= wanted {
            return None;
        }
        let record = usize::try_from(read_u32(self.list, at + 4)?).ok()?;
        let name = usize::try_from(read_u32(self.list, record.checked_add(4)?)?).ok()?;
        let name = self.names.get(name..)?;
        let end = name.iter().take(4096).position(|b| *b == 0)?;
        let start = self.text.checked_add(read_u32(self.list, at)?)?;
        Some((start, &name[..end])).filter(|_| end > 0)
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_le_bytes(word).into())
}

fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let long = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
    Some(u64::from_le_bytes(long))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Check that no bytes in place of the table make the reader panic.
        #[test]
        fn any_bytes(tail in proptest::collection::vec(any::<u8>(), 64..400), at: u64) {
            let mut bytes = GO_TABLE_MAGICS[1].to_le_bytes().to_vec();
            bytes.extend([0, 0, 1, 8]);
            bytes.extend(&tail);
            // the fields small, so that they point into it
            for field in 0..8 {
                bytes[8 + 8 * field + 2..16 + 8 * field].fill(0);
            }
            if let Some(table) = GoFunctionTable::parse(&[][..], &bytes) {
                let _ = table.function_at(at);
            }
            let lists = GoFunctionTable { text: 0, functions: tail.len(), names: &tail, list: &tail };
            let _ = lists.function_at(at % 0xffff_ffff);
        }
    }
}
