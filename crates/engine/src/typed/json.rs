//! Values as JSON, for types that implement serde's traits. Compiled with feature `json`; nothing
//! here does I/O.

use super::value::{AsValue, Value};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// A value of a typed table that is stored as JSON. Where a value is written, `Json(&row)` may
/// stand for `Json(row)`. Needs the feature `json`.
///
/// ```
/// use katydid::typed::{Json, TypedTable};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Item {
///     price_cents: u64,
///     stock: u32,
/// }
///
/// # fn main() -> katydid::Result<()> {
/// # let database = katydid::Database::in_memory()?;
/// let items = TypedTable::<String, Json<Item>>::new(database.table("items")?);
/// let apple = Item { price_cents: 30, stock: 9 };
/// database.transact(|txn| items.put(txn, "apple", Json(&apple)))?;
/// let found = items.get(&database.begin_read_only()?, "apple")?;
/// assert!(matches!(found, Some(Json(Item { price_cents: 30, stock: 9 }))));
/// # Ok(())
/// # }
/// ```
///
/// Reading JSON that does not decode to the type fails with `Error::Undecodable`, like any value
/// that is not of its table's type. JSON has no text for infinite numbers and NaN: such a number is
/// written as `null`. Values that are nested more than 127 levels deep are written and cannot be
/// read.
///
/// # Panics
/// A write panics if the type refuses to be serialized, or has a map whose keys `serde_json` cannot
/// write as strings, such as tuples. Both are properties of the type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Json<T>(pub T);

fn encoded(row: &impl Serialize) -> Cow<'static, [u8]> {
    match serde_json::to_vec(row) {
        Ok(bytes) => bytes.into(),
        Err(error) => panic!("a value cannot be written as JSON: {error}"),
    }
}

impl<T: Serialize> AsValue<Json<T>> for Json<T> {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        encoded(&self.0)
    }
}

impl<T: Serialize> AsValue<Json<T>> for Json<&T> {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        encoded(self.0)
    }
}

impl<T: Serialize + DeserializeOwned> Value for Json<T> {
    fn decode_value(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().map(Json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_is_read_as_it_was_written() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let numbers = std::iter::repeat_with(|| f64::from_bits(random.u64(..)));
        for number in numbers.filter(|number| number.is_finite()).take(10_000) {
            let written = Json(number).encode_value().into_owned();
            let Some(Json(read)) = Json::<f64>::decode_value(&written) else { panic!("{number:e}") };
            assert_eq!(read.to_bits(), number.to_bits(), "{number:e} became {read:e}");
        }
    }
}
