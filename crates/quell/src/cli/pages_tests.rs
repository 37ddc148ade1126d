//! People type the command lines of the pages as they stand, so every command line of quell in them has to parse.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::Cli;

/// Words that stand for a value which the reader chooses, and one that is valid.
const PLACEHOLDERS: &[(&str, &str)] = &[
    ("N", "5"),
    ("PID", "1"),
    ("SECONDS", "5"),
    ("LIST", "1"),
    ("FORMAT", "csv"),
    ("QUESTION", "causes"),
    ("VERB", "stat"),
    ("EXPERIMENT", "dontneed"),
    ("P%", "25%"),
];

/// A command line of a page: its place, its words, and whether it is whole. One within a sentence, such as `quell lab`, may
/// lack required arguments.
struct Command {
    place: String,
    words: Vec<String>,
    is_whole: bool,
}

/// Check that each command line of quell in the pages parses as it stands there.
#[test]
fn every_command_line_in_the_pages_parses() {
    let commands: Vec<_> = pages().iter().flat_map(|page| commands_of(page)).collect();
    let whole = commands.iter().filter(|command| command.is_whole).count();
    assert!(
        whole >= 60 && commands.len() >= 150,
        "{whole} of {} command lines are whole: are the pages still read?",
        commands.len()
    );
    let wrong: Vec<_> = commands
        .iter()
        .filter_map(|command| {
            let why = refusal(command)?;
            Some(format!(
                "{}: {}: {why}",
                command.place,
                command.words.join(" ")
            ))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "these do not parse:\n{}",
        wrong.join("\n")
    );
}

/// Check that an unknown flag, verb or value is found, in a block and within a sentence.
#[test]
fn what_is_no_command_line_is_found() {
    let refused = |text: &str| {
        commands_in(text, "page")
            .iter()
            .filter(|command| refusal(command).is_some())
            .count()
    };
    assert_eq!(refused("    sudo quell stat --no-such-flag -- ls\n"), 1);
    assert_eq!(refused("```sh\nquell guess TRACE   # in vain\n```\n"), 1);
    assert_eq!(
        refused("    quell record -a | quell report --export gif TRACE\n"),
        1
    );
    assert_eq!(
        refused("    LD_PRELOAD=$(quell run --librari) PROGRAM\n"),
        1
    );
    assert_eq!(refused("See `quell stat --no-such-flag`.\n"), 1);
    assert_eq!(refused("    quell prove\n"), 1, "a block needs its command");
    assert_eq!(refused("See `quell prove` and `quell lab`.\n"), 0);
    assert_eq!(refused("    quell stat -I 1 -- ls -l --no-such-flag\n"), 0);
    assert_eq!(
        refused("quell: the program ended\n    quell: it ended\n"),
        0
    );
}

/// The reason why a command line is refused, if it is.
fn refusal(command: &Command) -> Option<String> {
    let error = Cli::try_parse_from(&command.words).err()?;
    let lacks_value = error.kind() == ErrorKind::InvalidValue
        && matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty());
    let is_fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => !command.is_whole,
        _ => lacks_value && !command.is_whole,
    };
    (!is_fine).then(|| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().to_owned()
    })
}

/// Every page, by its path.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["", "docs", "kernel/luf"] {
        let depth = if folder == "docs" { 3 } else { 1 };
        add_pages(&root.join(folder), depth, &mut found);
    }
    found
}

fn add_pages(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of pages") {
        let path = entry.expect("an entry of the folder").path();
        if path.is_dir() && depth > 1 {
            add_pages(&path, depth - 1, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

fn commands_of(page: &Path) -> Vec<Command> {
    let text = fs::read_to_string(page).expect("a page");
    let name = page.file_name().expect("its name").to_string_lossy();
    commands_in(&text, &name)
}

/// The command lines of a page: in blocks between fences or with four spaces before them, and within sentences.
fn commands_in(text: &str, page: &str) -> Vec<Command> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    let mut may_be_block = true;
    for (line, number) in text.lines().zip(1..) {
        let place = format!("{page}:{number}");
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced || (may_be_block && line.starts_with("    ")) {
            add_block_line(line, &place, &mut found);
        } else {
            // Within a list four spaces continue the sentence; only lines after an empty one are a block.
            may_be_block = line.is_empty();
            for span in line.split('`').skip(1).step_by(2) {
                add_command(span, &place, false, &mut found);
            }
        }
    }
    found
}

/// The commands of one line of a block. It may have several, and a remark after a gap or a `#`.
fn add_block_line(line: &str, place: &str, found: &mut Vec<Command>) {
    let line = line.trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = &line[..line.find(" #").unwrap_or(line.len())];
    let line = &line[..line.find("  ").unwrap_or(line.len())];
    let mut rest = line;
    while let Some(begin) = rest.find("$(") {
        let inner = &rest[begin + 2..];
        let end = inner.find(')').unwrap_or(inner.len());
        add_command(&inner[..end], place, true, found);
        rest = &inner[end..];
    }
    for part in line.split(['|', ';', '&']) {
        // Alternatives, as in `shell|systemd`, are no pipe.
        if !line.contains(" | ") && line.contains('|') {
            add_command(line, place, true, found);
            break;
        }
        add_command(part, place, true, found);
    }
}

/// The words of a command, if it is quell.
fn add_command(text: &str, place: &str, is_whole: bool, found: &mut Vec<Command>) {
    let mut words = words_of(text);
    while words
        .first()
        .is_some_and(|word| word == "sudo" || is_setting(word))
    {
        words.remove(0);
    }
    let is_ours = words
        .first()
        .is_some_and(|word| word == "quell" || word.ends_with("release/quell"));
    if !is_ours || text.trim() == "quell" {
        return;
    }
    // Placeholders for the reader, and optional parts.
    let words = words
        .iter()
        .filter(|word| !matches!(word.as_str(), "..." | "…"));
    let words = words.map(|word| {
        let word = word.trim_matches(['[', ']']).replace("...]", "");
        let chosen = word.split('|').next().unwrap_or_default();
        let known = PLACEHOLDERS.iter().find(|(name, _)| *name == chosen);
        known.map_or(chosen, |(_, value)| value).to_owned()
    });
    found.push(Command {
        place: place.to_owned(),
        words: words.filter(|word| !word.is_empty()).collect(),
        is_whole,
    });
}

/// Whether a word sets a variable for the command after it.
fn is_setting(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
    })
}

/// Words as a shell makes them of a line without expansions.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for char in text.chars() {
        match quote {
            Some(open) if char == open => quote = None,
            None if matches!(char, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            None if char.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}
