//! Commit and build options of the program, found by the build script.

/// Version of the workspace, and the commit in parentheses if it is known.
pub const VERSION: &str = env!("KATYDID_VERSION");

/// The commit, if the builder or git named it.
pub const COMMIT: Option<&str> = option_env!("KATYDID_COMMIT");

/// Version of the compiler, if it is known.
pub const RUSTC: Option<&str> = option_env!("KATYDID_RUSTC");

/// Cargo's profile.
pub const PROFILE: Option<&str> = option_env!("KATYDID_PROFILE");

/// Returns whether files differed from the commit, if git could tell.
pub fn dirty() -> Option<bool> {
    option_env!("KATYDID_DIRTY").map(|dirty| dirty == "true")
}
