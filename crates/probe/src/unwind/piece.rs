//! Pieces of the stacks of programs, as the eBPF programs take them (`bpf/pieces.h`), and the table by which these know stacks
//! again.
//!
//! A piece is in memory until it is unwound, in the watcher's next step, and is written nowhere.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, OpenMapMut};

use crate::bpf_maps;
use crate::error::Result;
use crate::layout::{self, Pod, pod};
use crate::recent::RecentMap;
use crate::record_ring::RecordRing;
use crate::unwind::UnwoundStack;

pod! {
    struct StackKey {
        mm: u64,
        ip: u64,
        sp: u64,
        variant: u32,
        zero: u32,
    }
    struct PieceHead {
        number: u32,
        tgid: u32,
        frames: u16,
        kind: u16,
        pages: u32,
        mm: u64,
        ip: u64,
        sp: u64,
        variant: u32,
        zero: u32,
        bp: u64,
        base: u64,
        caller: u64,
    }
    struct KnownStack {
        number: u32,
        state: u32,
        answers: u32,
        frames: u16,
        reach: u16,
        at: [u16; RETURN_FRAMES],
        ips: [u64; RETURN_FRAMES],
    }
}

/// A piece has room for so many frames that were walked by frame pointers.
const MAX_WALKED_FRAMES: usize = 64;

/// A piece has whole pages of the stack.
const PAGE_BYTES: usize = 4096;

/// Numbers of stacks with this bit are of pieces.
const STACK_IN_PIECES: i32 = 1 << 30;

/// The eBPF programs know so many stacks at once.
const MAX_KNOWN_STACKS: u32 = 8192;

/// At most so many return addresses of a known stack are compared.
const RETURN_FRAMES: usize = 24;
/// Return addresses are compared if they lie within so many words above the stack pointer.
const RETURN_WORDS: u64 = 256;

const STACK_UNWOUND: u32 = 1;
const STACK_WALKED: u32 = 2;

const PIECE_AGAIN: u16 = 1;
const PIECE_SINGLE: u16 = 2;

/// The ring has room for 250 pieces that nobody has read yet.
const PIECE_RING_BYTES: u32 = 8 << 20;

/// The most pieces that one call reads: all that the ring may hold.
const MAX_PIECES_AT_ONCE: usize = 1 << 10;

/// The most unwound stacks that wait for the records with their numbers.
const MAX_FOLLOWED_STACKS: usize = 8 * MAX_PIECES_AT_ONCE;

/// Whether the number of a user stack is that of a piece.
pub(crate) fn is_of_piece(number: i32) -> bool {
    number >= STACK_IN_PIECES
}

/// Why a piece was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceKind {
    /// Its stack was not known.
    New,
    /// Its stack was taken for the known one of this number, which the piece is to check.
    Again,
    /// Its stack gets a number that is not given again.
    Single,
}

/// The end of a stack's memory where its innermost frames lie, and where its registers pointed: so many whole pages from the one
/// with the stack pointer on as PIECE_PAGES says (`bpf/pieces.h`), those that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StackPiece {
    pub(crate) number: i32,
    pub(crate) pid: u32,
    pub(crate) kind: PieceKind,
    key: StackKey,
    pub(crate) bp: u64,
    /// The word on top of the stack.
    pub(crate) caller: u64,
    /// The frames by frame pointers, innermost first.
    pub(crate) walked: Vec<u64>,
    /// Where its memory begins, at or below the stack pointer. `pages` has a bit for each page that is there.
    base: u64,
    pages: u32,
    stack: Box<[u8]>,
}

impl StackPiece {
    /// Reads the piece of a record; `None` if the record is too short for its frames.
    fn read(bytes: &[u8]) -> Option<Self> {
        let head: PieceHead = layout::read_pod(bytes)?;
        let (walked, stack) = bytes
            .get(size_of::<PieceHead>()..)?
            .split_at_checked(MAX_WALKED_FRAMES * size_of::<u64>())?;
        Some(Self {
            number: head.number.cast_signed(),
            pid: head.tgid,
            kind: match head.kind {
                PIECE_AGAIN => PieceKind::Again,
                PIECE_SINGLE => PieceKind::Single,
                _ => PieceKind::New,
            },
            key: StackKey {
                mm: head.mm,
                ip: head.ip,
                sp: head.sp,
                variant: head.variant,
                zero: 0,
            },
            bp: head.bp,
            caller: head.caller,
            walked: layout::words_of(walked)
                .take(head.frames.into())
                .take_while(|&word| word != 0)
                .collect(),
            base: head.base,
            pages: head.pages,
            stack: stack.into(),
        })
    }

    pub(crate) fn ip(&self) -> u64 {
        self.key.ip
    }

    pub(crate) fn sp(&self) -> u64 {
        self.key.sp
    }

    /// The eight bytes at an address of the stack, aligned or not; `None` below the stack pointer, beyond the piece, or where one of
    /// its pages is missing.
    pub(crate) fn stack_word(&self, address: u64) -> Option<u64> {
        // Below the stack pointer lie words of functions that have returned.
        address.checked_sub(self.sp())?;
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let has = |at: usize| {
            let page = u32::try_from(at / PAGE_BYTES).ok()?;
            self.pages.checked_shr(page).filter(|pages| pages & 1 == 1)
        };
        has(at)?;
        has(at.checked_add(size_of::<u64>() - 1)?)?;
        let word = self.stack.get(at..at.checked_add(size_of::<u64>())?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    /// The entry by which the eBPF programs are to know this stack: its return addresses, each with its place.
    fn to_known_stack(&self, state: u32, returns: &[(u64, u64)]) -> KnownStack {
        let mut known = KnownStack {
            number: self.number.cast_unsigned(),
            state,
            ..KnownStack::default()
        };
        let words = returns.iter().map_while(|&(address, ip)| {
            let above = address.checked_sub(self.sp())? / 8;
            (above < RETURN_WORDS).then_some((u16::try_from(above).ok()?, ip))
        });
        for (slot, (at, ip)) in (0..RETURN_FRAMES).zip(words) {
            known.at[slot] = at;
            known.ips[slot] = ip;
            known.frames += 1;
            known.reach = (at + 1) * 8;
        }
        known
    }
}

/// The stack that was made of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FollowedStack {
    /// Innermost first: the instruction, then return addresses.
    pub(crate) addresses: Vec<u64>,
    /// The word on top, where only frame pointers could be used, which may miss the caller.
    pub(crate) caller: u64,
    /// Whether frames are missing at its outer end, because there are too many.
    pub(crate) cut: bool,
    /// Its number is not given again.
    pub(crate) single: bool,
}

/// The pieces that have arrived and wait to be unwound, and the count of new stacks since the eBPF programs last forgot theirs.
#[derive(Default)]
struct ArrivedPieces {
    pieces: Vec<StackPiece>,
    new_count: u32,
}

fn hash_addresses(addresses: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    addresses.hash(&mut hasher);
    hasher.finish()
}

/// The pieces that one object's programs take.
pub(crate) struct StackPieces {
    ring: RecordRing,
    known: MapHandle,
    arrived: Rc<RefCell<ArrivedPieces>>,
    /// Unwound stacks by their number, until they are asked for. Some never are, because a record may get lost.
    followed: RefCell<RecentMap<i32, FollowedStack>>,
    /// Hashes of the addresses that known stacks were unwound to, by number.
    hashes: RefCell<HashMap<i32, u64>>,
    wrong: Cell<u64>,
}

impl StackPieces {
    /// Sizes a map of an object, for taking pieces or for taking none; true if it is one of the maps of pieces.
    pub(crate) fn size_map(map: &mut OpenMapMut<'_>, taken: bool) -> libbpf_rs::Result<bool> {
        match map.name().to_string_lossy().as_ref() {
            "known_stacks" => map.set_max_entries(if taken { MAX_KNOWN_STACKS } else { 1 })?,
            "stack_pieces" if taken => {
                let available = quell_host::memory::available_bytes();
                map.set_max_entries(bpf_maps::fitting_ring_bytes(PIECE_RING_BYTES, available))?;
            }
            // Without pieces the ring keeps its size of a page.
            "stack_pieces" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Starts to read the pieces of a loaded object.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub(crate) fn new(object: &Object) -> Result<Self> {
        let arrived = Rc::new(RefCell::new(ArrivedPieces::default()));
        let ring = RecordRing::with_receiver(
            &bpf_maps::open_map(object, "stack_pieces")?,
            &arrived,
            |arrived: &mut ArrivedPieces, bytes| {
                if let Some(piece) = StackPiece::read(bytes) {
                    arrived.new_count += u32::from(piece.kind == PieceKind::New);
                    arrived.pieces.push(piece);
                }
            },
        )?;
        Ok(Self {
            ring,
            known: bpf_maps::open_map(object, "known_stacks")?,
            arrived,
            followed: RefCell::new(RecentMap::new(MAX_FOLLOWED_STACKS)),
            hashes: RefCell::default(),
            wrong: Cell::default(),
        })
    }

    /// The pieces that came since the last call. Each is there before the record that names it, so records are read
    /// first.
    ///
    /// # Errors
    ///
    /// If libbpf fails to read.
    pub(crate) fn take_pieces(&self) -> Result<Vec<StackPiece>> {
        self.ring.read_records(MAX_PIECES_AT_ONCE)?;
        let nearly_full = MAX_KNOWN_STACKS / 4 * 3;
        if self.arrived.borrow().new_count > nearly_full {
            // Stacks that are still in use come anew, with another number.
            for key in self.known.keys() {
                // It does not matter if the entry is gone already.
                let _gone = self.known.delete(&key);
            }
            self.arrived.borrow_mut().new_count = 0;
            self.hashes.borrow_mut().clear();
        }
        Ok(std::mem::take(&mut self.arrived.borrow_mut().pieces))
    }

    /// Keeps the stack that a piece was unwound to, or the walk by frame pointers where that has more, and tells the eBPF
    /// programs how to know the stack again. Where the stack is not certain they forget it, and take another piece the
    /// next time.
    pub(crate) fn keep_followed(&self, piece: StackPiece, unwound: &UnwoundStack, is_better: bool) {
        let mut single = piece.kind == PieceKind::Single;
        let key = layout::bytes_of(&piece.key);
        if piece.kind == PieceKind::New {
            // An entry is gone already if its table was emptied meanwhile.
            if unwound.is_certain {
                let state = if is_better {
                    STACK_UNWOUND
                } else {
                    STACK_WALKED
                };
                let known = piece.to_known_stack(state, &unwound.returns);
                let _gone = self
                    .known
                    .update(key, layout::bytes_of(&known), MapFlags::EXIST);
            } else {
                single = true;
                let _gone = self.known.delete(key);
            }
            if is_better {
                let mut hashes = self.hashes.borrow_mut();
                hashes.insert(piece.number, hash_addresses(&unwound.addresses));
            }
        }
        let followed = if is_better {
            FollowedStack {
                addresses: unwound.addresses.clone(),
                caller: 0,
                cut: unwound.is_cut(),
                single,
            }
        } else {
            FollowedStack {
                cut: piece.walked.len() >= MAX_WALKED_FRAMES,
                addresses: piece.walked,
                caller: piece.caller,
                single,
            }
        };
        self.followed.borrow_mut().insert(piece.number, followed);
    }

    /// The stack with this number, once.
    pub(crate) fn take_followed(&self, number: i32) -> Option<FollowedStack> {
        self.followed.borrow_mut().remove(&number)
    }

    /// Counts a second piece whose stack is another than the known one that it was taken for.
    pub(crate) fn compare_again(&self, piece: &StackPiece, addresses: &[u64]) {
        let hashes = self.hashes.borrow();
        let before = hashes.get(&piece.number);
        if before.is_some_and(|&before| before != hash_addresses(addresses)) {
            self.wrong.set(self.wrong.get() + 1);
        }
    }

    /// How many second pieces had other stacks than the first.
    pub(crate) fn wrong_count(&self) -> u64 {
        self.wrong.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(head: &PieceHead, walked: &[u64], stack: &[u8]) -> Vec<u8> {
        let mut words = walked.to_vec();
        words.resize(MAX_WALKED_FRAMES, 0);
        let words: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        [layout::bytes_of(head), &words, stack].concat()
    }

    fn piece() -> StackPiece {
        let head = PieceHead {
            frames: 2,
            pages: 1,
            sp: 0x7008,
            base: 0x7000,
            ..PieceHead::default()
        };
        let stack: Vec<u8> = (0..512_u64).flat_map(u64::to_ne_bytes).collect();
        StackPiece::read(&record(&head, &[5, 6, 7], &stack)).unwrap()
    }

    /// Check that sizes are those of pieces.h.
    #[test]
    fn layouts_agree() {
        let header = include_str!("../bpf/pieces.h");
        let defines = |name, n| header.contains(&format!("#define {name} {n}\n"));
        assert!(defines("PIECE_FRAMES", MAX_WALKED_FRAMES));
        assert!(defines("MAX_KNOWN_STACKS", MAX_KNOWN_STACKS as usize));
        assert!(defines("RETURN_FRAMES", RETURN_FRAMES));
        assert!(defines(
            "RETURN_WORDS",
            usize::try_from(RETURN_WORDS).unwrap()
        ));
        assert_eq!((size_of::<PieceHead>(), PieceHead::padding()), (72, 0));
        assert_eq!((size_of::<StackKey>(), StackKey::padding()), (32, 0));
        let known = 16 + 10 * RETURN_FRAMES;
        assert_eq!((size_of::<KnownStack>(), KnownStack::padding()), (known, 0));
    }

    /// Check that words are found from the stack pointer on and nowhere else.
    #[test]
    fn words_are_where_they_lay() {
        let piece = piece();
        assert_eq!(piece.walked, [5, 6]);
        let words = [0x7000, 0x7008, 0x7018, 0x7ff8, 0x7ff9, u64::MAX].map(|a| piece.stack_word(a));
        assert_eq!(words, [None, Some(1), Some(3), Some(511), None, None]);
    }

    /// Check that a stack is known by the return addresses that are within reach, and by no more than there is room for.
    #[test]
    fn returns_within_reach() {
        let piece = piece();
        let near = [(0x7008, 1), (0x7018, 3), (0x7008 + 8 * RETURN_WORDS, 9)];
        let known = piece.to_known_stack(STACK_UNWOUND, &near);
        assert_eq!((known.frames, &known.at[..3]), (2, &[0, 2, 0][..]));
        assert_eq!(known.ips[..3], [1, 3, 0]);
        let many: Vec<(u64, u64)> = (0..100).map(|i| (0x7008 + 8 * i, i)).collect();
        let known = piece.to_known_stack(STACK_UNWOUND, &many);
        assert_eq!(usize::from(known.frames), RETURN_FRAMES);
        assert_eq!(usize::from(known.reach), 8 * RETURN_FRAMES);
    }

    proptest! {
        /// Check that no record makes the reader fail.
        #[test]
        fn any_bytes(record in prop::collection::vec(any::<u8>(), 0..1200), at in any::<u64>()) {
            if let Some(piece) = StackPiece::read(&record) {
                prop_assert!(piece.walked.len() <= MAX_WALKED_FRAMES);
                let _word = piece.stack_word(at);
                prop_assert!(piece.to_known_stack(STACK_WALKED, &[(at, 1)]).frames <= 1);
            }
        }
    }
}
