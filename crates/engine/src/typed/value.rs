//! Values of Rust types as bytes. Nothing here does I/O.

use std::borrow::Cow;

/// A value that can be used as a value of type `V`: the value itself, a reference to it, or a
/// borrowed form, such as `str` for `String`.
pub trait AsValue<V: ?Sized> {
    /// Returns the bytes of the value.
    fn encode_value(&self) -> Cow<'_, [u8]>;
}

/// The type of a typed table's values. Implemented for `String`, `Vec<u8>`, `[u8; N]`, integers
/// (the most significant byte first) and `()`. Implement it for a type of your own with the
/// encoding of your choice.
///
/// ```
/// use katydid::typed::{AsValue, Value};
/// use std::borrow::Cow;
///
/// struct Point {
///     x: u8,
///     y: u8,
/// }
///
/// impl AsValue<Point> for Point {
///     fn encode_value(&self) -> Cow<'_, [u8]> {
///         vec![self.x, self.y].into()
///     }
/// }
///
/// impl Value for Point {
///     fn decode_value(bytes: &[u8]) -> Option<Point> {
///         let &[x, y] = bytes else { return None };
///         Some(Point { x, y })
///     }
/// }
/// ```
pub trait Value: AsValue<Self> + Sized {
    /// Returns the value that has exactly these bytes; `None` if there is none.
    fn decode_value(bytes: &[u8]) -> Option<Self>;
}

impl<V, Q: AsValue<V> + ?Sized> AsValue<V> for &Q {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        (**self).encode_value()
    }
}

impl AsValue<Vec<u8>> for [u8] {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        self.into()
    }
}

impl AsValue<Vec<u8>> for Vec<u8> {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        self.into()
    }
}

impl Value for Vec<u8> {
    fn decode_value(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

impl AsValue<String> for str {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        self.as_bytes().into()
    }
}

impl AsValue<String> for String {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        self.as_bytes().into()
    }
}

impl Value for String {
    fn decode_value(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

impl<const N: usize> AsValue<[u8; N]> for [u8; N] {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        self.as_slice().into()
    }
}

impl<const N: usize> Value for [u8; N] {
    fn decode_value(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl AsValue<()> for () {
    fn encode_value(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&[])
    }
}

impl Value for () {
    fn decode_value(bytes: &[u8]) -> Option<Self> {
        bytes.is_empty().then_some(())
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl AsValue<$number> for $number {
            fn encode_value(&self) -> Cow<'_, [u8]> {
                self.to_be_bytes().to_vec().into()
            }
        }

        impl Value for $number {
            fn decode_value(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_be_bytes)
            }
        }
    )*};
}

numbers! { u8, u16, u32, u64, u128, i8, i16, i32, i64, i128 }
