//! Makes the contents of fields: printable bytes that are random or, with `dataintegrity`, follow
//! from key and field name.

use super::record;
use super::settings::{FieldLength, Settings};
use crate::generate::{ZIPFIAN_CONSTANT, Zipfian};
use fastrand::Rng;

/// Number of random bytes that are drawn once. Random contents are copied slices of them.
const POOL: usize = 256 << 10;

/// Makes fields and records for one thread.
#[derive(Debug)]
pub(super) struct Values {
    field_count: usize,
    length: Length,
    integrity: Option<String>,
    pool: Vec<u8>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Length {
    Constant(usize),
    Uniform(u32, u32),
    Zipfian(u32, Zipfian),
}

impl Length {
    fn next(&self, rng: &mut Rng) -> usize {
        match self {
            Length::Constant(length) => *length,
            Length::Uniform(min, max) => rng.u32(*min..=*max) as usize,
            Length::Zipfian(min, zipfian) => *min as usize + zipfian.next(rng) as usize,
        }
    }
}

impl Values {
    pub(super) fn new(settings: &Settings, rng: &mut Rng) -> Self {
        let length = match settings.field_length {
            FieldLength::Constant(length) => Length::Constant(length as usize),
            FieldLength::Uniform(min, max) => Length::Uniform(min, max),
            FieldLength::Zipfian(min, max) => {
                Length::Zipfian(min, Zipfian::new(u64::from(max - min) + 1, ZIPFIAN_CONSTANT))
            }
        };
        let integrity = settings.data_integrity.then(|| settings.field_name_prefix.clone());
        let bytes = if integrity.is_some() { 0 } else { POOL + settings.field_length.max() as usize };
        let mut pool = vec![0; bytes];
        fill(rng, &mut pool);
        Values { field_count: settings.field_count as usize, length, integrity, pool, scratch: Vec::new() }
    }

    /// A field number drawn uniformly.
    pub(super) fn choose_field(&self, rng: &mut Rng) -> usize {
        rng.usize(..self.field_count)
    }

    /// Replaces the content of `out` by one field of the record with the given key.
    pub(super) fn field(&self, key: &[u8], field: usize, rng: &mut Rng, out: &mut Vec<u8>) {
        out.clear();
        self.append(key, field, rng, out);
    }

    fn append(&self, key: &[u8], field: usize, rng: &mut Rng, out: &mut Vec<u8>) {
        let length = self.length.next(rng);
        match &self.integrity {
            Some(prefix) => {
                let start = out.len();
                out.resize(start + length, 0);
                expected(prefix, key, field, &mut out[start..]);
            }
            None => {
                let at = rng.usize(..=self.pool.len() - length);
                out.extend_from_slice(&self.pool[at..at + length]);
            }
        }
    }

    /// Replaces the content of `out` by a whole record for the given key.
    pub(super) fn record(&mut self, key: &[u8], rng: &mut Rng, out: &mut Vec<u8>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let mut ends = Vec::with_capacity(self.field_count);
        for field in 0..self.field_count {
            self.append(key, field, rng, &mut scratch);
            ends.push(scratch.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let fields: Vec<&[u8]> = starts.zip(&ends).map(|(start, end)| &scratch[start..*end]).collect();
        record::encode(&fields, out);
        self.scratch = scratch;
    }

    /// Checks one field, or all fields, of a value that was read under `key`. Returns the fault.
    pub(super) fn check(
        &mut self,
        key: &[u8],
        value: &[u8],
        only: Option<usize>,
    ) -> Result<(), &'static str> {
        let Some(record) = record::Record::decode(value) else { return Err("is no record of this workload") };
        if record.count() != self.field_count {
            return Err("has another number of fields");
        }
        let Some(prefix) = &self.integrity else {
            // Without integrity there is no expected content. The field is still decoded.
            let looked_at = match only {
                Some(field) => record.field(field).map_or(0, <[u8]>::len),
                None => record.fields().map(<[u8]>::len).sum(),
            };
            std::hint::black_box(looked_at);
            return Ok(());
        };
        for (field, content) in record.fields().enumerate() {
            if only.is_some_and(|only| only != field) {
                continue;
            }
            self.scratch.clear();
            self.scratch.resize(content.len(), 0);
            expected(prefix, key, field, &mut self.scratch);
            if self.scratch != content {
                return Err("does not follow from its key");
            }
        }
        Ok(())
    }
}

/// Printable bytes that follow from a key and a field's name.
fn expected(prefix: &str, key: &[u8], field: usize, out: &mut [u8]) {
    let mut seed: u64 = 0xCBF2_9CE4_8422_2325;
    let number = (field as u64).to_le_bytes();
    for byte in key.iter().chain(prefix.as_bytes()).chain(&number) {
        seed = (seed ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    fill(&mut Rng::with_seed(seed), out);
}

fn fill(rng: &mut Rng, out: &mut [u8]) {
    rng.fill(out);
    out.iter_mut().for_each(|byte| *byte = b' ' + (*byte & 63));
}
