//! Gives every stack one number, the same for as long as the recording lasts.

use std::collections::HashMap;

use quell_event::NO_STACK;

/// Above so many, callers are no longer told apart, so that garbage on stacks can't fill the memory.
const MAX_USER: usize = 1 << 16;

/// A stack that was seen for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStack {
    /// Its number.
    pub id: u32,
    /// The process, or `None` for a kernel stack.
    pub pid: Option<u32>,
    /// The number in the kernel's table; negative where the kernel kept none.
    pub(crate) kernel_id: i32,
    /// The word on top of the user stack: mostly who called the system call's wrapper.
    pub(crate) caller: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct UserKey {
    pid: u32,
    kernel_id: i32,
    caller: u64,
}

#[derive(Default)]
pub(crate) struct Interner {
    next: u32,
    kernel: HashMap<i32, u32>,
    user: HashMap<UserKey, u32>,
    last: Option<(UserKey, u32)>,
    last_kernel: Option<(i32, u32)>,
    new: Vec<NewStack>,
}

impl Interner {
    /// The number of a kernel stack.
    pub(crate) fn kernel(&mut self, kernel_id: i32) -> i32 {
        if kernel_id < 0 {
            return NO_STACK;
        }
        if let Some((known, id)) = self.last_kernel
            && known == kernel_id
        {
            return id.cast_signed();
        }
        let (next, new) = (&mut self.next, &mut self.new);
        let id = *self.kernel.entry(kernel_id).or_insert_with(|| {
            let id = *next;
            *next += 1;
            new.push(NewStack {
                id,
                pid: None,
                kernel_id,
                caller: 0,
            });
            id
        });
        self.last_kernel = Some((kernel_id, id));
        id.cast_signed()
    }

    /// The number of a user stack: the same addresses mean other code in another process.
    pub(crate) fn user(&mut self, pid: u32, kernel_id: i32, caller: u64) -> i32 {
        // not a return address of user space: 47 or 56 bits, and nothing maps the first page
        let plausible = (0x1000..1 << 56).contains(&caller);
        let caller = if plausible && self.user.len() < MAX_USER {
            caller
        } else {
            0
        };
        let key = UserKey {
            pid,
            kernel_id,
            caller,
        };
        if let Some((known, id)) = self.last
            && known == key
        {
            return id.cast_signed();
        }
        if self.user.len() >= 2 * MAX_USER && !self.user.contains_key(&key) {
            return NO_STACK;
        }
        let (next, new) = (&mut self.next, &mut self.new);
        let id = *self.user.entry(key).or_insert_with(|| {
            let id = *next;
            *next += 1;
            new.push(NewStack {
                id,
                pid: Some(pid),
                kernel_id,
                caller,
            });
            id
        });
        self.last = Some((key, id));
        id.cast_signed()
    }

    pub(crate) fn take_new(&mut self) -> Vec<NewStack> {
        std::mem::take(&mut self.new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the same stack keeps its number, and another process's doesn't share it.
    #[test]
    fn numbers_are_stable() {
        let mut i = Interner::default();
        let a = i.user(1, 5, 0x5000);
        let k = i.kernel(5);
        assert_eq!(i.user(2, 5, 0x5000), 2);
        assert_eq!(i.user(1, 5, 0x5000), a);
        assert_eq!(i.kernel(5), k);
        assert_eq!(i.kernel(-2), NO_STACK);
        assert_eq!(i.take_new().len(), 3);
        assert!(i.take_new().is_empty());
    }

    /// Check that garbage on the stack can't make numbers without end.
    #[test]
    fn garbage_is_bounded() {
        let mut i = Interner::default();
        for n in 0..4 * MAX_USER as u64 {
            i.user(1, 3, 0x10_0000 + n * 8);
        }
        assert!(i.take_new().len() <= MAX_USER + 1);
        assert_eq!(i.user(1, 3, u64::MAX), i.user(1, 3, 0));
    }
}
