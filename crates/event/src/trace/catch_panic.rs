//! Calls into libraries that may panic on garbled files.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static PANICS_ARE_QUIET: Cell<bool> = const { Cell::new(false) };
}

static HOOK_ONCE: Once = Once::new();

/// Calls `f`; `None` where it panics. The user gets one line about a garbled file and not the
/// library's message, so this thread's panics are not printed meanwhile. The caller must not use
/// anything that `f` changed after a panic.
pub(super) fn catch_quietly<T>(f: impl FnOnce() -> T) -> Option<T> {
    HOOK_ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            // During a thread's end the cell is gone, and then the panic is not from here.
            if !PANICS_ARE_QUIET.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
    let outer = PANICS_ARE_QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    PANICS_ARE_QUIET.set(outer);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::catch_quietly;

    /// Check that a panic becomes `None`, also where calls are nested.
    #[test]
    fn panics_are_caught() {
        assert_eq!(catch_quietly(|| 1), Some(1));
        assert_eq!(
            catch_quietly(|| catch_quietly(|| panic!("inner")).is_none()),
            Some(true)
        );
        assert!(catch_quietly(|| panic!("outer")).is_none());
    }
}
