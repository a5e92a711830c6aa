//! Commit and build options of the program, from the build script.

/// Version of the workspace, and the commit in parentheses if it is known.
pub const VERSION: &str = env!("KATYDID_VERSION");

/// The commit, if `KATYDID_COMMIT` or git names it.
pub const COMMIT: Option<&str> = option_env!("KATYDID_COMMIT");

/// Version of the compiler, if it is known.
pub const RUSTC: Option<&str> = option_env!("KATYDID_RUSTC");

/// Cargo profile of the build.
pub const PROFILE: Option<&str> = option_env!("KATYDID_PROFILE");

/// Returns whether files differed from the commit; `None` if git failed.
pub fn dirty() -> Option<bool> {
    option_env!("KATYDID_DIRTY").map(|dirty| dirty == "true")
}
