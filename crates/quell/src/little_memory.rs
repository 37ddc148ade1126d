//! What quell leaves out where memory is short: first stacks by `.eh_frame`, for the tables of a large program's files are
//! tens of megabytes, then the account. Where even the rest has no room it does not begin: the kernel would end
//! somebody in the middle, and that may be the program that is watched.
//!
//! What is left is asked in the beginning: of the machine, and of the control group that quell is in.

use quell_host::memory::available;

/// With less than this, bytes, stacks are followed by frame pointers alone. Watching a whole machine took up to 159 MB
/// with tables and 110 MB without; in a group of 96 MB the kernel ended quell with them.
const FOR_TABLES: u64 = 192 << 20;

/// With less than this left beside the loaded probe there is no account: its rings and the names of its functions took
/// up to 54 MB.
const FOR_ACCOUNT: u64 = 72 << 20;

/// What a recording takes without either, with the names of code: 52 MB with 60, and with 48 the kernel ended it.
const FOR_RECORDING: u64 = 56 << 20;

/// What counting takes: 28 MB with 32.
const FOR_COUNTING: u64 = 28 << 20;

fn is_short(needed: u64, left_out: &str) -> bool {
    let available = available().filter(|&available| available < needed);
    if let Some(available) = available {
        say!("quell: {}", line(available, left_out));
    }
    available.is_some()
}

fn line(available: u64, left_out: &str) -> String {
    format!("{} MB of memory are left here: {left_out}", available >> 20)
}

/// Whether stacks may be followed by `.eh_frame`, if that is asked for; says where not.
pub(crate) fn may_unwind(asked: bool) -> bool {
    asked
        && !is_short(
            FOR_TABLES,
            "stacks are followed by frame pointers alone (--no-unwind), and may end early",
        )
}

/// Whether there is room for an account beside the loaded probe; says where not.
pub(crate) fn may_account() -> bool {
    !is_short(FOR_ACCOUNT, "no account of the time")
}

/// Whether a recording has room.
///
/// # Errors
///
/// It has none; nothing was begun.
pub(crate) fn room_for_recording() -> anyhow::Result<()> {
    let than = "for less, 'quell stat' counts";
    has_room(available(), FOR_RECORDING, "a recording", than)
}

/// Whether counting has room.
///
/// # Errors
///
/// It has none; nothing was begun.
pub(crate) fn room_for_counting() -> anyhow::Result<()> {
    let than = "'--backend proc' needs next to nothing";
    has_room(available(), FOR_COUNTING, "to count", than)
}

fn has_room(available: Option<u64>, needed: u64, what: &str, helps: &str) -> anyhow::Result<()> {
    match available {
        Some(available) if available < needed => anyhow::bail!(
            "{what} takes {} MB of memory, and {} are left here, so that the kernel might end somebody: {helps}",
            needed >> 20,
            available >> 20
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the line has what is left and what that means.
    #[test]
    fn says_what_is_left() {
        assert_eq!(
            line(62 << 20, "no account of the time"),
            "62 MB of memory are left here: no account of the time"
        );
    }

    /// Check that what has no room is refused with what it takes, what there is, and what helps; and nothing else.
    #[test]
    fn refuses_without_room() {
        let has = |available| has_room(available, 56 << 20, "a recording", "count");
        let refused = has(Some((56 << 20) - 1)).unwrap_err().to_string();
        let expected = "a recording takes 56 MB of memory, and 55 are left here, so that the kernel might end somebody: count";
        assert_eq!(refused, expected);
        assert!(has(Some(56 << 20)).is_ok() && has(None).is_ok());
    }
}
