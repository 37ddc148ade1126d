//! malloc_trim(3): glibc gives back whole free pages of every heap whatever its thresholds say, so that no tunable stops a
//! program which calls that by a timer or after each request.

use core::ffi::c_int;

use super::{next_function, shim_of_process};

type MallocTrim = unsafe extern "C" fn(usize) -> c_int;

exported! {
    fn malloc_trim(pad: usize) -> c_int {
        if shim_of_process().is_some_and(|shim| shim.drops_heap_trim()) {
            return 0;
        }
        match next_function::next_function(c"malloc_trim") {
            // SAFETY: it is the program's function of that name, which is of this type by its man page.
            Some(address) => core::mem::transmute::<usize, MallocTrim>(address)(pad),
            // musl has none.
            None => 0,
        }
    }
}
