//! `cargo xtask tidy` checks the language of comments and documents, and commit messages.
//!
//! `words.txt` lists the words that a comment or document may not use, each with its replacement.
//! `limits.txt` has a limit for each area of the tree and each rule: the maximum number of places
//! in the area that may break the rule. A limit that is not listed is 0. The check fails if more
//! places break the rule. `--lower` lowers the limits to the present numbers; it never raises one.

mod comments;
mod limits;
mod links;
mod message;
mod rules;

use crate::run::{Outcome, root};
use clap::Args;
use limits::{Counts, Limits};
use rules::{Finding, Words};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of findings shown for an area and rule above its limit.
const SHOWN_MAX: usize = 40;

#[derive(Args)]
pub struct Arguments {
    /// Print every finding in these files and folders, without comparing them with the limits
    paths: Vec<PathBuf>,
    /// Lower the limits to the present numbers
    #[arg(long, conflicts_with = "paths")]
    lower: bool,
    /// Check only the commit message in this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "lower", "install"])]
    message: Option<PathBuf>,
    /// Install the git hook that checks each commit message
    #[arg(long, conflicts_with_all = ["paths", "lower"])]
    install: bool,
}

pub fn run(arguments: &Arguments) -> Outcome {
    if let Some(path) = &arguments.message {
        return message::check(path);
    }
    if arguments.install {
        return message::install();
    }
    if arguments.paths.is_empty() { compare(arguments.lower) } else { list(&arguments.paths) }
}

/// Compares the tree with the limits.
pub fn check() -> Outcome {
    compare(false)
}

fn compare(lower: bool) -> Outcome {
    let findings = findings(&files()?)?;
    let counts = Counts::of(&findings);
    let mut limits = Limits::read()?;
    let over = limits.exceeded_by(&counts);
    for (area, rule, limit) in &over {
        let found = findings.iter().filter(|finding| finding.is_of(area, *rule));
        println!("== tidy: {area}, {rule}: {} places, the limit is {limit}", counts.get(area, *rule));
        for finding in found.take(SHOWN_MAX) {
            println!("{finding}");
        }
    }
    if !over.is_empty() {
        let advice = "`cargo xtask tidy PATH` prints every finding of a file or folder";
        return Err(format!("tidy: {} limits exceeded; {advice}", over.len()).into());
    }
    let spare = limits.lower(&counts);
    if lower {
        limits.write()?;
        println!("== tidy: limits lowered by {spare}");
    } else if spare > 0 {
        println!("== tidy: passed; {spare} below the limits: `cargo xtask tidy --lower` keeps that");
    } else {
        println!("== tidy: passed");
    }
    Ok(())
}

fn list(paths: &[PathBuf]) -> Outcome {
    let current = std::env::current_dir()?;
    let wanted = paths.iter().map(|path| current.join(path).canonicalize()).collect::<Result<Vec<_>, _>>()?;
    let mut files = files()?;
    files.retain(|file| wanted.iter().any(|path| root().join(file).starts_with(path)));
    if files.is_empty() {
        return Err("tidy: there is no Rust or Markdown file".into());
    }
    let findings = findings(&files)?;
    for finding in &findings {
        println!("{finding}");
    }
    println!("== tidy: {} findings in {} files", findings.len(), files.len());
    Ok(())
}

/// The Rust and Markdown files of the tree, relative to the root, without builds, hidden folders
/// and results.
fn files() -> Result<BTreeSet<PathBuf>, Box<dyn std::error::Error>> {
    let mut files = BTreeSet::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if name.starts_with('.') || name == "target" || name.starts_with("katydid-") {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else if is_markdown(&path) || path.extension().is_some_and(|extension| extension == "rs") {
                files.insert(path.strip_prefix(root())?.to_owned());
            }
        }
    }
    Ok(files)
}

fn findings(files: &BTreeSet<PathBuf>) -> Result<Vec<Finding>, Box<dyn std::error::Error>> {
    let words = Words::read(include_str!("words.txt"))?;
    let mut findings = Vec::new();
    for file in files {
        let text =
            fs::read_to_string(root().join(file)).map_err(|error| format!("{}: {error}", file.display()))?;
        if is_markdown(file) {
            rules::document(file, &text, &words, &mut findings);
            links::check(file, &text, &mut findings);
        } else {
            rules::source(file, &text, &words, &mut findings);
        }
    }
    Ok(findings)
}

fn is_markdown(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_rust_and_markdown() {
        let files = files().expect("the tree");
        assert!(files.contains(&PathBuf::from("README.md")));
        assert!(files.contains(&PathBuf::from("xtask/src/tidy/mod.rs")));
    }
}
