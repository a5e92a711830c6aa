//! Rules of language that a program can check (`CONTRIBUTING.md`, "Language"), and the places that
//! break them.

use super::comments::{Kind, Line, blocks};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

/// Maximum number of columns of a comment line.
pub const COLUMNS_MAX: usize = 100;

/// A line with fewer columns than this is broken too early if its paragraph goes on and the first
/// word of the next line would have fitted within [`COLUMNS_MAX`].
const BROKEN_COLUMNS: usize = 60;

/// Words with which a doc comment must not begin: such a comment can be understood only after the
/// line above it in the source, and rustdoc does not show that line beside it.
const OPENINGS: &[&str] = &[
    "And", "As", "But", "How", "Of", "So", "Such", "The same", "What", "When", "Where", "Whether", "Which",
    "Who", "Whose", "Why",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A comment line has at most [`COLUMNS_MAX`] columns.
    Width,
    /// A doc comment begins with a noun phrase or a verb.
    Opening,
    /// Words of `words.txt` are not used.
    Word,
    /// No line of a paragraph is broken too early ([`BROKEN_COLUMNS`]).
    Wrap,
    /// A link leads to a file or heading that exists.
    Link,
}

impl Rule {
    pub const ALL: [Self; 5] = [Self::Width, Self::Opening, Self::Word, Self::Wrap, Self::Link];
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Width => "width",
            Self::Opening => "opening",
            Self::Word => "word",
            Self::Wrap => "wrap",
            Self::Link => "link",
        })
    }
}

/// A place that breaks a rule.
#[derive(Debug)]
pub struct Finding {
    pub file: PathBuf,
    /// Line number, counted from 1.
    pub line: usize,
    pub rule: Rule,
    pub text: String,
}

impl Finding {
    /// The area of the tree to which the file belongs: a crate, `docs-adr`, `docs-lab`, another
    /// folder of the root, or `root` for a file in the root itself.
    pub fn area(&self) -> String {
        let mut parts = self.file.components().map(|part| part.as_os_str().to_string_lossy());
        let first = parts.next().unwrap_or_default().into_owned();
        match parts.next() {
            None => "root".to_owned(),
            Some(second) if first == "crates" => second.into_owned(),
            Some(second) if first == "docs" && (second == "adr" || second == "lab") => {
                format!("docs-{second}")
            }
            Some(_) => first,
        }
    }

    pub fn is_of(&self, area: &str, rule: Rule) -> bool {
        self.rule == rule && self.area() == area
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.rule, self.text)
    }
}

/// Words to avoid, each with its replacement.
#[derive(Debug)]
pub struct Words(Vec<(String, String)>);

impl Words {
    /// Reads lines `word = replacement`; `#` begins a remark.
    pub fn read(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let entry = |(index, line): (usize, &str)| {
            let (word, say) = line
                .split_once(" = ")
                .ok_or_else(|| format!("words.txt:{}: no ` = ` in {line:?}", index + 1))?;
            Ok((word.to_lowercase(), say.to_owned()))
        };
        Ok(Self(lines.map(entry).collect::<Result<_, String>>()?))
    }

    fn find(&self, line: &str, mut found: impl FnMut(String)) {
        let line = without_code(line).to_lowercase();
        for (word, say) in &self.0 {
            for (at, _) in line.match_indices(word.as_str()) {
                let before = line[..at].chars().next_back();
                let after = line[at + word.len()..].chars().next();
                if !before.is_some_and(is_word) && !after.is_some_and(is_word) {
                    found(format!("`{word}`: say {say}"));
                }
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// The line without the text between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Checks the comments of a Rust source.
pub fn source(file: &Path, text: &str, words: &Words, findings: &mut Vec<Finding>) {
    let mut add = |line, rule, text| findings.push(Finding { file: file.to_owned(), line, rule, text });
    for block in blocks(text) {
        if block.kind == Kind::Doc
            && let Some(first) = block.lines.iter().find(|line| !line.text.trim().is_empty())
            && let Some(opening) = opening(first.text)
        {
            add(first.number, Rule::Opening, format!("begins with `{opening}`: {}", first.text));
        }
        for line in &block.lines {
            if line.columns > COLUMNS_MAX && !line.code && !line.text.contains("://") {
                add(line.number, Rule::Width, format!("{} columns, at most {COLUMNS_MAX}", line.columns));
            }
            if !line.code {
                words.find(line.text, |text| add(line.number, Rule::Word, text));
            }
        }
        for pair in block.lines.windows(2) {
            if is_broken(pair[0], pair[1]) {
                add(pair[0].number, Rule::Wrap, format!("broken early: {}", pair[0].text));
            }
        }
    }
}

fn opening(text: &str) -> Option<&'static str> {
    OPENINGS
        .iter()
        .copied()
        .find(|opening| text.strip_prefix(opening).is_some_and(|rest| rest.starts_with([' ', ','])))
}

/// Returns whether the first line has fewer than [`BROKEN_COLUMNS`] columns, the second line
/// continues its paragraph, and the second line's first word would have fitted within
/// [`COLUMNS_MAX`].
fn is_broken(line: Line<'_>, next: Line<'_>) -> bool {
    let plain = |line: Line<'_>| {
        let begins = line.text.starts_with(|c: char| c.is_alphabetic());
        !line.code && begins && !line.text.contains('|')
    };
    let word = next.text.split_whitespace().next().unwrap_or_default().chars().count();
    plain(line)
        && plain(next)
        && line.columns < BROKEN_COLUMNS
        && line.columns + 1 + word <= COLUMNS_MAX
        && !line.text.ends_with(['.', ':', '!', '?', ';'])
}

/// Checks the words of a document, outside its code.
pub fn document(file: &Path, text: &str, words: &Words, findings: &mut Vec<Finding>) {
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            words.find(line, |text| {
                findings.push(Finding { file: file.to_owned(), line: index + 1, rule: Rule::Word, text });
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(source_text: &str) -> Vec<(usize, Rule)> {
        let words = Words::read("# remark\n\nwhoever = the thread\nof its own = its own").expect("words");
        let mut findings = Vec::new();
        source(Path::new("crates/wal/src/lib.rs"), source_text, &words, &mut findings);
        findings.into_iter().map(|finding| (finding.line, finding.rule)).collect()
    }

    #[test]
    fn words_are_found_whole_in_any_case_and_not_in_code() {
        assert_eq!(found("// Whoever comes, `whoever` or whoeverso.\n"), [(1, Rule::Word)]);
        assert_eq!(found("/// ```\n/// whoever\n/// ```\nfn whoever() {}\n"), []);
        assert_eq!(found("// A thread of its own.\n"), [(1, Rule::Word)]);
    }

    #[test]
    fn a_doc_comment_that_leans_on_the_line_above_is_found_at_its_first_line_only() {
        assert_eq!(found("/// What waits.\n/// What follows.\nfn f() {}\n"), [(1, Rule::Opening)]);
        assert_eq!(found("// What waits.\n/// Whatsoever.\n/// Offsets.\n"), []);
    }

    #[test]
    fn wide_comments_are_found_and_addresses_and_code_are_not() {
        let wide = "x".repeat(98);
        assert_eq!(found(&format!("// {wide}\n")), [(1, Rule::Width)]);
        assert_eq!(found(&format!("// https://{wide}\n")), []);
        assert_eq!(found(&format!("let {wide} = 1;\n")), []);
    }

    #[test]
    fn a_paragraph_broken_early_is_found() {
        assert_eq!(found("// Too short a line\n// for its paragraph.\n"), [(1, Rule::Wrap)]);
        assert_eq!(found("// A sentence.\n// Another one.\n"), []);
        assert_eq!(found("// A list\n// - of items\n"), []);
    }

    #[test]
    fn areas_are_crates_and_folders() {
        let area =
            |file: &str| Finding { file: file.into(), line: 1, rule: Rule::Word, text: String::new() }.area();
        assert_eq!(area("crates/wal/src/lib.rs"), "wal");
        assert_eq!(area("README.md"), "root");
        assert_eq!(area("docs/adr/0001-x.md"), "docs-adr");
        assert_eq!(area("docs/recovery.md"), "docs");
        assert_eq!(area("xtask/src/main.rs"), "xtask");
    }
}
