//! A mutant: the replaced text, its file, and the tests that must notice the change.

/// One fault.
pub struct Mutant {
    /// The fault, in a few words. Names are distinct.
    pub name: &'static str,
    pub file: &'static str,
    /// A text that occurs in the file exactly once.
    pub old: &'static str,
    pub new: &'static str,
    /// Arguments of `cargo test`.
    pub tests: &'static [&'static str],
}

impl Mutant {
    /// Returns whether the mutant's tests are unit tests of a crate below the engine, or tests of
    /// the device layer. Such tests build and run in seconds.
    pub fn is_quick(&self) -> bool {
        let is_below = !self.tests.contains(&"katydid") && !self.tests.contains(&"katydid-replica");
        is_below && (self.tests.contains(&"--lib") || self.tests.contains(&"katydid-device"))
    }
}
