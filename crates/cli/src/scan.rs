//! `scan`: keys and values in order.

use crate::point::print_entry;
use crate::text;
use clap::Args;
use katydid::Range;
use katydid_command::database::{self, DatabaseDir, close_after};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use std::ops::Bound;

/// Print `key<TAB>value` of all keys, or of a range, in the order of their bytes
///
/// Bytes that are not text are escaped in the way `load` reads back. With --json each line is an object with the fields
/// "key" and "value"; where bytes are not text, with "key_hex" or "value_hex" instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid scan --dir ./db unicode --prefix 1F4 --limit 3\n  \
                        katydid scan --dir ./db log --from 2026-01 --to 2026-02 --json\n  \
                        katydid scan --dir ./db log --reverse --limit 10")]
pub struct Scan {
    /// Name of the table
    table: String,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
    /// At most so many keys
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: DatabaseDir,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let read = |key: &Option<String>| match key {
            Some(key) => text::argument(key)
                .map(Some)
                .map_err(|error| Failure::usage(format_args!("the key {key:?}: {error}"))),
            None => Ok(None),
        };
        let (start, end) = bounds(read(&self.prefix)?, read(&self.from)?, read(&self.to)?);
        let database = self.place.open()?;
        let table = database::table(&database, &self.table)?;
        if end.as_ref().is_some_and(|end| *end <= start) {
            return close_after(&database, Ok(()));
        }
        let mut out = Output::new();
        let transaction = database.begin()?;
        let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = transaction.range(&table, (Bound::Included(start.as_slice()), end));
        let printed = self.print(range, &mut out).and_then(|()| out.flush());
        let ended = transaction.rollback().map_err(Failure::from);
        close_after(&database, printed.and(ended))
    }

    fn print(&self, range: Range<'_>, out: &mut Output) -> Result<()> {
        let mut range = match self.limit {
            Some(limit) => range.limit(usize::try_from(limit).unwrap_or(usize::MAX)),
            None => range,
        };
        while let Some((key, value)) = if self.reverse { range.next_back_ref()? } else { range.next_ref()? } {
            print_entry(out, key, value, self.json)?;
        }
        Ok(())
    }
}

/// The first key, and the key before which to end.
fn bounds(prefix: Option<Vec<u8>>, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> (Vec<u8>, Option<Vec<u8>>) {
    let after_prefix = prefix.as_deref().and_then(after);
    let start = prefix.unwrap_or_default().max(from.unwrap_or_default());
    let end = match (after_prefix, to) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    (start, end)
}

/// The first key after all that begin with `prefix`, if there is one.
fn after(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_where_the_next_begins() {
        assert_eq!(after(b"ab").unwrap(), b"ac");
        assert_eq!(after(b"a\xff\xff").unwrap(), b"b");
        assert_eq!(after(b"\xff"), None);
        assert_eq!(after(b""), None);
    }

    #[test]
    fn bounds_meet() {
        let key = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(bounds(None, None, None), (vec![], None));
        assert_eq!(bounds(key("b"), None, None), (b"b".to_vec(), key("c")));
        assert_eq!(bounds(key("b"), key("bb"), key("bd")), (b"bb".to_vec(), key("bd")));
        assert_eq!(bounds(key("b"), key("a"), key("d")), (b"b".to_vec(), key("c")));
    }
}
