//! The numbers of the account's stacks, of which each different stack gets one, within bounds.

use std::collections::HashMap;

use super::layout::WaitRecord;
use super::singles::UNNUMBERED_STACK;
use crate::recent::RecentMap;
use crate::unwind::{FollowedStack, is_of_piece};

/// The most user stacks that are told apart; those that come later have no function.
const MAX_USER_STACKS: usize = 1 << 16;

/// The numbers of these stacks begin here, so that one resolver can name them beside the stacks of shootdowns.
const FIRST_STACK_NUMBER: u32 = 1 << 30;

/// A user stack whose code has not been found yet.
struct UnresolvedStack {
    id: u32,
    pid: u32,
    source: UnresolvedSource,
}

/// Where the addresses of a stack are.
enum UnresolvedSource {
    Walked(WalkedStack),
    /// In the piece with this number, once it is unwound.
    Piece(i32),
}

/// The addresses of a stack by frame pointers.
pub(super) struct WalkedStack {
    /// Innermost first.
    pub(super) addresses: Vec<u64>,
    /// The word on top of the stack, or 0.
    pub(super) caller: u64,
}

/// A user stack whose addresses are known, and whose code is to be found.
pub(super) struct NewUserStack {
    pub(super) id: u32,
    pub(super) pid: u32,
    pub(super) addresses: NewStackAddresses,
}

/// The addresses of a new user stack, by the way that they were found.
pub(super) enum NewStackAddresses {
    Walked(WalkedStack),
    /// By unwinding a piece.
    Followed(FollowedStack),
}

/// The user stacks since somebody asked last.
#[derive(Default)]
pub(super) struct NewUserStacks {
    pub(super) stacks: Vec<NewUserStack>,
    /// For numbers that were given too early, the number that the stack has: it was known already by another one, or it is
    /// [`UNNUMBERED_STACK`] because its piece never came.
    pub(super) renumbered: HashMap<u32, u32>,
}

/// The numbers that were given. A stack that can't be read now, or finds no room now, gets [`UNNUMBERED_STACK`], and that isn't
/// remembered: the next record with it asks again.
pub(super) struct StackNumbers {
    /// The number that was given last, without the bit that all have.
    last_number: u32,
    /// Those of kernel stacks, by their functions, one to a line.
    kernel: HashMap<String, u32>,
    /// Those of user stacks, by process, addresses and the word on top.
    by_addresses: HashMap<(u32, Box<[u64]>, u64), u32>,
    /// Those of waits' user stacks, by process, number in the map of stacks, and the word on top.
    by_wait: HashMap<(u32, i32, u64), u32>,
    /// Those of user stacks by the number of their piece.
    by_piece: RecentMap<i32, u32>,
    unresolved: Vec<UnresolvedStack>,
    /// How many of `unresolved`, from the first on, are of processes whose mappings were asked for since the stack came.
    with_mappings: usize,
}

impl StackNumbers {
    pub(super) fn new() -> Self {
        Self {
            last_number: 0,
            kernel: HashMap::new(),
            by_addresses: HashMap::new(),
            by_wait: HashMap::new(),
            by_piece: RecentMap::new(2 * MAX_USER_STACKS),
            unresolved: Vec::new(),
            with_mappings: 0,
        }
    }

    /// The number of the kernel stack with these functions, one to a line, if it has one.
    pub(super) fn known_kernel_stack(&self, functions: &str) -> Option<u32> {
        self.kernel.get(functions).copied()
    }

    /// Gives a kernel stack that has no number one, unless there are `max_count` already.
    pub(super) fn number_kernel_stack(
        &mut self,
        functions: String,
        max_count: usize,
    ) -> Option<u32> {
        if self.kernel.len() >= max_count {
            return None;
        }
        let id = self.next_number();
        self.kernel.insert(functions, id);
        Some(id)
    }

    /// The number of the user stack with these addresses, innermost first. `caller` is the word on top of the stack, or 0.
    pub(super) fn number_user_stack(&mut self, pid: u32, addresses: Vec<u64>, caller: u64) -> u32 {
        if addresses.is_empty() {
            return UNNUMBERED_STACK;
        }
        let key = (pid, addresses.into_boxed_slice(), caller);
        if let Some(known) = self.by_addresses.get(&key) {
            return *known;
        }
        let walked = WalkedStack {
            addresses: key.1.to_vec(),
            caller,
        };
        let Some(id) = self.number_unresolved(pid, UnresolvedSource::Walked(walked)) else {
            return UNNUMBERED_STACK;
        };
        self.by_addresses.insert(key, id);
        id
    }

    /// The number of the user stack that this piece was taken from.
    pub(super) fn number_piece_stack(&mut self, pid: u32, piece: i32) -> u32 {
        if let Some(known) = self.by_piece.get(piece) {
            return known;
        }
        let Some(id) = self.number_unresolved(pid, UnresolvedSource::Piece(piece)) else {
            return UNNUMBERED_STACK;
        };
        self.by_piece.insert(piece, id);
        id
    }

    /// The number of a wait's user stack. `read_addresses` gives the addresses that the map of stacks has under a number, and
    /// none if it can't be read: a read costs a system call, so it is left out for stacks that are known.
    pub(super) fn number_wait_stack(
        &mut self,
        wait: &WaitRecord,
        read_addresses: impl FnOnce(i32) -> Vec<u64>,
    ) -> u32 {
        if is_of_piece(wait.ustack) {
            return self.number_piece_stack(wait.tgid, wait.ustack);
        }
        // The kernel kept no stack.
        if wait.ustack < 0 {
            return UNNUMBERED_STACK;
        }
        let key = (wait.tgid, wait.ustack, wait.caller);
        if let Some(known) = self.by_wait.get(&key) {
            return *known;
        }
        let addresses = read_addresses(wait.ustack);
        // Numbers are never taken back, so a full table stays full.
        let is_refused_for_good =
            !addresses.is_empty() && self.by_addresses.len() >= MAX_USER_STACKS;
        let id = self.number_user_stack(wait.tgid, addresses, wait.caller);
        let is_final = id != UNNUMBERED_STACK || is_refused_for_good;
        if is_final && self.by_wait.len() < MAX_USER_STACKS {
            self.by_wait.insert(key, id);
        }
        id
    }

    /// Gives a new user stack its number, unless there are too many.
    fn number_unresolved(&mut self, pid: u32, source: UnresolvedSource) -> Option<u32> {
        if self.by_addresses.len() + self.unresolved.len() >= MAX_USER_STACKS {
            return None;
        }
        let id = self.next_number();
        self.unresolved.push(UnresolvedStack { id, pid, source });
        Some(id)
    }

    fn next_number(&mut self) -> u32 {
        self.last_number = (self.last_number + 1) % FIRST_STACK_NUMBER;
        FIRST_STACK_NUMBER + self.last_number
    }

    /// Calls `see` for each user stack that came since the last call, with its process and its addresses. Of a stack that is still to
    /// be unwound there are none yet.
    pub(super) fn see_new_stacks(&mut self, mut see: impl FnMut(u32, &[u64])) {
        let new = self.unresolved.get(self.with_mappings..);
        for stack in new.unwrap_or_default() {
            match &stack.source {
                UnresolvedSource::Walked(walked) => see(stack.pid, &walked.addresses),
                UnresolvedSource::Piece(_) => see(stack.pid, &[]),
            }
        }
        self.with_mappings = self.unresolved.len();
    }

    /// The user stacks that came since the last call, with their addresses. `take_followed` gives the stack that a piece was
    /// unwound to.
    pub(super) fn take_new_stacks(
        &mut self,
        mut take_followed: impl FnMut(i32) -> Option<FollowedStack>,
    ) -> NewUserStacks {
        let mut new = NewUserStacks::default();
        self.with_mappings = 0;
        for UnresolvedStack { id, pid, source } in std::mem::take(&mut self.unresolved) {
            let piece = match source {
                UnresolvedSource::Walked(walked) => {
                    let addresses = NewStackAddresses::Walked(walked);
                    new.stacks.push(NewUserStack { id, pid, addresses });
                    continue;
                }
                UnresolvedSource::Piece(piece) => piece,
            };
            let Some(followed) = take_followed(piece) else {
                // Pieces are read after the records that name them, so it should be there; but its ring may have failed, and
                // only so many unwound stacks are kept. If it comes later, the next record with its number gets it.
                self.by_piece.remove(&piece);
                new.renumbered.insert(id, UNNUMBERED_STACK);
                continue;
            };
            if followed.single {
                self.by_piece.remove(&piece);
            }
            // The same stack may be known already, from another piece or by frame pointers.
            let addresses = followed.addresses.clone().into_boxed_slice();
            let key = (pid, addresses, followed.caller);
            if let Some(&known) = self.by_addresses.get(&key) {
                new.renumbered.insert(id, known);
                if !followed.single {
                    self.by_piece.insert(piece, known);
                }
                continue;
            }
            self.by_addresses.insert(key, id);
            let addresses = NewStackAddresses::Followed(followed);
            new.stacks.push(NewUserStack { id, pid, addresses });
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of a piece, as the eBPF programs give it.
    const PIECE: i32 = (1 << 30) + 5;

    fn followed(addresses: &[u64]) -> FollowedStack {
        FollowedStack {
            addresses: addresses.to_vec(),
            ..FollowedStack::default()
        }
    }

    /// Check that a wait's stack which could not be read is read at the next wait, and then is not read again.
    #[test]
    fn unread_stacks_are_read_later() {
        let mut numbers = StackNumbers::new();
        let wait = WaitRecord {
            tgid: 7,
            ustack: 3,
            ..WaitRecord::default()
        };
        let unread = numbers.number_wait_stack(&wait, |_| Vec::new());
        assert_eq!(unread, UNNUMBERED_STACK);
        let read = numbers.number_wait_stack(&wait, |_| vec![0x10, 0x20]);
        assert_ne!(read, UNNUMBERED_STACK);
        let known = numbers.number_wait_stack(&wait, |_| panic!("it is known"));
        assert_eq!(known, read);
        let new = numbers.take_new_stacks(|_| None);
        assert_eq!(new.stacks.iter().map(|s| s.id).collect::<Vec<_>>(), [read]);
    }

    /// Check that a wait's stack for which there was no room gets its number once there is some.
    #[test]
    fn refused_stacks_are_numbered_later() {
        let mut numbers = StackNumbers::new();
        for piece in 0..i32::try_from(MAX_USER_STACKS).unwrap() {
            let _number = numbers.number_piece_stack(7, (1 << 30) + piece);
        }
        let wait = WaitRecord {
            tgid: 7,
            ustack: 3,
            ..WaitRecord::default()
        };
        let refused = numbers.number_wait_stack(&wait, |_| vec![0x10]);
        assert_eq!(refused, UNNUMBERED_STACK);
        let _without_pieces = numbers.take_new_stacks(|_| None);
        let numbered = numbers.number_wait_stack(&wait, |_| vec![0x10]);
        assert_ne!(numbered, UNNUMBERED_STACK);
    }

    /// Check that what was counted for a piece that did not come has no stack, and that the piece is used if it comes later.
    #[test]
    fn late_pieces_are_used() {
        let mut numbers = StackNumbers::new();
        let early = numbers.number_piece_stack(7, PIECE);
        let new = numbers.take_new_stacks(|_| None);
        assert_eq!(new.renumbered, HashMap::from([(early, UNNUMBERED_STACK)]));
        let later = numbers.number_piece_stack(7, PIECE);
        let new = numbers.take_new_stacks(|_| Some(followed(&[0x10])));
        assert_eq!(new.stacks.iter().map(|s| s.id).collect::<Vec<_>>(), [later]);
        assert_eq!(numbers.number_piece_stack(7, PIECE), later);
    }

    /// Check that a stack which is known by its addresses keeps its number when it comes again in a piece.
    #[test]
    fn same_stacks_have_one_number() {
        let mut numbers = StackNumbers::new();
        let walked = numbers.number_user_stack(7, vec![0x10], 0);
        let in_piece = numbers.number_piece_stack(7, PIECE);
        let mut seen = Vec::new();
        for _ in 0..2 {
            numbers.see_new_stacks(|pid, addresses| seen.push((pid, addresses.to_vec())));
        }
        assert_eq!(seen, [(7, vec![0x10]), (7, vec![])]);
        let new = numbers.take_new_stacks(|_| Some(followed(&[0x10])));
        assert_eq!(new.renumbered, HashMap::from([(in_piece, walked)]));
        assert_eq!(numbers.number_piece_stack(7, PIECE), walked);
    }
}
