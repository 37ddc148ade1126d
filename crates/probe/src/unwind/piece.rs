//! Pieces of the stacks of programs, as the eBPF programs take them (`bpf/pieces.h`), and what these are told of them.
//!
//! A piece is in memory until it is unwound, with the next step of whoever watches, and is written nowhere.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, OpenMapMut};

use crate::error::Result;
use crate::layout::{self, Pod, pod};
use crate::loader;
use crate::recent::Recent;
use crate::ring::Ring;
use crate::unwind::Unwound;

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

/// Frames that were walked by frame pointers: there is room for so many.
const FRAMES: usize = 64;

const PAGE: usize = 4096;

/// Numbers of stacks with this bit are of pieces.
const IN_PIECES: i32 = 1 << 30;

/// So many stacks are known to the eBPF programs at once.
const MAX_KNOWN: u32 = 8192;

/// Of a known stack so many return addresses are compared,
const RETURN_FRAMES: usize = 24;
/// if they lie not more than so many words above the stack pointer.
const RETURN_WORDS: u64 = 256;

const STATE_UNWOUND: u32 = 1;
const STATE_WALKED: u32 = 2;

const KIND_AGAIN: u16 = 1;
const KIND_SINGLE: u16 = 2;

/// Room for pieces that nobody has read yet, bytes: 250 of them.
const RING_BYTES: u32 = 8 << 20;

/// How many are read in one go: all that the ring may hold.
const AT_ONCE: usize = 1 << 10;

/// So many that were followed wait for their records, which are asked for once the ring has been read.
const MAX_FOLLOWED: usize = 8 * AT_ONCE;

/// Whether the number of a user stack is that of a piece.
pub(crate) fn is_of_piece(number: i32) -> bool {
    number >= IN_PIECES
}

/// What a piece was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A stack that was not known.
    New,
    /// One that was taken for the one of this number.
    Again,
    /// One whose number is not given again.
    Single,
}

/// The upper end of a stack's memory, and where its registers pointed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) number: i32,
    pub(crate) pid: u32,
    pub(crate) kind: Kind,
    key: StackKey,
    pub(crate) bp: u64,
    /// The word on top of it.
    pub(crate) caller: u64,
    /// By frame pointers, innermost first.
    pub(crate) walked: Vec<u64>,
    /// Where its memory begins, at or below the stack pointer; and which of its pages are there, a bit each.
    base: u64,
    pages: u32,
    stack: Box<[u8]>,
}

impl Piece {
    /// What a record says; `None` if it is too short for what it claims.
    fn read(bytes: &[u8]) -> Option<Self> {
        let head: PieceHead = layout::read(bytes)?;
        let (walked, stack) = bytes
            .get(size_of::<PieceHead>()..)?
            .split_at_checked(FRAMES * size_of::<u64>())?;
        let words = walked.chunks_exact(size_of::<u64>());
        let words = words.filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
        Some(Self {
            number: head.number.cast_signed(),
            pid: head.tgid,
            kind: match head.kind {
                KIND_AGAIN => Kind::Again,
                KIND_SINGLE => Kind::Single,
                _ => Kind::New,
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
            walked: words
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

    /// The word at an address of the stack.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        // below is what functions left that have returned
        address.checked_sub(self.sp())?;
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let has = |at: usize| {
            let page = u32::try_from(at / PAGE).ok()?;
            self.pages.checked_shr(page).filter(|pages| pages & 1 == 1)
        };
        has(at)?;
        has(at.checked_add(size_of::<u64>() - 1)?)?;
        let word = self.stack.get(at..at.checked_add(size_of::<u64>())?)?;
        Some(u64::from_ne_bytes(word.try_into().ok()?))
    }

    /// What the eBPF programs are to know this stack by: its return addresses, each with where it lies.
    fn known(&self, state: u32, returns: &[(u64, u64)]) -> KnownStack {
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

/// What was made of a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Followed {
    /// Innermost first: the instruction, then return addresses.
    pub(crate) addresses: Vec<u64>,
    /// The word on top, where frame pointers had to do and may have missed who called.
    pub(crate) caller: u64,
    /// Frames are missing at its outer end, because there are too many.
    pub(crate) cut: bool,
    /// Its number is not given again.
    pub(crate) single: bool,
}

/// Stacks that came since the eBPF programs were made to forget theirs, and the pieces that nobody has unwound.
#[derive(Default)]
struct Came {
    pieces: Vec<Piece>,
    new: u32,
}

fn hash(addresses: &[u64]) -> u64 {
    let mut hasher = DefaultHasher::new();
    addresses.hash(&mut hasher);
    hasher.finish()
}

/// The pieces that one object's programs take.
pub(crate) struct Pieces {
    ring: Ring,
    known: MapHandle,
    came: Rc<RefCell<Came>>,
    /// By their number, until they are asked for: some never are, for a record may get lost.
    followed: RefCell<Recent<i32, Followed>>,
    /// By number, what known stacks were unwound to, as hashes.
    hashes: RefCell<HashMap<i32, u64>>,
    wrong: Cell<u64>,
}

impl Pieces {
    /// Sizes the maps of an object that takes pieces, or takes none; true if the map is one of these.
    pub(crate) fn size(map: &mut OpenMapMut<'_>, taken: bool) -> libbpf_rs::Result<bool> {
        match map.name().to_string_lossy().as_ref() {
            "known_stacks" => map.set_max_entries(if taken { MAX_KNOWN } else { 1 })?,
            "stack_pieces" if taken => {
                let available = quell_host::memory::available();
                map.set_max_entries(loader::ring_bytes(RING_BYTES, available))?;
            }
            // as it is: a page
            "stack_pieces" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Starts to read those of a loaded object.
    ///
    /// # Errors
    ///
    /// If the ring can't be mapped.
    pub(crate) fn new(object: &Object) -> Result<Self> {
        let came = Rc::new(RefCell::new(Came::default()));
        let theirs = Rc::clone(&came);
        let ring = Ring::new(&loader::map(object, "stack_pieces")?, move |bytes| {
            // never borrowed while the ring is read
            if let (Some(piece), Ok(mut came)) = (Piece::read(bytes), theirs.try_borrow_mut()) {
                came.new += u32::from(piece.kind == Kind::New);
                came.pieces.push(piece);
            }
        })?;
        Ok(Self {
            ring,
            known: loader::map(object, "known_stacks")?,
            came,
            followed: RefCell::new(Recent::new(MAX_FOLLOWED)),
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
    pub(crate) fn take(&self) -> Result<Vec<Piece>> {
        self.ring.read(AT_ONCE)?;
        let nearly_full = MAX_KNOWN / 4 * 3;
        if self.came.borrow().new > nearly_full {
            // what is still in use comes anew, with another number
            for key in self.known.keys() {
                // gone already is as well
                let _gone = self.known.delete(&key);
            }
            self.came.borrow_mut().new = 0;
            self.hashes.borrow_mut().clear();
        }
        Ok(std::mem::take(&mut self.came.borrow_mut().pieces))
    }

    /// Keeps what a piece was followed to, which is by frame pointers where these tell more, and tells the eBPF programs by
    /// what to know the stack: its return addresses, each with where it lies. Where that is not certain they are to
    /// forget it, and take another piece the next time.
    pub(crate) fn was_followed(&self, piece: Piece, unwound: &Unwound, is_better: bool) {
        let mut single = piece.kind == Kind::Single;
        let key = layout::bytes(&piece.key);
        if piece.kind == Kind::New {
            // those of a table that was emptied are gone already
            if unwound.is_certain {
                let state = if is_better {
                    STATE_UNWOUND
                } else {
                    STATE_WALKED
                };
                let known = piece.known(state, &unwound.returns);
                let _gone = self
                    .known
                    .update(key, layout::bytes(&known), MapFlags::EXIST);
            } else {
                single = true;
                let _gone = self.known.delete(key);
            }
            if is_better {
                let mut hashes = self.hashes.borrow_mut();
                hashes.insert(piece.number, hash(&unwound.addresses));
            }
        }
        let followed = if is_better {
            Followed {
                addresses: unwound.addresses.clone(),
                caller: 0,
                cut: unwound.is_cut(),
                single,
            }
        } else {
            Followed {
                cut: piece.walked.len() >= FRAMES,
                addresses: piece.walked,
                caller: piece.caller,
                single,
            }
        };
        self.followed.borrow_mut().insert(piece.number, followed);
    }

    /// The stack with this number, once.
    pub(crate) fn followed(&self, number: i32) -> Option<Followed> {
        self.followed.borrow_mut().remove(&number)
    }

    /// Counts a second piece that is of another stack than the one it was taken for.
    pub(crate) fn compare(&self, piece: &Piece, addresses: &[u64]) {
        let hashes = self.hashes.borrow();
        let before = hashes.get(&piece.number);
        if before.is_some_and(|&before| before != hash(addresses)) {
            self.wrong.set(self.wrong.get() + 1);
        }
    }

    /// How many second pieces were of other stacks than the first.
    pub(crate) fn wrong(&self) -> u64 {
        self.wrong.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(head: &PieceHead, walked: &[u64], stack: &[u8]) -> Vec<u8> {
        let mut words = walked.to_vec();
        words.resize(FRAMES, 0);
        let words: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        [layout::bytes(head), &words, stack].concat()
    }

    fn piece() -> Piece {
        let head = PieceHead {
            frames: 2,
            pages: 1,
            sp: 0x7008,
            base: 0x7000,
            ..PieceHead::default()
        };
        let stack: Vec<u8> = (0..512_u64).flat_map(u64::to_ne_bytes).collect();
        Piece::read(&record(&head, &[5, 6, 7], &stack)).unwrap()
    }

    /// Check that sizes are those of pieces.h.
    #[test]
    fn layouts_agree() {
        let header = include_str!("../bpf/pieces.h");
        let defines = |name, n| header.contains(&format!("#define {name} {n}\n"));
        assert!(defines("PIECE_FRAMES", FRAMES));
        assert!(defines("MAX_KNOWN_STACKS", MAX_KNOWN as usize));
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
        let words = [0x7000, 0x7008, 0x7018, 0x7ff8, 0x7ff9, u64::MAX].map(|a| piece.word(a));
        assert_eq!(words, [None, Some(1), Some(3), Some(511), None, None]);
    }

    /// Check that a stack is known by the return addresses that are within reach, and by no more than there is room for.
    #[test]
    fn returns_within_reach() {
        let piece = piece();
        let near = [(0x7008, 1), (0x7018, 3), (0x7008 + 8 * RETURN_WORDS, 9)];
        let known = piece.known(STATE_UNWOUND, &near);
        assert_eq!((known.frames, &known.at[..3]), (2, &[0, 2, 0][..]));
        assert_eq!(known.ips[..3], [1, 3, 0]);
        let many: Vec<(u64, u64)> = (0..100).map(|i| (0x7008 + 8 * i, i)).collect();
        let known = piece.known(STATE_UNWOUND, &many);
        assert_eq!(usize::from(known.frames), RETURN_FRAMES);
        assert_eq!(usize::from(known.reach), 8 * RETURN_FRAMES);
    }

    proptest! {
        /// Check that no record makes the reader fail.
        #[test]
        fn any_bytes(record in prop::collection::vec(any::<u8>(), 0..1200), at in any::<u64>()) {
            if let Some(piece) = Piece::read(&record) {
                prop_assert!(piece.walked.len() <= FRAMES);
                let _word = piece.word(at);
                prop_assert!(piece.known(STATE_WALKED, &[(at, 1)]).frames <= 1);
            }
        }
    }
}
