//! The standard's random numbers and texts (2.1.6, 4.3.2, 4.3.3). All randomness comes from the
//! caller's generator.

use super::rows::Address;
use super::settings::Settings;
use crate::generate::non_uniform;
use crate::row::Text;
use fastrand::Rng;

/// Constants of the non-uniform choices of customers and items.
const C_CUSTOMER: u32 = 259;
const C_ITEM: u32 = 7911;
/// Constants of last names in the population and in a run. They must differ by 65 to 119, but not
/// by 96 or 112 (2.1.6.1).
const C_LAST_LOADED: u32 = 173;
const C_LAST_RUN: u32 = 86;

/// Number of distinct last names.
const LAST_NAMES: u32 = 1000;

pub(super) fn customer(rng: &mut Rng, settings: &Settings) -> u32 {
    non_uniform(rng, 1023, C_CUSTOMER, settings.customers_of_district)
}

pub(super) fn item(rng: &mut Rng, settings: &Settings) -> u32 {
    non_uniform(rng, 8191, C_ITEM, settings.items)
}

/// Draws a last name that at least one customer has.
pub(super) fn last_name(rng: &mut Rng, settings: &Settings) -> Vec<u8> {
    name_of(non_uniform(rng, 255, C_LAST_RUN, LAST_NAMES.min(settings.customers_of_district)) - 1)
}

/// The last name of a loaded customer. The first 1,000 customers have each name once, the others a
/// drawn name.
pub(super) fn loaded_last_name(rng: &mut Rng, customer: u32) -> Vec<u8> {
    match customer <= LAST_NAMES {
        true => name_of(customer - 1),
        false => name_of(non_uniform(rng, 255, C_LAST_LOADED, LAST_NAMES) - 1),
    }
}

/// The last name for a number from 0 to 999: one syllable for each digit.
pub(super) fn name_of(number: u32) -> Vec<u8> {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let syllable = |digit: u32| SYLLABLES[(digit % 10) as usize].as_bytes();
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}

/// Draws `from` to `to` letters and digits.
pub(super) fn text(rng: &mut Rng, from: usize, to: usize) -> Text {
    let length = rng.usize(from..=to);
    Text((0..length).map(|_| rng.alphanumeric() as u8).collect())
}

pub(super) fn letters<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.alphanumeric() as u8)
}

pub(super) fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.u8(b'0'..=b'9'))
}

/// Draws 26 to 50 letters and digits. 10 of 100 texts contain ORIGINAL.
pub(super) fn maybe_original(rng: &mut Rng) -> Text {
    const ORIGINAL: &[u8] = b"ORIGINAL";
    let mut text = text(rng, 26, 50);
    if rng.u32(..100) < 10 {
        let at = rng.usize(..=text.0.len() - ORIGINAL.len());
        text.0[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    text
}

pub(super) fn address(rng: &mut Rng) -> Address {
    let mut zip = *b"000011111";
    zip[..4].copy_from_slice(&digits::<4>(rng));
    Address {
        street_1: text(rng, 10, 20),
        street_2: text(rng, 10, 20),
        city: text(rng, 10, 20),
        state: std::array::from_fn(|_| rng.uppercase() as u8),
        zip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_syllables() {
        assert_eq!(name_of(0), b"BARBARBAR");
        assert_eq!(name_of(371), b"PRICALLYOUGHT");
        assert_eq!(name_of(999), b"EINGEINGEING");
    }

    #[test]
    fn choices_stay_within_what_there_is_and_are_not_uniform() {
        const DRAWS: usize = 100_000;
        let mut rng = Rng::with_seed(7);
        for customers_of_district in [1, 30, 1000, 3000] {
            let settings = Settings { items: 100_000, customers_of_district, ..Settings::default() };
            let names: Vec<Vec<u8>> = (0..customers_of_district.min(1000)).map(name_of).collect();
            let mut times = vec![0_usize; customers_of_district as usize + 1];
            for _ in 0..DRAWS {
                times[customer(&mut rng, &settings) as usize] += 1;
                assert!((1..=settings.items).contains(&item(&mut rng, &settings)));
            }
            assert_eq!(times[0], 0);
            for _ in 0..1000 {
                assert!(names.contains(&last_name(&mut rng, &settings)));
            }
            times.sort_unstable_by(|a, b| b.cmp(a));
            let tenth: usize = times[..times.len().div_ceil(10)].iter().sum();
            assert!(customers_of_district < 1000 || tenth > DRAWS / 5, "a tenth has {tenth} of {DRAWS}");
        }
        assert!((65..=119).contains(&(C_LAST_LOADED - C_LAST_RUN)));
    }
}
