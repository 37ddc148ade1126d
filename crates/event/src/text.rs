//! Text of others: names that processes give themselves, paths, symbols, contents of files. Whoever wrote it may have meant
//! it for the terminal of who reads it.

use std::borrow::{Borrow, Cow};
use std::ffi::OsStr;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

/// A longer text is cut: the longest path has room.
pub const MAX_TEXT_CHARS: usize = 4096;

/// This character stands for each one that is not shown.
const UNSHOWN_MARK: char = '?';

/// This character stands for the end of a text that was cut.
const CUT_MARK: char = '…';

/// Whether a character is seen where it stands and does nothing else: a terminal obeys control characters, those that
/// turn the direction of writing show a text as another one, and those without width or that separate lines hide or
/// part it.
#[must_use]
pub fn is_plain(c: char) -> bool {
    !c.is_control()
        && !matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Returns the text with `?` for each character that is not plain, and not longer than [`MAX_TEXT_CHARS`]. A text that was cleaned before
/// stays as it is.
#[must_use]
pub fn clean_text(text: &str) -> Cow<'_, str> {
    cut_text(text, MAX_TEXT_CHARS)
}

fn cut_text(text: &str, most: usize) -> Cow<'_, str> {
    // no text has more characters than bytes
    if text.len() <= most && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if is_plain(c) { c } else { UNSHOWN_MARK };
    // a text that has just room ends in no mark
    let Some((end, _)) = text.char_indices().nth(most) else {
        return Cow::Owned(text.chars().map(shown).collect());
    };
    let kept = text[..end].chars().map(shown).take(most.saturating_sub(1));
    Cow::Owned(kept.chain([CUT_MARK]).collect())
}

/// A text of others, cleaned when it came in: it can be printed, compared and written into any file, and its
/// bytes before that are not kept. Who needs the bytes, to open a file or to run a command, takes them from where they were, and
/// prints this.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Text(String);

impl Text {
    /// Of bytes that need not be UTF-8, such as a path's.
    #[must_use]
    pub fn from_os_str(text: impl AsRef<OsStr>) -> Self {
        text.as_ref().to_string_lossy().into()
    }

    /// With so many characters at most; the last says that more were there.
    #[must_use]
    pub fn cut_to(&self, most: usize) -> Self {
        Self(cut_text(&self.0, most).into_owned())
    }

    /// The cleaned text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'a> From<Cow<'a, str>> for Text {
    fn from(text: Cow<'a, str>) -> Self {
        match clean_text(&text) {
            Cow::Owned(clean) => Self(clean),
            Cow::Borrowed(_) => Self(text.into_owned()),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Cow::<'_, str>::Owned(text).into()
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Cow::Borrowed(text).into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        clean_string(from).map(Self)
    }
}

/// For fields that are filled with raw text where it is needed, and read from files of others: [`clean_text`] then.
pub(crate) fn clean_string<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(match clean_text(&text) {
        Cow::Owned(clean) => clean,
        Cow::Borrowed(_) => text,
    })
}

/// [`clean_string`] of a list.
pub(crate) fn clean_list<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<Text>::deserialize(from)?;
    Ok(texts.into_iter().map(|t| t.0).collect())
}

/// [`clean_string`] where there may be none.
pub(crate) fn clean_optional_string<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<Text>::deserialize(from)?;
    Ok(text.map(|t| t.0))
}

/// Returns JSON that is safe to look at: each character in its strings that is not plain becomes `\uXXXX`, which says the same. Outside of
/// strings JSON has nothing of it but spaces and ends of lines, which stay.
#[must_use]
pub fn escape_json(json: &str) -> Cow<'_, str> {
    let stays = |c: char| is_plain(c) || matches!(c, '\n' | '\t' | '\r');
    if json.chars().all(stays) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if stays(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Check that nothing a terminal acts on is left, that what is readable stays, and that each character stands for one.
    #[test]
    fn hostile_text_is_plain() {
        let hostile =
            "a\u{1b}[31mb\r\n\u{9b}2J\u{7}\u{202e}c\u{2028}\u{200b}\u{feff}\u{e0041} é 日本";
        let text = Text::from(hostile);
        assert_eq!(text, "a?[31mb???2J??c???? é 日本");
        assert_eq!(format!("{text:?}"), "\"a?[31mb???2J??c???? é 日本\"");
        let read: Text = serde_json::from_str(&serde_json::to_string(hostile).unwrap()).unwrap();
        assert_eq!(read, text);
        let bytes = <OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"/x\x1b\xff");
        assert_eq!(Text::from_os_str(bytes), "/x?\u{fffd}");
    }

    /// Check that a long text is cut and says so, and that one that has just room does not.
    #[test]
    fn long_text_is_cut() {
        let text = Text::from("é".repeat(1 << 20));
        assert_eq!(text.chars().count(), MAX_TEXT_CHARS);
        assert!(text.ends_with("é…"));
        assert_eq!(
            Text::from("é".repeat(MAX_TEXT_CHARS)),
            "é".repeat(MAX_TEXT_CHARS).as_str()
        );
        assert_eq!(Text::from("abcd").cut_to(3), "ab…");
        assert_eq!(Text::from("abc").cut_to(3), "abc");
    }

    /// Check that a JSON document says the same when it is safe to look at.
    #[test]
    fn json_says_the_same() {
        let hostile = "\u{202e}\u{9b}\u{7f}\u{1b}\u{e0041}\n";
        let document = serde_json::to_string_pretty(&[hostile]).unwrap();
        let safe = escape_json(&document);
        assert!(safe.chars().all(|c| c == '\n' || is_plain(c)), "{safe:?}");
        let read: [String; 1] = serde_json::from_str(&safe).unwrap();
        assert_eq!(read[0], hostile);
    }

    proptest! {
        /// Check for any text that what is left is plain, bounded, and the same when it is cleaned again.
        #[test]
        fn any_text(text in "(?s).{0,40}", most in 1usize..50) {
            let clean = cut_text(&text, most).into_owned();
            prop_assert!(clean.chars().all(is_plain) && clean.chars().count() <= most);
            prop_assert_eq!(&*cut_text(&clean, most), clean.as_str());
        }
    }
}
