//! Leaves parts of quell's work out where memory is short: first stacks by `.eh_frame`, because the tables of a large
//! program's files take tens of megabytes, then the account. Where even the rest has no room quell does not begin: the
//! kernel would kill a process in the middle, and that may be the watched program.
//!
//! The free memory is read once at the beginning, of the machine and of the control group that quell is in.

use quell_host::memory::available_bytes;

/// With less than this, stacks are followed by frame pointers alone. Watching a whole machine took up to 159 MB with tables
/// and 110 MB without; in a group of 96 MB the kernel killed quell with them.
const MIN_BYTES_FOR_TABLES: u64 = 192 << 20;

/// With less than this left beside the loaded probe there is no account: its rings and the names of its functions took
/// up to 54 MB.
const MIN_BYTES_FOR_ACCOUNT: u64 = 72 << 20;

/// The need of a recording without either, with the names of code: it took 52 MB in a group of 60 MB, and in one of 48 MB
/// the kernel killed it.
const MIN_BYTES_FOR_RECORDING: u64 = 56 << 20;

/// The need of counting: it took 28 MB in a group of 32 MB.
const MIN_BYTES_FOR_COUNTING: u64 = 28 << 20;

fn is_short(needed: u64, left_out: &str) -> bool {
    let available = available_bytes().filter(|&available| available < needed);
    if let Some(available) = available {
        say!("quell: {}", shortage_line(available, left_out));
    }
    available.is_some()
}

fn shortage_line(available: u64, left_out: &str) -> String {
    format!("{} MB of memory are left here: {left_out}", available >> 20)
}

/// Whether stacks may be followed by `.eh_frame`, if that was wanted; says so where not.
pub(crate) fn may_unwind(asked: bool) -> bool {
    asked
        && !is_short(
            MIN_BYTES_FOR_TABLES,
            "stacks are followed by frame pointers alone (--no-unwind), and may end early",
        )
}

/// Whether there is room for an account beside the loaded probe; says so where not.
pub(crate) fn may_account() -> bool {
    !is_short(MIN_BYTES_FOR_ACCOUNT, "no account of the time")
}

/// Checks that a recording has room.
///
/// # Errors
///
/// It has no room; nothing was started.
pub(crate) fn room_for_recording() -> anyhow::Result<()> {
    let than = "for less, 'quell stat' counts";
    has_room(
        available_bytes(),
        MIN_BYTES_FOR_RECORDING,
        "a recording",
        than,
    )
}

/// Checks that counting has room.
///
/// # Errors
///
/// It has no room; nothing was started.
pub(crate) fn room_for_counting() -> anyhow::Result<()> {
    let than = "'--backend proc' needs next to nothing";
    has_room(available_bytes(), MIN_BYTES_FOR_COUNTING, "to count", than)
}

fn has_room(available: Option<u64>, needed: u64, what: &str, helps: &str) -> anyhow::Result<()> {
    match available {
        Some(available) if available < needed => anyhow::bail!(
            "{what} takes {} MB of memory, and {} MB are free here, so the kernel might kill a process: {helps}",
            needed >> 20,
            available >> 20
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check that the line has the free memory and its consequence.
    #[test]
    fn says_what_is_left() {
        assert_eq!(
            shortage_line(62 << 20, "no account of the time"),
            "62 MB of memory are left here: no account of the time"
        );
    }

    /// Check that work without room is refused with the memory that it takes, the free memory, and an alternative; and nothing
    /// else is.
    #[test]
    fn refuses_without_room() {
        let has = |available| has_room(available, 56 << 20, "a recording", "count");
        let refused = has(Some((56 << 20) - 1)).unwrap_err().to_string();
        let expected = "a recording takes 56 MB of memory, and 55 MB are free here, so the kernel might kill a process: count";
        assert_eq!(refused, expected);
        assert!(has(Some(56 << 20)).is_ok() && has(None).is_ok());
    }
}
