//! The function that a program's call would have reached without this library.
//!
//! dlsym(3) with RTLD_NEXT would say it, and is in a library of its own before glibc 2.34, which few programs load; and
//! where it finds nothing it allocates. So the tables of the loaded files are read here, as the loader reads them:
//! elf(5), and for the hash table glibc's elf/dl-lookup.c.

use core::ffi::{CStr, c_char, c_int, c_void};

/// `struct dl_phdr_info`, as far as it is read (dl_iterate_phdr(3)).
#[repr(C)]
struct LoadedFile {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: usize,
    physical: usize,
    in_file: usize,
    in_memory: usize,
    align: usize,
}

/// `Elf64_Dyn`.
#[repr(C)]
struct DynamicEntry {
    tag: usize,
    value: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct ElfSymbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        look: unsafe extern "C" fn(*const LoadedFile, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}

/// The name that is looked for, and the function that was found.
struct SymbolSearch<'a> {
    name: &'a CStr,
    /// This library was passed: only files behind it count, as with RTLD_NEXT.
    behind: bool,
    found: Option<usize>,
}

/// The address of a function of this name in a file that was loaded behind this library, if there is one.
pub(super) fn next_function(name: &CStr) -> Option<usize> {
    let mut sought = SymbolSearch {
        name,
        behind: false,
        found: None,
    };
    // SAFETY: `visit_loaded_file` takes the pointer that is given here, which lives until the call is over.
    unsafe { dl_iterate_phdr(visit_loaded_file, (&raw mut sought).cast()) };
    sought.found
}

/// Looks at one file that is loaded; something else than 0 ends it.
unsafe extern "C" fn visit_loaded_file(
    loaded: *const LoadedFile,
    _size: usize,
    sought: *mut c_void,
) -> c_int {
    // SAFETY: the loader's description of a file, which stays loaded while it calls us; and the pointer that
    // `next_function` gave it.
    unsafe {
        let (loaded, sought) = (&*loaded, &mut *sought.cast::<SymbolSearch<'_>>());
        if !sought.behind {
            sought.behind = loaded.contains_address(&raw const OWN_LANDMARK as usize);
            return 0;
        }
        sought.found = loaded.defined_function(sought.name);
        c_int::from(sought.found.is_some())
    }
}

/// Lies in this library.
static OWN_LANDMARK: u8 = 0;

impl LoadedFile {
    /// # Safety
    ///
    /// As for all of these: the file is loaded until the caller is done.
    unsafe fn program_headers(&self) -> &[ProgramHeader] {
        if self.headers.is_null() {
            return &[];
        }
        // SAFETY: the loader keeps them as long as the file.
        unsafe { core::slice::from_raw_parts(self.headers, usize::from(self.count)) }
    }

    /// Whether an address lies in its mapped segments.
    unsafe fn contains_address(&self, address: usize) -> bool {
        const PT_LOAD: u32 = 1;
        // SAFETY: the caller's.
        let mut loads = unsafe { self.program_headers() }
            .iter()
            .filter(|h| h.kind == PT_LOAD);
        loads.any(|h| address.wrapping_sub(self.base.wrapping_add(h.address)) < h.in_memory)
    }

    /// Where something is by its entry: glibc has added the base already, and musl leaves it as it is in the file.
    unsafe fn address_of(&self, value: usize) -> Option<usize> {
        let both = [value, self.base.wrapping_add(value)];
        // SAFETY: the caller's.
        both.into_iter()
            .find(|at| unsafe { self.contains_address(*at) })
    }

    /// The value of the first entry of its dynamic section with this tag, as a place.
    unsafe fn dynamic_address(&self, tag: usize) -> Option<usize> {
        const PT_DYNAMIC: u32 = 2;
        const DT_NULL: usize = 0;
        // SAFETY: the section ends with DT_NULL.
        unsafe {
            let header = self
                .program_headers()
                .iter()
                .find(|h| h.kind == PT_DYNAMIC)?;
            let mut entry = self.base.wrapping_add(header.address) as *const DynamicEntry;
            while (*entry).tag != DT_NULL {
                if (*entry).tag == tag {
                    return self.address_of((*entry).value);
                }
                entry = entry.add(1);
            }
        }
        None
    }

    /// A function that it defines for others. Where it has no hash table in GNU's form, it is taken to have none: every
    /// glibc for this processor has one.
    unsafe fn defined_function(&self, name: &CStr) -> Option<usize> {
        const DT_STRTAB: usize = 5;
        const DT_SYMTAB: usize = 6;
        const DT_GNU_HASH: usize = 0x6fff_fef5;
        // SAFETY: the tables are of the form that the loader reads.
        unsafe {
            let texts = self.dynamic_address(DT_STRTAB)? as *const c_char;
            let symbols = self.dynamic_address(DT_SYMTAB)? as *const ElfSymbol;
            let hashes = self.dynamic_address(DT_GNU_HASH)? as *const u32;
            let hash = gnu_hash(name.to_bytes());
            let [buckets, first, filters, _] = *hashes.cast::<[u32; 4]>();
            if buckets == 0 {
                return None;
            }
            // Behind the four numbers come the filter's words of 64 bits, the buckets, and the hashes of the symbols from
            // number `first` on.
            let heads = hashes.add(4 + 2 * filters as usize);
            let chain = heads.add(buckets as usize);
            let mut at = *heads.add((hash % buckets) as usize);
            while at >= first {
                let theirs = *chain.add((at - first) as usize);
                let symbol = &*symbols.add(at as usize);
                let is_it = theirs | 1 == hash | 1
                    && symbol.is_function()
                    && CStr::from_ptr(texts.add(symbol.name as usize)) == name;
                if is_it {
                    return self.address_of(symbol.value);
                }
                // The last of a bucket has the lowest bit of its hash set, so the loop ends.
                if theirs & 1 == 1 {
                    break;
                }
                at += 1;
            }
        }
        None
    }
}

impl ElfSymbol {
    /// Whether it is a function that is defined here, and not one that is asked of others.
    fn is_function(&self) -> bool {
        const STT_FUNC: u8 = 2;
        self.section != 0 && self.info & 15 == STT_FUNC
    }
}

/// The hash by which the tables go.
fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381, |hash: u32, byte| {
        hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
    })
}
