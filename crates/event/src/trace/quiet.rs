//! Calls into libraries that may panic on garbled files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Calls `f`; `None` where it panics. The user gets one line about a garbled file and not the
/// library's message, so this thread's panics are not printed meanwhile. What `f` changed must not
/// be used after a panic.
pub(super) fn calm<T>(f: impl FnOnce() -> T) -> Option<T> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            // During a thread's end the cell is gone, and then the panic is not from here.
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    QUIET.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::calm;

    /// Check that a panic becomes `None`, also where calls are nested.
    #[test]
    fn panics_are_caught() {
        assert_eq!(calm(|| 1), Some(1));
        assert_eq!(calm(|| calm(|| panic!("inner")).is_none()), Some(true));
        assert!(calm(|| panic!("outer")).is_none());
    }
}
