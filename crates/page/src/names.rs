//! Frames, stacks and regions by number, each text once.

use std::collections::HashMap;

use indexmap::IndexSet;
use serde::Serialize;

/// Longer names are cut, in characters: C++ has some of many thousand.
const MAX_NAME_CHARS: usize = 240;
/// Deeper stacks are cut at their outer end; the kernel walks 127 frames.
const MAX_STACK_DEPTH: usize = 128;

/// Texts, each once.
#[derive(Default)]
pub(crate) struct UniqueTexts {
    pub(crate) list: IndexSet<String, ahash::RandomState>,
    pub(crate) bytes: usize,
}

impl UniqueTexts {
    /// The number of a text.
    pub(crate) fn id(&mut self, text: &str) -> u32 {
        let text = cut_name(text);
        if let Some(id) = self.list.get_index_of(&text) {
            return id as u32;
        }
        // JSON may need six characters for one that is escaped, and has two quotes and a comma.
        self.bytes += text
            .chars()
            .map(|c| {
                if c.is_ascii_graphic() || c == ' ' {
                    c.len_utf8()
                } else {
                    6
                }
            })
            .sum::<usize>()
            + 3;
        self.list.insert_full(text).0 as u32
    }
}

/// A text that is no longer than a line or two.
pub(crate) fn cut_name(text: &str) -> String {
    match text.char_indices().nth(MAX_NAME_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Stacks as a tree from the outermost function inwards: those of one program share most of it.
#[derive(Default, Serialize)]
pub(crate) struct StackTree {
    /// The node outside of each, one less than the node's own number at most; −1 for none.
    pub(crate) parent: Vec<i32>,
    /// The function of each node.
    pub(crate) frame: Vec<u32>,
    #[serde(skip)]
    ids: HashMap<(i32, u32), i32, ahash::RandomState>,
}

impl StackTree {
    /// The node of a stack's innermost function; −1 for a stack without any.
    pub(crate) fn add(&mut self, texts: &mut UniqueTexts, outermost_first: &[String]) -> i32 {
        let deep = outermost_first.len().saturating_sub(MAX_STACK_DEPTH);
        let mut node = -1;
        for frame in &outermost_first[deep..] {
            let frame = texts.id(frame);
            let (parents, frames) = (&mut self.parent, &mut self.frame);
            node = *self.ids.entry((node, frame)).or_insert_with(|| {
                parents.push(node);
                frames.push(frame);
                parents.len() as i32 - 1
            });
        }
        node
    }

    /// How many bytes of JSON it takes, roughly.
    pub(crate) fn json_bytes(&self) -> usize {
        self.parent.len() * 14
    }
}
