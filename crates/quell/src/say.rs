//! Messages for people, on stderr. A closed or full stderr must not make finished work fail, so errors are ignored (std's
//! macros panic).

/// Prints a line without colours. Text of other programs can't break out of the line ([`quell_event::text::clean_text`]).
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::write_line("", &format!($($words)*))
    };
}

/// Prints text as it is, without a newline: for texts with colours, whose foreign parts are cleaned already.
macro_rules! say_on {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(anstream::stderr(), $($words)*);
    }};
}

/// Prints a line after a prefix of our own, which may have colours.
pub(crate) fn write_line(ours: &str, text: &str) {
    use std::io::Write as _;
    let _ = writeln!(
        anstream::stderr(),
        "{ours}{}",
        quell_event::text::clean_text(text)
    );
}
