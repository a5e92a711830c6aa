//! Walking a range of keys under interval locks.

use crate::error::Result;
use crate::transaction::Transaction;
use std::marker::PhantomData;

/// The keys and values of a range, from either end. After an error it ends.
#[derive(Debug)]
pub struct Range<'t> {
    pub(crate) transaction: PhantomData<&'t mut Transaction>,
}

impl Iterator for Range<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        None
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        None
    }
}
