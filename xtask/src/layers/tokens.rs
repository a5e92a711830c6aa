//! Splits a Rust file into words, marks and strings, as far as the layer check needs them.
//!
//! Pure functions. Comments and character literals are dropped; numbers are words.

/// A word, a mark, or a string literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    Word(String),
    Mark(char),
    /// `::`.
    Path,
    Text(String),
}

/// Tokens of a text, without comments and character literals.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let (mut tokens, mut at) = (Vec::new(), 0);
    let starts = |at: usize, word: &str| word.chars().enumerate().all(|(n, c)| chars.get(at + n) == Some(&c));
    while at < chars.len() {
        let c = chars[at];
        if starts(at, "//") {
            at += chars[at..].iter().take_while(|c| **c != '\n').count();
        } else if starts(at, "/*") {
            at = after_comment(&chars, at);
        } else if c == '"' {
            let (content, next) = quoted(&chars, at);
            tokens.push(Token::Text(content));
            at = next;
        } else if let Some((content, next)) = raw_string(&chars, at) {
            tokens.push(Token::Text(content));
            at = next;
        } else if c == '\'' {
            at = after_character(&chars, at);
        } else if c.is_alphanumeric() || c == '_' {
            let word: String = chars[at..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').collect();
            at += word.chars().count();
            tokens.push(Token::Word(word));
        } else if starts(at, "::") {
            tokens.push(Token::Path);
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(Token::Mark(c));
            }
            at += 1;
        }
    }
    tokens
}

fn after_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    break;
                }
            }
            _ => at += 1,
        }
    }
    at
}

/// Content of the string that begins with a quote at `at`, and the position after it.
fn quoted(chars: &[char], at: usize) -> (String, usize) {
    let (mut content, mut next) = (String::new(), at + 1);
    while next < chars.len() && chars[next] != '"' {
        if chars[next] == '\\' {
            next += 1;
        }
        content.extend(chars.get(next));
        next += 1;
    }
    (content, next + 1)
}

/// Reads a raw string (`r"..."`, `br#"..."#` and similar), if one begins at `at`.
fn raw_string(chars: &[char], at: usize) -> Option<(String, usize)> {
    let before = at.checked_sub(1).and_then(|before| chars.get(before));
    if before.is_some_and(|c| c.is_alphanumeric() || *c == '_') {
        return None;
    }
    let at = if chars[at] == 'b' || chars[at] == 'c' { at + 1 } else { at };
    if chars.get(at) != Some(&'r') {
        return None;
    }
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let begin = at + 2 + hashes;
    let end: String = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let ends = |from: &usize| end.chars().enumerate().all(|(n, c)| chars.get(from + n) == Some(&c));
    let stop = (begin..chars.len()).find(ends).unwrap_or(chars.len());
    Some((chars[begin..stop].iter().collect(), stop + end.chars().count()))
}

/// The position after a character literal, or after the quote of a lifetime.
fn after_character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => {
            let rest = chars.get(at + 3..).unwrap_or_default();
            at + 4 + rest.iter().take_while(|c| **c != '\'').count()
        }
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}
