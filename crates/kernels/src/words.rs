//! Conversion between the values of options and words.
//!
//! Pure functions.

/// A word that names no value of an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not one of {known}")]
pub struct UnknownWord {
    /// Word that was given.
    pub word: String,
    /// Words that are known.
    pub known: &'static str,
}

/// Implements `Display` and `FromStr` of an enum by one word for each variant.
#[macro_export]
#[doc(hidden)]
macro_rules! words {
    ($name:ident, $known:literal, $($variant:ident = $word:literal),+) => {
        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(match self { $($name::$variant => $word),+ })
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;

            fn from_str(word: &str) -> Result<Self, $crate::words::UnknownWord> {
                match word {
                    $($word => Ok($name::$variant),)+
                    _ => Err($crate::words::UnknownWord { word: word.to_owned(), known: $known }),
                }
            }
        }
    };
}
