//! One mutant: which text of which file is replaced, and which tests are to notice. Data only.

/// One fault.
pub struct Mutant {
    /// What is broken, in a few words.
    pub name: &'static str,
    pub file: &'static str,
    /// A text that occurs in the file exactly once.
    pub old: &'static str,
    pub new: &'static str,
    /// Arguments of `cargo test`.
    pub tests: &'static [&'static str],
}
