//! Links of Markdown documents to files and headings of the tree.

use super::rules::{Finding, Rule};
use crate::run::root;
use std::fs;
use std::path::Path;

/// Checks that each relative link of a document leads to an existing file or folder, and its
/// fragment to a heading.
pub fn check(file: &Path, text: &str, findings: &mut Vec<Finding>) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence {
            continue;
        }
        for target in targets(line) {
            if let Some(text) = wrong(folder, file, target) {
                findings.push(Finding { file: file.to_owned(), line: index + 1, rule: Rule::Link, text });
            }
        }
    }
}

/// The texts between `](` and `)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn wrong(folder: &Path, file: &Path, target: &str) -> Option<String> {
    let address = target.contains("://") || target.starts_with("mailto:");
    // `](` also occurs in code within a line, such as `f[i](x)`. There the target usually contains
    // no `#`, `.` or `/`, or contains a blank.
    if address || !target.contains(['.', '/', '#']) || target.contains(' ') {
        return None;
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { root().join(file) } else { root().join(folder).join(path) };
    if !path.exists() {
        return Some(format!("{target}: there is no such file"));
    }
    let heading = heading?;
    let text = fs::read_to_string(&path).ok()?;
    let known = text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line) == heading);
    (!known).then(|| format!("{target}: there is no such heading"))
}

/// The fragment of a heading on the common hosts: lower case, with hyphens for blanks and without
/// other signs.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let sign = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    text.chars().filter_map(sign).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(Path::new("docs/recovery.md"), text, &mut findings);
        findings.into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn links_to_what_is_there_pass() {
        assert_eq!(found("[a](../README.md) [b](adr) [c](https://example.org/x)\n"), Vec::<String>::new());
    }

    #[test]
    fn links_to_what_is_not_there_are_found() {
        assert_eq!(found("[a](nothing.md)\n"), ["nothing.md: there is no such file"]);
        let heading = "../README.md#no-heading-is-called-so";
        assert_eq!(found(&format!("[a]({heading})\n")), [format!("{heading}: there is no such heading")]);
    }

    #[test]
    fn anchors_are_those_of_the_common_hosts() {
        assert_eq!(anchor("## Larger than memory, *and* `reads`"), "larger-than-memory-and-reads");
    }
}
