//! A crate's files as modules: what each module declares, and which paths it names. This file reads
//! text and resolves no names.
//!
//! Pure functions, except those that read files. The parser knows only what the layer check needs:
//! it drops comments and literals, skips code of tests and model checkers, and reads `use` trees
//! and paths. It reads macros as plain tokens.

use super::tokens::{Token, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Names separated by `::`, such as `crate`, `grid`, `row`.
pub type Names = Vec<String>;

/// An import by `use`: the path, and its name in this file. A glob has no name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub path: Names,
    pub name: Option<String>,
}

/// Contents of one file.
#[derive(Debug, Default)]
pub struct Source {
    /// Child modules in their own files, with the path of each `#[path]`.
    pub children: BTreeMap<String, Option<String>>,
    /// Folders of inline modules that have a `#[path]`.
    pub folders: Vec<String>,
    pub imports: Vec<Import>,
    /// Paths of at least two names outside `use` items.
    pub paths: BTreeSet<Names>,
    /// Names of items that this file defines.
    pub items: BTreeSet<String>,
}

/// A crate's modules by path. The root has the empty path.
#[derive(Debug, Default)]
pub struct Modules {
    pub sources: BTreeMap<Names, Source>,
    /// `#[path]` attributes that name a file outside the crate.
    pub outside: Vec<String>,
}

impl Modules {
    /// Reads a crate from its root file, without modules that exist only for tests or model
    /// checkers.
    pub fn read(root: &Path, package: &Path) -> Result<Modules, Box<dyn Error>> {
        let mut modules = Modules::default();
        let folder = root.parent().unwrap_or(package).to_owned();
        modules.file(root, &folder, Names::new(), package)?;
        Ok(modules)
    }

    /// Reads the files of a module and of its children. Children lie in `folder` unless a `#[path]`
    /// names another place.
    fn file(
        &mut self,
        file: &Path,
        folder: &Path,
        module: Names,
        package: &Path,
    ) -> Result<(), Box<dyn Error>> {
        let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let source = Source::parse(&text);
        for path in &source.folders {
            if !lies_in(&file.parent().unwrap_or(package).join(path), package)? {
                self.outside.push(format!("{}: #[path = \"{path}\"]", file.display()));
            }
        }
        for (name, path) in &source.children {
            let child: Names = module.iter().chain([name]).cloned().collect();
            if let Some(path) = path {
                let beside = file.parent().unwrap_or(package).join(path);
                if !lies_in(&beside, package)? {
                    self.outside.push(format!("{}: #[path = \"{path}\"]", file.display()));
                    continue;
                }
                let folder = beside.parent().unwrap_or(package).to_owned();
                self.file(&beside, &folder, child, package)?;
                continue;
            }
            let alone = folder.join(format!("{name}.rs"));
            let own = folder.join(name);
            let file: PathBuf = if alone.exists() { alone } else { own.join("mod.rs") };
            self.file(&file, &own, child, package)?;
        }
        self.sources.insert(module, source);
        Ok(())
    }
}

fn lies_in(file: &Path, package: &Path) -> Result<bool, Box<dyn Error>> {
    let found = file.canonicalize().map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(found.starts_with(package.canonicalize()?))
}

impl Source {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Source {
        let tokens = tokens(text);
        let mut source = Source::default();
        Reader { tokens: &tokens, at: 0 }.items(&mut source, &Names::new());
        source
    }
}

/// Reads items one after the other.
struct Reader<'t> {
    tokens: &'t [Token],
    at: usize,
}

/// Words before the name of an item.
const DEFINING: [&str; 9] =
    ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];

impl Reader<'_> {
    fn word(&self, ahead: usize) -> Option<&str> {
        match self.tokens.get(self.at + ahead) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is_mark(&self, ahead: usize, mark: char) -> bool {
        self.tokens.get(self.at + ahead) == Some(&Token::Mark(mark))
    }

    /// Reads items up to the end. `inline` lists the open inline modules.
    fn items(&mut self, source: &mut Source, inline: &Names) {
        let mut path_attribute = None;
        while self.at < self.tokens.len() {
            if self.is_mark(0, '}') {
                return;
            }
            if self.is_mark(0, '{') {
                self.at += 1;
                self.items(source, inline);
                self.at += 1;
            } else if self.is_mark(0, '#') {
                let attribute = self.attribute();
                if is_of_tests(&attribute) {
                    self.skip_item();
                } else if let [Token::Word(word), Token::Mark('='), Token::Text(path)] = &attribute[..]
                    && word == "path"
                {
                    path_attribute = Some(path.clone());
                }
            } else if self.word(0) == Some("use") {
                self.at += 1;
                let mut found = Vec::new();
                self.tree(&Names::new(), &mut found);
                // Inside an inline module, `super` may stay within this file.
                source.imports.extend(found.into_iter().filter_map(|import| outer(import, inline)));
            } else if self.word(0) == Some("mod") && self.word(1).is_some() {
                let name = self.word(1).unwrap_or_default().to_owned();
                self.at += 2;
                if self.is_mark(0, ';') {
                    // A file module inside an inline module lies in the inline module's folder.
                    let path = path_attribute.take();
                    if inline.is_empty() {
                        source.children.insert(name, path);
                    }
                } else if self.is_mark(0, '{') {
                    source.folders.extend(path_attribute.take());
                    self.at += 1;
                    let inner: Names = inline.iter().chain([&name]).cloned().collect();
                    self.items(source, &inner);
                    self.at += 1;
                    source.items.insert(name);
                }
            } else {
                self.other(source, inline);
            }
        }
    }

    /// Reads a path or a defined name, or skips a token.
    fn other(&mut self, source: &mut Source, inline: &Names) {
        if self.word(0).is_some_and(|word| DEFINING.contains(&word)) {
            let ahead = if self.is_mark(1, '!') { 2 } else { 1 };
            if let Some(name) = self.word(ahead) {
                source.items.insert(name.to_owned());
            }
        }
        let Some(first) = self.word(0) else {
            self.at += 1;
            return;
        };
        let mut path = vec![first.to_owned()];
        self.at += 1;
        while self.tokens.get(self.at) == Some(&Token::Path) {
            let Some(next) = self.word(1) else { break };
            path.push(next.to_owned());
            self.at += 2;
        }
        if path.len() > 1
            && let Some(import) = outer(Import { path, name: None }, inline)
        {
            source.paths.insert(import.path);
        }
    }

    /// The tokens between the brackets of an attribute.
    fn attribute(&mut self) -> Vec<Token> {
        self.at += if self.is_mark(1, '!') { 2 } else { 1 };
        let (begin, mut depth) = (self.at + 1, 0);
        while self.at < self.tokens.len() {
            depth += i32::from(self.is_mark(0, '[')) - i32::from(self.is_mark(0, ']'));
            self.at += 1;
            if depth == 0 {
                break;
            }
        }
        self.tokens.get(begin..self.at.saturating_sub(1)).unwrap_or_default().to_vec()
    }

    /// Skips an item: up to its `;`, `,` or closing brace, or to the end of the enclosing block.
    fn skip_item(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            let opens = ['{', '(', '['].iter().any(|mark| self.is_mark(0, *mark));
            let closes = ['}', ')', ']'].iter().any(|mark| self.is_mark(0, *mark));
            if depth == 0 && closes {
                return;
            }
            depth += i32::from(opens) - i32::from(closes);
            let ends = self.is_mark(0, '}') || self.is_mark(0, ';') || self.is_mark(0, ',');
            self.at += 1;
            if depth == 0 && ends {
                return;
            }
        }
    }

    /// Reads a `use` tree below the path `before`, including its end.
    fn tree(&mut self, before: &Names, into: &mut Vec<Import>) {
        let mut path = before.clone();
        loop {
            if self.tokens.get(self.at) == Some(&Token::Path) {
                self.at += 1;
            } else if self.is_mark(0, '{') {
                self.at += 1;
                while self.at < self.tokens.len() && !self.is_mark(0, '}') {
                    self.tree(&path, into);
                    if self.is_mark(0, ',') {
                        self.at += 1;
                    }
                }
                self.at += 1;
                return;
            } else if self.is_mark(0, '*') {
                self.at += 1;
                into.push(Import { path, name: None });
                return;
            } else if let Some(word) = self.word(0) {
                let word = word.to_owned();
                self.at += 1;
                match (&word[..], self.word(0)) {
                    ("as", Some(name)) => {
                        let name = Some(name.to_owned());
                        self.at += 1;
                        into.push(Import { path, name });
                        return;
                    }
                    ("self", _) if !path.is_empty() => {}
                    _ => path.push(word),
                }
                let goes_on = self.tokens.get(self.at) == Some(&Token::Path) || self.word(0) == Some("as");
                if !goes_on {
                    let name = path.last().cloned();
                    into.push(Import { path, name });
                    return;
                }
            } else {
                return;
            }
        }
    }
}

/// Conditions that are true only when a test or a model checker builds a crate.
const CHECKERS: [&str; 3] = ["test", "loom", "katydid_explore"];

/// Returns whether an attribute restricts the next item to tests or model checkers.
fn is_of_tests(attribute: &[Token]) -> bool {
    let words: Vec<&str> = attribute
        .iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(&word[..]),
            _ => None,
        })
        .collect();
    let (Some(first), rest) = (words.first(), words.get(1..).unwrap_or_default()) else { return false };
    let mut conditions = rest.iter().filter(|word| !["all", "any"].contains(word));
    let checks = |word: &&&str| CHECKERS.contains(*word);
    match *first {
        "cfg" if rest.is_empty() || rest.contains(&"not") => false,
        "cfg" if rest.contains(&"any") => conditions.all(|word| checks(&word)),
        "cfg" => conditions.any(|word| checks(&word)),
        first => first == "test" && attribute.len() == 1,
    }
}

/// Converts a path inside inline modules to the path that the file itself would use; `None` if the
/// path stays inside the inline modules.
fn outer(import: Import, inline: &Names) -> Option<Import> {
    if inline.is_empty() {
        return Some(import);
    }
    let up = import.path.iter().take_while(|name| *name == "super").count();
    match (import.path.first().map(String::as_str), up) {
        (Some("super"), up) if up < inline.len() => None,
        (Some("super"), up) => {
            let (above, rest) = (up - inline.len(), &import.path[up..]);
            let path = std::iter::repeat_n("super".to_owned(), above).chain(rest.iter().cloned()).collect();
            Some(Import { path, ..import })
        }
        (Some("self"), _) => None,
        _ => Some(import),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        Source::parse(text).imports.iter().map(|import| import.path.join("::")).collect()
    }

    #[test]
    fn trees_of_imports_are_taken_apart() {
        let found = paths("pub(crate) use crate::{a::{self, B as C}, d::*}; use super::super::E;");
        assert_eq!(found, ["crate::a", "crate::a::B", "crate::d", "super::super::E"]);
        let source = Source::parse("use crate::{a::{self, B as C}, d::*};");
        let names: Vec<_> = source.imports.into_iter().map(|import| import.name).collect();
        assert_eq!(names, [Some("a".to_owned()), Some("C".to_owned()), None]);
    }

    #[test]
    fn comments_literals_and_tests_are_not_read() {
        let text = "
            // use crate::a;
            /* use crate::b; /* */ use crate::c; */
            const TEXT: &str = \"use crate::d;\\\"\"; const RAW: &str = r#\"use crate::e;\"#;
            fn f<'a>(c: char) -> bool { c == '\"' || c == '\\'' || crate::f::g::<'a>() }
            #[cfg(test)] use crate::h;
            #[cfg(test)] mod tests { use crate::i; fn t() { crate::j::k() } }
            #[cfg(all(test, unix))] fn only() -> [u8; 2] { crate::l::m() }
            #[cfg(any(loom, katydid_explore))] use crate::o;
            #[cfg(any(test, feature = \"x\"))] use crate::p;
            #[cfg(not(test))] use crate::n;
        ";
        let source = Source::parse(text);
        assert_eq!(paths(text), ["crate::p", "crate::n"]);
        let paths: Vec<String> = source.paths.iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::f::g"]);
        assert!(
            source.items.contains("TEXT") && source.items.contains("f") && !source.items.contains("only")
        );
    }

    #[test]
    fn modules_in_files_and_inside_this_file_are_distinguished() {
        let source = Source::parse(
            "mod a; #[path = \"../b.rs\"] pub mod b; mod c { use super::d; use super::super::e; use self::f; fn g() { super::h::i() } }",
        );
        assert_eq!(source.children.get("a"), Some(&None));
        assert_eq!(source.children.get("b"), Some(&Some("../b.rs".to_owned())));
        let imports: Vec<String> = source.imports.iter().map(|import| import.path.join("::")).collect();
        assert_eq!(imports, ["d", "super::e"]);
        assert!(source.paths.contains(&vec!["h".to_owned(), "i".to_owned()]));
    }
}
