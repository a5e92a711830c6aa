//! Flags that name a range of keys.

use crate::text;
use clap::Args;
use katydid::{KeyRange, Prefix};
use katydid_command::failure::{Failure, Result};
use std::ops::Bound;

/// The lower and the upper bound of a range of keys.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Flags that select keys. A key is selected if all given flags admit it.
#[derive(Debug, Args)]
pub struct KeyFlags {
    /// Only keys that begin with KEY
    #[arg(long, value_name = "KEY")]
    prefix: Option<String>,
    /// Only keys at or above KEY
    #[arg(long, value_name = "KEY")]
    from: Option<String>,
    /// Only keys below KEY
    #[arg(long, value_name = "KEY")]
    to: Option<String>,
}

/// Reads a key from an argument of the command line.
pub fn key(argument: &str) -> Result<Vec<u8>> {
    text::argument(argument).map_err(|error| Failure::usage(format_args!("the key {argument:?}: {error}")))
}

impl KeyFlags {
    /// Returns the range of the keys that all flags admit. The range may be empty.
    pub fn range(&self) -> Result<Bounds> {
        let read = |flag: &Option<String>| flag.as_deref().map(key).transpose();
        Ok(bounds(read(&self.prefix)?, read(&self.from)?, read(&self.to)?))
    }
}

fn bounds(prefix: Option<Vec<u8>>, from: Option<Vec<u8>>, to: Option<Vec<u8>>) -> Bounds {
    let (low, high) = Prefix(prefix.unwrap_or_default()).into_bounds();
    let low = match (low, from) {
        (Bound::Included(low), Some(from)) => Bound::Included(low.max(from)),
        (low, _) => low,
    };
    let high = match (high, to) {
        (Bound::Excluded(high), Some(to)) => Bound::Excluded(high.min(to)),
        (Bound::Unbounded, Some(to)) => Bound::Excluded(to),
        (high, _) => high,
    };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_range_if_all_flags_admit_it() {
        let key = |text: &str| text.as_bytes().to_vec();
        let from = |text: &str| Bound::Included(key(text));
        let to = |text: &str| Bound::Excluded(key(text));
        assert_eq!(bounds(None, None, None), (from(""), Bound::Unbounded));
        assert_eq!(bounds(None, Some(key("b")), Some(key("d"))), (from("b"), to("d")));
        assert_eq!(bounds(Some(key("b")), None, None), (from("b"), to("c")));
        assert_eq!(bounds(Some(key("b")), Some(key("bb")), Some(key("bd"))), (from("bb"), to("bd")));
        assert_eq!(bounds(Some(key("b")), Some(key("a")), Some(key("d"))), (from("b"), to("c")));
        assert_eq!(bounds(Some(vec![0xff]), None, None), (Bound::Included(vec![0xff]), Bound::Unbounded));
    }
}
