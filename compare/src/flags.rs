//! Flags of all commands.

use crate::Result;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::str::FromStr;

/// A flag and its value, if it has one.
pub type Pair = (String, Option<String>);

/// Flags with their values, in order; `None` if the arguments ask for help.
pub fn pairs(arguments: Vec<String>) -> Result<Option<Vec<Pair>>> {
    let mut pairs: Vec<Pair> = Vec::new();
    for argument in arguments {
        if matches!(argument.as_str(), "--help" | "-h") {
            return Ok(None);
        }
        match pairs.last_mut() {
            _ if argument.starts_with("--") => pairs.push((argument, None)),
            Some((_, value @ None)) => *value = Some(argument),
            _ => return Err(format!("unknown: {argument}; see --help").into()),
        }
    }
    Ok(Some(pairs))
}

/// The value of a flag.
pub fn value<T>(flag: &str, value: &Option<String>) -> Result<T>
where
    T: FromStr,
    T::Err: std::fmt::Display,
{
    let value = value.as_ref().ok_or_else(|| format!("{flag} wants a value; see --help"))?;
    value.parse().map_err(|error| format!("{flag} {value}: {error}").into())
}

/// The values of a flag, separated by commas.
pub fn list<T>(flag: &str, value: &Option<String>, item: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let value = value.as_ref().ok_or_else(|| format!("{flag} wants a value; see --help"))?;
    value
        .split(',')
        .map(item)
        .collect::<Result<_>>()
        .map_err(|error| format!("{flag} {value}: {error}").into())
}

/// A number of threads or rounds; 0 is an error.
pub fn many(text: &str) -> Result<usize> {
    match text.parse() {
        Ok(0) => Err("there must be at least one".into()),
        Ok(many) => Ok(many),
        Err(error) => Err(format!("{text}: {error}").into()),
    }
}

/// Runs `work` in a new or empty folder. Afterwards the folder is removed if this function created
/// it, and is emptied otherwise, also if `work` fails or panics.
pub fn in_new_folder<T>(folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = !folder.exists();
    std::fs::create_dir_all(folder)?;
    if std::fs::read_dir(folder)?.next().is_some() {
        return Err(format!("{} is not empty", folder.display()).into());
    }
    let done = catch_unwind(AssertUnwindSafe(work));
    let removed = if made { std::fs::remove_dir_all(folder) } else { empty(folder) };
    // The error of `work` takes precedence, because it may have caused the error of the removal.
    let done = done.unwrap_or_else(|panic| resume_unwind(panic))?;
    removed?;
    Ok(done)
}

fn empty(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_left_as_it_was_also_after_a_failure() {
        let around = tempfile::tempdir().unwrap();
        let (new, old) = (around.path().join("new"), around.path().join("old"));
        std::fs::create_dir(&old).unwrap();
        for folder in [&new, &old] {
            let fails = in_new_folder(folder, || -> Result<()> {
                std::fs::create_dir(folder.join("store"))?;
                std::fs::write(folder.join("store/file"), "x")?;
                std::fs::write(folder.join("results"), "x")?;
                Err("no".into())
            });
            assert_eq!(fails.unwrap_err().to_string(), "no");
        }
        let panics = || in_new_folder(&new, || -> Result<()> { panic!("a pipe is closed") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!new.exists());
        assert_eq!(std::fs::read_dir(&old).unwrap().count(), 0);
        std::fs::write(old.join("mine"), "x").unwrap();
        assert!(in_new_folder(&old, || Ok(())).is_err());
        assert!(old.join("mine").exists(), "a folder with files in it is refused and untouched");
    }
}
