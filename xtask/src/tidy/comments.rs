//! Comment blocks of a Rust source: lines that contain only a line comment.

/// The kind of a comment block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `///` or `//!`, which rustdoc shows.
    Doc,
    /// `//`.
    Plain,
}

/// Neighbouring comment lines with the same mark.
#[derive(Debug)]
pub struct Block<'a> {
    pub kind: Kind,
    pub lines: Vec<Line<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Line number, counted from 1.
    pub number: usize,
    /// Columns of the whole line.
    pub columns: usize,
    /// The text after the comment's mark and one space.
    pub text: &'a str,
    /// True if the line is code, or the fence around code.
    pub code: bool,
}

/// The comment blocks of a source. There are two simplifications: a comment after code on one line
/// is left out, and lines of a string that begin with `//` are taken for comments.
pub fn blocks(source: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut mark_before = None;
    let mut fenced = false;
    for (index, line) in source.lines().enumerate() {
        let Some((mark, text)) = comment(line) else {
            mark_before = None;
            fenced = false;
            continue;
        };
        if mark_before != Some(mark) {
            fenced = false;
            let kind = if mark == "//" { Kind::Plain } else { Kind::Doc };
            blocks.push(Block { kind, lines: Vec::new() });
        }
        mark_before = Some(mark);
        let fence = text.trim_start().starts_with("```");
        let code = fenced || fence || text.starts_with("    ");
        fenced ^= fence;
        let block = blocks.last_mut().expect("a block was begun with its first line");
        block.lines.push(Line { number: index + 1, columns: line.chars().count(), text, code });
    }
    blocks
}

/// The mark and the text of a line, if the line is a comment.
fn comment(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    let (mark, text) = if let Some(text) = line.strip_prefix("//!") {
        ("//!", text)
    } else if let Some(text) = line.strip_prefix("///") {
        ("///", text)
    } else {
        ("//", line.strip_prefix("//")?)
    };
    Some((mark, text.strip_prefix(' ').unwrap_or(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_where_the_mark_changes_or_code_begins() {
        let source =
            "//! Head.\n//! More.\n\n/// Doc.\nfn f() {\n    // Plain.\n    g(); // behind code\n}\n";
        let blocks = blocks(source);
        let shape: Vec<(Kind, usize, usize)> =
            blocks.iter().map(|block| (block.kind, block.lines[0].number, block.lines.len())).collect();
        assert_eq!(shape, [(Kind::Doc, 1, 2), (Kind::Doc, 4, 1), (Kind::Plain, 6, 1)]);
        assert_eq!(blocks[1].lines[0].text, "Doc.");
    }

    #[test]
    fn fences_and_what_is_between_them_are_code() {
        let blocks = blocks("/// Text.\n/// ```\n/// let whoever = 1;\n/// ```\n/// Text.\n");
        let code: Vec<bool> = blocks[0].lines.iter().map(|line| line.code).collect();
        assert_eq!(code, [false, true, true, true, false]);
    }
}
