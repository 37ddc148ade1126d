//! Words for people, on stderr. Nobody may be there to read them: a closed or full stderr is no reason to fail what
//! was done (std's macros panic).

/// A line. It has no colours, and whatever of others is in it stays in it ([`quell_event::text::clean`]).
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::line("", &format!($($words)*))
    };
}

/// Without an end of line, and as it is: for texts with colours, whose foreign parts are cleaned already.
macro_rules! say_on {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(anstream::stderr(), $($words)*);
    }};
}

/// A line behind a text of ours, which may have colours.
pub(crate) fn line(ours: &str, text: &str) {
    use std::io::Write as _;
    let _ = writeln!(
        anstream::stderr(),
        "{ours}{}",
        quell_event::text::clean(text)
    );
}
