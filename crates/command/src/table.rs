//! Tables of text: aligned for people, and as CSV for programs.
//!
//! Pure functions.

/// Returns the lines of a table with aligned columns. The first line has the names of the columns.
/// The first column is aligned to the left, the others to the right.
pub fn lined_up(lines: &[Vec<String>]) -> Vec<String> {
    let columns = lines.first().map_or(0, Vec::len);
    let wide = |at: usize| lines.iter().map(|line| line[at].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let join = |line: &Vec<String>| {
        let mut text = String::new();
        for (at, (field, width)) in line.iter().zip(&widths).enumerate() {
            text += &match at {
                0 => format!("{field:<width$}"),
                _ => format!("  {field:>width$}"),
            };
        }
        text.trim_end().to_owned()
    };
    lines.iter().map(join).collect()
}

/// Returns the lines of a table as CSV.
pub fn csv(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for line in lines {
        let fields: Vec<String> = line.iter().map(|field| quoted(field)).collect();
        text += &(fields.join(",") + "\n");
    }
    text
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// Splits a text into lines of at most 108 bytes.
pub fn wrapped(text: &str) -> Vec<String> {
    const WIDE: usize = 108;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= WIDE => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
