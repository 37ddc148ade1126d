//! Gives every stack one number, the same for as long as the recording lasts.

use std::collections::HashMap;
use std::hash::Hash;

use quell_event::NO_STACK;

/// With more user stacks than this, callers are no longer told apart, so that garbage on stacks can't fill the memory.
const MAX_STACKS_WITH_CALLER: usize = 1 << 16;

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
struct UserStackKey {
    pid: u32,
    kernel_id: i32,
    caller: u64,
}

/// The numbers of stacks, by what tells them apart. Most records have the stack of the one before, so that one is kept apart,
/// where it is found without a hash.
struct StackNumbers<K> {
    numbers: HashMap<K, u32>,
    last: Option<(K, u32)>,
}

impl<K> Default for StackNumbers<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            last: None,
        }
    }
}

impl<K: Copy + Eq + Hash> StackNumbers<K> {
    fn known_number(&mut self, key: K) -> Option<u32> {
        if let Some((last, number)) = self.last
            && last == key
        {
            return Some(number);
        }
        let number = *self.numbers.get(&key)?;
        self.last = Some((key, number));
        Some(number)
    }

    fn insert(&mut self, key: K, number: u32) {
        self.numbers.insert(key, number);
        self.last = Some((key, number));
    }
}

#[derive(Default)]
pub(crate) struct StackInterner {
    next_id: u32,
    kernel: StackNumbers<i32>,
    user: StackNumbers<UserStackKey>,
    new_stacks: Vec<NewStack>,
}

impl StackInterner {
    /// The number of a kernel stack.
    pub(crate) fn intern_kernel(&mut self, kernel_id: i32) -> i32 {
        if kernel_id < 0 {
            return NO_STACK;
        }
        if let Some(id) = self.kernel.known_number(kernel_id) {
            return id.cast_signed();
        }
        let id = self.add_new_stack(None, kernel_id, 0);
        self.kernel.insert(kernel_id, id);
        id.cast_signed()
    }

    /// The number of a user stack. Processes have numbers of their own, because the same addresses mean other code there.
    pub(crate) fn intern_user(&mut self, pid: u32, kernel_id: i32, caller: u64) -> i32 {
        // A return address of user space has 47 or 56 bits, and nothing is mapped at the first page.
        let plausible = (0x1000..1 << 56).contains(&caller);
        let caller = if plausible && self.user.numbers.len() < MAX_STACKS_WITH_CALLER {
            caller
        } else {
            0
        };
        let key = UserStackKey {
            pid,
            kernel_id,
            caller,
        };
        if let Some(id) = self.user.known_number(key) {
            return id.cast_signed();
        }
        if self.user.numbers.len() >= 2 * MAX_STACKS_WITH_CALLER {
            return NO_STACK;
        }
        let id = self.add_new_stack(Some(pid), kernel_id, caller);
        self.user.insert(key, id);
        id.cast_signed()
    }

    /// Gives a stack the next number.
    fn add_new_stack(&mut self, pid: Option<u32>, kernel_id: i32, caller: u64) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        self.new_stacks.push(NewStack {
            id,
            pid,
            kernel_id,
            caller,
        });
        id
    }

    pub(crate) fn take_new(&mut self) -> Vec<NewStack> {
        std::mem::take(&mut self.new_stacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the same stack keeps its number, and another process's doesn't share it.
    #[test]
    fn numbers_are_stable() {
        let mut i = StackInterner::default();
        let a = i.intern_user(1, 5, 0x5000);
        let k = i.intern_kernel(5);
        assert_eq!(i.intern_user(2, 5, 0x5000), 2);
        assert_eq!(i.intern_user(1, 5, 0x5000), a);
        assert_eq!(i.intern_kernel(5), k);
        assert_eq!(i.intern_kernel(-2), NO_STACK);
        assert_eq!(i.take_new().len(), 3);
        assert!(i.take_new().is_empty());
    }

    /// Check that garbage on the stack can't make numbers without end.
    #[test]
    fn garbage_is_bounded() {
        let mut i = StackInterner::default();
        for n in 0..4 * MAX_STACKS_WITH_CALLER as u64 {
            i.intern_user(1, 3, 0x10_0000 + n * 8);
        }
        assert!(i.take_new().len() <= MAX_STACKS_WITH_CALLER + 1);
        assert_eq!(i.intern_user(1, 3, u64::MAX), i.intern_user(1, 3, 0));
    }
}
