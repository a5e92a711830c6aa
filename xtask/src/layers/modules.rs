//! Uses between the modules of a crate: arrows between ranked modules, and circles of files.
//!
//! Pure functions. A crate declares ranks in its `Cargo.toml`, the lowest first:
//!
//! ```toml
//! [package.metadata.layers]
//! ranks = [["lsn"], ["ring", "frontier"], ["log"]]
//! # For a crate that does not meet the rule yet; these may only go down.
//! upward = 3
//! circle = 14
//! outside = 11
//! ```
//!
//! 1. A module belongs to the longest entry that is a prefix of the module's path. The crate's root
//!    has the highest rank.
//! 2. An arrow goes from one entry to another entry that the first one uses. An arrow to a higher
//!    rank points up.
//! 3. A re-exported name counts as a use of the module that defines the name, not of the module
//!    that re-exports it.
//! 4. A circle is a set of files in which each file uses, directly or indirectly, every other.

use super::source::{Modules, Names};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of files in a circle.
const CIRCLE_MAX: usize = 5;

/// Declarations of a crate.
#[derive(Debug, Default)]
pub struct Declared {
    ranks: Vec<(Names, usize)>,
    upward: usize,
    circle: usize,
    outside: usize,
}

/// Results for a crate.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub files: usize,
    pub arrows: usize,
    /// Arrows that point up, as `from -> to`.
    pub upward: Vec<String>,
    /// The files of the largest circle, if there is one.
    pub circle: Vec<String>,
    /// `#[path]` attributes that leave the crate.
    pub outside: Vec<String>,
    /// Modules without a rank.
    pub unranked: Vec<String>,
}

impl Declared {
    /// Reads `[package.metadata.layers]`.
    pub fn read(metadata: &Value) -> Declared {
        let number = |name: &str| metadata[name].as_u64().map(|number| number as usize);
        let mut ranks = Vec::new();
        for (rank, modules) in metadata["ranks"].as_array().into_iter().flatten().enumerate() {
            for module in modules.as_array().into_iter().flatten().filter_map(Value::as_str) {
                ranks.push((module.split("::").map(str::to_owned).collect(), rank));
            }
        }
        Declared {
            ranks,
            upward: number("upward").unwrap_or(0),
            circle: number("circle").unwrap_or(CIRCLE_MAX),
            outside: number("outside").unwrap_or(0),
        }
    }

    /// The entry of a module, and its rank.
    fn entry(&self, module: &Names) -> Option<(&Names, usize)> {
        let of = self.ranks.iter().filter(|(entry, _)| module.starts_with(entry));
        of.max_by_key(|(entry, _)| entry.len()).map(|(entry, rank)| (entry, *rank))
    }

    /// Collects the results for a crate.
    pub fn look(&self, modules: &Modules) -> Found {
        let root = Names::new();
        let of = |module: &Names| match module.is_empty() {
            true => Some((root.clone(), usize::MAX)),
            false => self.entry(module).map(|(entry, rank)| (entry.clone(), rank)),
        };
        let uses = uses(modules);
        let mut found =
            Found { files: modules.sources.len(), outside: modules.outside.clone(), ..Found::default() };
        found.unranked = modules.sources.keys().filter(|module| of(module).is_none()).map(shown).collect();
        let mut arrows = BTreeSet::new();
        for (from, to) in uses.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
            if let (Some(from), Some(to)) = (of(from), of(to))
                && from.0 != to.0
            {
                arrows.insert((from, to));
            }
        }
        found.arrows = arrows.len();
        let up = arrows.iter().filter(|(from, to)| to.1 > from.1);
        found.upward = up.map(|(from, to)| format!("{} -> {}", shown(&from.0), shown(&to.0))).collect();
        found.circle = largest_circle(&uses).iter().map(shown).collect();
        found
    }

    /// Faults of the crate: the results beyond its declared allowances.
    pub fn faults(&self, package: &str, found: &Found) -> Vec<String> {
        let mut faults = Vec::new();
        let mut more = |what: &str, all: &[String], allowed: usize| {
            if all.len() > allowed {
                let shown: Vec<&str> = all.iter().take(60).map(String::as_str).collect();
                faults.push(format!(
                    "{package}: {} {what}, {allowed} allowed: {}",
                    all.len(),
                    shown.join(", ")
                ));
            }
        };
        more("modules without a rank in Cargo.toml", &found.unranked, 0);
        more("arrows up", &found.upward, self.upward);
        more("files in a circle", &found.circle, self.circle.max(CIRCLE_MAX));
        more("#[path] out of the crate", &found.outside, self.outside);
        faults
    }

    /// Allowances that are larger than the results.
    pub fn slack(&self, found: &Found) -> Vec<String> {
        let pairs = [
            ("upward", self.upward, found.upward.len()),
            ("circle", self.circle, found.circle.len().max(CIRCLE_MAX)),
            ("outside", self.outside, found.outside.len()),
        ];
        let too_large = pairs.into_iter().filter(|(_, allowed, found)| allowed > found);
        too_large.map(|(name, allowed, found)| format!("{name} = {allowed} can be {found}")).collect()
    }
}

fn shown(module: &Names) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// For each file, the other files that it uses.
fn uses(modules: &Modules) -> BTreeMap<Names, BTreeSet<Names>> {
    let mut uses = BTreeMap::new();
    for (module, source) in &modules.sources {
        let imports = source.imports.iter().map(|import| &import.path);
        let mut all: BTreeSet<Names> =
            imports.chain(&source.paths).filter_map(|path| resolve(modules, module, path, 0)).collect();
        all.remove(module);
        uses.insert(module.clone(), all);
    }
    uses
}

/// The module that defines the item that a path names; `None` if another crate defines it.
fn resolve(modules: &Modules, from: &Names, path: &[String], depth: usize) -> Option<Names> {
    // Re-exports may form a circle.
    if depth > 16 {
        return None;
    }
    let (mut at, mut rest) = begin(modules, from, path, depth)?;
    loop {
        let source = modules.sources.get(&at)?;
        let Some((name, below)) = rest.split_first() else { return Some(at) };
        if source.children.contains_key(name) {
            at.push(name.clone());
            if !modules.sources.contains_key(&at) {
                return None;
            }
            rest = below;
            continue;
        }
        let passed_on = source.imports.iter().find(|import| import.name.as_ref() == Some(name));
        if let Some(import) = passed_on {
            let path: Names = import.path.iter().chain(below).cloned().collect();
            return resolve(modules, &at, &path, depth + 1);
        }
        if source.items.contains(name) {
            return Some(at);
        }
        for glob in source.imports.iter().filter(|import| import.name.is_none()) {
            let path: Names = glob.path.iter().chain(rest).cloned().collect();
            if let Some(found) = resolve(modules, &at, &path, depth + 1)
                && modules.sources.get(&found).is_some_and(|source| source.items.contains(name))
            {
                return Some(found);
            }
        }
        return Some(at);
    }
}

/// The module at which a path begins, and the rest of the path.
fn begin<'p>(
    modules: &Modules,
    from: &Names,
    path: &'p [String],
    depth: usize,
) -> Option<(Names, &'p [String])> {
    let (first, rest) = path.split_first()?;
    let source = modules.sources.get(from)?;
    match &first[..] {
        "crate" => Some((Names::new(), rest)),
        "self" => Some((from.clone(), rest)),
        "super" => {
            let up = path.iter().take_while(|name| *name == "super").count();
            let above = from.len().checked_sub(up)?;
            Some((from[..above].to_vec(), &path[up..]))
        }
        _ if source.children.contains_key(first) => Some((from.clone(), path)),
        _ => {
            // The name is that of an imported module. Here only the path below the module counts,
            // because the import itself is counted already.
            let import = source.imports.iter().find(|import| import.name.as_ref() == Some(first))?;
            if import.path == path[..1] {
                return None;
            }
            let module = resolve(modules, from, &import.path, depth + 1)?;
            let is_module = import.path.last() == module.last();
            is_module.then_some((module, rest))
        }
    }
}

/// The largest set of files in which each uses, directly or indirectly, every other; empty if there
/// is none.
fn largest_circle(uses: &BTreeMap<Names, BTreeSet<Names>>) -> Vec<Names> {
    let reached: BTreeMap<&Names, BTreeSet<&Names>> =
        uses.keys().map(|from| (from, reach(uses, from))).collect();
    let circle = |from: &Names| -> Vec<Names> {
        let together = reached[from].iter().filter(|to| reached[**to].contains(from));
        together.map(|to| (*to).clone()).collect()
    };
    uses.keys().map(circle).max_by_key(Vec::len).unwrap_or_default()
}

/// All files that a file uses, directly or indirectly.
fn reach<'u>(uses: &'u BTreeMap<Names, BTreeSet<Names>>, from: &Names) -> BTreeSet<&'u Names> {
    let (mut reached, mut todo) = (BTreeSet::new(), vec![from.clone()]);
    while let Some(module) = todo.pop() {
        for next in uses.get(&module).into_iter().flatten() {
            if reached.insert(next) {
                todo.push(next.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;
    use serde_json::json;

    fn crate_of(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::default();
        for (module, text) in files {
            let names = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            modules.sources.insert(names, Source::parse(text));
        }
        modules
    }

    fn look(ranks: Value, files: &[(&str, &str)]) -> Found {
        Declared::read(&json!({ "ranks": ranks })).look(&crate_of(files))
    }

    #[test]
    fn an_arrow_to_a_higher_rank_points_up() {
        let files = [
            ("", "mod low; mod high; pub use high::High;"),
            ("low", "use crate::high::High; fn f() {}"),
            ("high", "use crate::low; pub struct High; fn g() { low::f() }"),
        ];
        let found = look(json!([["low"], ["high"]]), &files);
        assert_eq!((found.arrows, found.upward), (3, vec!["low -> high".to_owned()]));
        assert_eq!(found.circle, ["high", "low"]);
    }

    #[test]
    fn a_name_that_is_passed_on_is_where_it_is_defined() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "mod inner; pub use inner::Thing; pub use std::fs::File; pub use self::inner::*;"),
            ("a::inner", "pub struct Thing; pub struct Other;"),
            ("b", "use crate::a::{Thing, Other, File};"),
        ];
        let uses = uses(&crate_of(&files));
        let names = |path: &str| path.split("::").map(str::to_owned).collect::<Names>();
        assert_eq!(uses[&names("b")], BTreeSet::from([names("a::inner")]));
    }

    #[test]
    fn children_and_imported_modules_are_used_by_their_paths() {
        let files = [
            ("", "mod a; mod b;"),
            ("a", "mod x; pub mod y; fn f() { x::g() }"),
            ("a::x", "pub fn g() {}"),
            ("a::y", "pub fn h() {}"),
            ("b", "use crate::a; fn f() { a::y::h() }"),
        ];
        let found = look(json!([["a"], ["b"]]), &files);
        assert_eq!((found.arrows, found.upward.len(), found.circle.len()), (1, 0, 0));
        let uses = uses(&crate_of(&files));
        assert!(uses[&vec!["b".to_owned()]].contains(&vec!["a".to_owned(), "y".to_owned()]));
    }

    #[test]
    fn what_is_allowed_is_counted_and_what_is_not_ranked_is_named() {
        let files =
            [("", "mod a; mod b; mod c;"), ("a", "use crate::b::B;"), ("b", "pub struct B;"), ("c", "")];
        let declared = |upward| Declared::read(&json!({ "ranks": [["a"], ["b"]], "upward": upward }));
        let found = declared(0).look(&crate_of(&files));
        assert_eq!(found.unranked, ["c"]);
        assert_eq!(declared(0).faults("p", &found).len(), 2);
        assert_eq!(declared(1).faults("p", &found).len(), 1);
        assert_eq!(declared(2).slack(&found), ["upward = 2 can be 1"]);
    }
}
