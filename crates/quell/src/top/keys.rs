//! Turns the bytes of a terminal into keys.
//!
//! Crossterm's own events don't serve here: they wait for the rest of a sequence that has begun (Alt-[), and miss a key that
//! comes with a change of size, as their epoll tells of each only once (crossterm 0.29, event/source/unix/mio.rs). The probe's
//! records have to be read meanwhile.

use anstyle_parse::{DefaultCharAccumulator, Params, Parser, Perform};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

const ESCAPE_BYTE: u8 = 0x1b;
/// No key is longer, so a longer sequence is dropped.
const MAX_KEY_BYTES: usize = 64;

/// Reads keys, each of which may come in several pieces.
#[derive(Default)]
pub(super) struct KeyReader {
    parser: Parser<DefaultCharAccumulator>,
    found: KeyCollector,
    /// How many bytes came since the last key.
    pending: usize,
}

impl KeyReader {
    /// The keys that these bytes complete. An escape as the last byte is the Escape key: an escape that starts a sequence comes
    /// together with the bytes that follow it.
    pub(super) fn read_keys(&mut self, bytes: &[u8]) -> Vec<KeyEvent> {
        let (bytes, escape) = match bytes.split_last() {
            Some((&ESCAPE_BYTE, before)) => (before, true),
            _ => (bytes, false),
        };
        for &byte in bytes {
            let before = self.found.keys.len();
            self.parser.advance(&mut self.found, byte);
            self.pending += 1;
            if self.found.keys.len() > before {
                self.pending = 0;
            } else if self.pending > MAX_KEY_BYTES {
                self.drop_pending();
            }
        }
        if escape {
            self.drop_pending();
            self.found.push_key(KeyCode::Esc, KeyModifiers::NONE);
        }
        std::mem::take(&mut self.found.keys)
    }

    fn drop_pending(&mut self) {
        self.parser = Parser::default();
        self.found.single_shift = false;
        self.pending = 0;
    }
}

#[derive(Default)]
struct KeyCollector {
    keys: Vec<KeyEvent>,
    /// Whether the next letter belongs to a key: `ESC O` comes before some (ECMA-48, SS3).
    single_shift: bool,
}

impl KeyCollector {
    fn push_key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.keys.push(KeyEvent::new(code, modifiers));
    }

    /// Adds a key that is a character.
    fn push_character(&mut self, c: char) {
        match c {
            '\u{7f}' => self.push_key(KeyCode::Backspace, KeyModifiers::NONE),
            c if c.is_uppercase() => self.push_key(KeyCode::Char(c), KeyModifiers::SHIFT),
            c => self.push_key(KeyCode::Char(c), KeyModifiers::NONE),
        }
    }

    /// Adds a key that ends with a letter, as xterm has them (ctlseqs, "PC-Style Function Keys"). A small letter ends none: it is
    /// a key of its own after Alt-[ or Alt-O.
    fn push_lettered(&mut self, letter: char) {
        let code = match letter {
            'A' => KeyCode::Up,
            'B' => KeyCode::Down,
            'C' => KeyCode::Right,
            'D' => KeyCode::Left,
            'F' => KeyCode::End,
            'H' => KeyCode::Home,
            'M' => KeyCode::Enter,
            'P'..='S' => KeyCode::F(letter as u8 - b'P' + 1),
            'Z' => return self.push_key(KeyCode::BackTab, KeyModifiers::SHIFT),
            'a'..='z' => return self.push_character(letter),
            _ => return,
        };
        self.push_key(code, KeyModifiers::NONE);
    }

    /// Adds a key that a number names.
    fn push_numbered(&mut self, number: u16) {
        let function = |n: u16| KeyCode::F(u8::try_from(n).unwrap_or_default());
        let code = match number {
            1 | 7 => KeyCode::Home,
            2 => KeyCode::Insert,
            3 => KeyCode::Delete,
            4 | 8 => KeyCode::End,
            5 => KeyCode::PageUp,
            6 => KeyCode::PageDown,
            11..=15 => function(number - 10),
            17..=21 => function(number - 11),
            23..=24 => function(number - 12),
            _ => return,
        };
        self.push_key(code, KeyModifiers::NONE);
    }
}

impl Perform for KeyCollector {
    fn print(&mut self, c: char) {
        if std::mem::take(&mut self.single_shift) {
            return self.push_lettered(c);
        }
        self.push_character(c);
    }

    fn execute(&mut self, byte: u8) {
        self.single_shift = false;
        let code = match byte {
            b'\r' => KeyCode::Enter,
            b'\t' => KeyCode::Tab,
            0x08 => KeyCode::Backspace,
            // these bytes are Ctrl and a letter
            0x01..=0x1a => {
                let letter = char::from(byte - 1 + b'a');
                return self.push_key(KeyCode::Char(letter), KeyModifiers::CONTROL);
            }
            _ => return,
        };
        self.push_key(code, KeyModifiers::NONE);
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, byte: u8) {
        self.single_shift = false;
        if ignore || !intermediates.is_empty() {
            return;
        }
        if byte == b'~' {
            let number = params.iter().next().and_then(|p| p.first());
            self.push_numbered(number.copied().unwrap_or_default());
        } else {
            self.push_lettered(char::from(byte));
        }
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], ignore: bool, byte: u8) {
        self.single_shift = false;
        if ignore || !intermediates.is_empty() {
            return;
        }
        match byte {
            b'O' => self.single_shift = true,
            _ => self.push_key(KeyCode::Char(char::from(byte)), KeyModifiers::ALT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key_codes(bytes: &[u8]) -> Vec<KeyCode> {
        let keys = KeyReader::default().read_keys(bytes);
        keys.into_iter().map(|k| k.code).collect()
    }

    /// Check that every key that the view knows is told, in the forms that terminals have for it.
    #[test]
    fn keys_are_told() {
        use KeyCode::*;
        let all: &[(&[u8], KeyCode)] = &[
            (b"q", Char('q')),
            (b"R", Char('R')),
            ("ö".as_bytes(), Char('ö')),
            (b"\r", Enter),
            (b"\t", Tab),
            (b"\x7f", Backspace),
            (b"\x08", Backspace),
            (b"\x1b", Esc),
            (b"\x1b[A", Up),
            (b"\x1bOB", Down),
            (b"\x1b[C", Right),
            (b"\x1b[1;5D", Left),
            (b"\x1b[H", Home),
            (b"\x1b[4~", End),
            (b"\x1b[5~", PageUp),
            (b"\x1b[6~", PageDown),
            (b"\x1b[Z", BackTab),
            (b"\x1bOP", F(1)),
            (b"\x1b[11~", F(1)),
            (b"\x1b[24~", F(12)),
        ];
        for (bytes, code) in all {
            assert_eq!(key_codes(bytes), [*code], "{}", bytes.escape_ascii());
        }
        let together: Vec<u8> = all.iter().take(7).flat_map(|(b, _)| b.to_vec()).collect();
        let expected: Vec<KeyCode> = all.iter().take(7).map(|(_, code)| *code).collect();
        assert_eq!(key_codes(&together), expected);
        let quit = KeyReader::default().read_keys(b"\x03");
        assert_eq!(quit, [KeyEvent::new(Char('c'), KeyModifiers::CONTROL)]);
    }

    /// Check that a sequence that has begun keeps nobody, and that the keys after it come.
    #[test]
    fn what_has_begun_keeps_nobody() {
        let mut keys = KeyReader::default();
        assert_eq!(keys.read_keys(b"\x1b["), []);
        let up = keys.read_keys(b"A").into_iter().map(|k| k.code);
        assert_eq!(up.collect::<Vec<_>>(), [KeyCode::Up]);
        // Alt-[ and Alt-O, and then other keys
        for before in [&b"\x1b["[..], b"\x1bO"] {
            assert_eq!(keys.read_keys(before), []);
            assert_eq!(keys.read_keys(b"q")[0].code, KeyCode::Char('q'));
            assert_eq!(keys.read_keys(before), []);
            assert_eq!(keys.read_keys(b"\r")[0].code, KeyCode::Enter);
            assert_eq!(keys.read_keys(b"P").len(), 1);
            keys.drop_pending();
        }
        // a string that does not end
        assert_eq!(keys.read_keys(b"\x1b]0;"), []);
        assert!(!keys.read_keys(&[b'x'; 2 * MAX_KEY_BYTES]).is_empty());
        assert_eq!(keys.read_keys(b"\x1b").len(), 1);
        assert_eq!(keys.read_keys(b"q")[0].code, KeyCode::Char('q'));
    }

    proptest! {
        /// Check that no bytes do harm, that what is pending is bounded, and that an escape and a letter are two keys after
        /// any of them.
        #[test]
        fn any_bytes(all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..8)) {
            let mut keys = KeyReader::default();
            for bytes in all {
                keys.read_keys(&bytes);
                prop_assert!(keys.pending <= MAX_KEY_BYTES);
            }
            prop_assert!(keys.read_keys(b"\x1b").last().is_some_and(|k| k.code == KeyCode::Esc));
            prop_assert_eq!(keys.read_keys(b"q")[0].code, KeyCode::Char('q'));
        }
    }
}
