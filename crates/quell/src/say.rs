//! Words for people, on stderr. Nobody may be there to read them: a closed or full stderr is no reason to fail what
//! was done (std's macros panic).

/// A line.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(anstream::stderr(), $($words)*);
    }};
}

/// Without an end of line.
macro_rules! say_on {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(anstream::stderr(), $($words)*);
    }};
}
