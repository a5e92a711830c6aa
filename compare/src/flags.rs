//! Flags of all commands.

use crate::Result;
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

/// Runs `work` in a new or empty folder. A folder that this function created is removed afterwards,
/// also if `work` fails.
pub fn in_new_folder<T>(folder: &Path, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let made = !folder.exists();
    std::fs::create_dir_all(folder)?;
    if std::fs::read_dir(folder)?.next().is_some() {
        return Err(format!("{} is not empty", folder.display()).into());
    }
    let done = work();
    if made {
        std::fs::remove_dir_all(folder)?;
    }
    done
}
