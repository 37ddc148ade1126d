//! Prints the entries of the catalogue of advice, as docs/advice.md ends with them.

fn main() {
    print!("{}", quell_remedy::advice::page());
}
