//! malloc_trim(3): glibc gives back whole free pages of every heap whatever its thresholds say, so that no tunable stops a
//! program which calls that by a timer or after each request.

use core::ffi::c_int;

use super::{next, shim};

type Trim = unsafe extern "C" fn(usize) -> c_int;

exported! {
    fn malloc_trim(pad: usize) -> c_int {
        if shim().is_some_and(|shim| shim.drops_heap_trim()) {
            return 0;
        }
        match next::function(c"malloc_trim") {
            // SAFETY: it is the program's function of that name, which is of this type by its man page.
            Some(address) => core::mem::transmute::<usize, Trim>(address)(pad),
            // musl has none.
            None => 0,
        }
    }
}
