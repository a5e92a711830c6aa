//! Initial population, by the standard's rules. Pure functions.
//!
//! The seed and the subscriber's number determine all rows of a subscriber, so that the code that
//! loads rows and the code that counts them agree.

use super::rows::{self, AccessInfo, CallForwarding, SpecialFacility, Subscriber};
use super::settings::Settings;
use fastrand::Rng;

/// Start times of call forwardings.
pub(super) const START_TIMES: [u8; 3] = [0, 8, 16];

/// A special facility, and its call forwardings by start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facility {
    pub(super) kind: u8,
    pub(super) row: SpecialFacility,
    pub(super) forwardings: Vec<(u8, CallForwarding)>,
}

/// All rows of one subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SubscriberRows {
    pub(super) subscriber: Subscriber,
    pub(super) access: Vec<(u8, AccessInfo)>,
    pub(super) facilities: Vec<Facility>,
}

impl SubscriberRows {
    pub(super) fn new(seed: u64, subscriber: u32) -> Self {
        let mut rng = Rng::with_seed(seed ^ u64::from(subscriber).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let rng = &mut rng;
        let row = Subscriber {
            number: rows::number(subscriber),
            bits: std::array::from_fn(|_| rng.u8(0..=1)),
            hexes: std::array::from_fn(|_| rng.u8(0..=15)),
            bytes: std::array::from_fn(|_| rng.u8(..)),
            msc_location: rng.u32(1..),
            vlr_location: rng.u32(1..),
        };
        let access = some_kinds(rng).into_iter().map(|kind| (kind, access(rng))).collect();
        let facilities = some_kinds(rng).into_iter().map(|kind| facility(kind, rng)).collect();
        SubscriberRows { subscriber: row, access, facilities }
    }
}

/// One to four of the types 1 to 4, in order. Each number of types is equally likely.
fn some_kinds(rng: &mut Rng) -> Vec<u8> {
    let many = rng.usize(1..=4);
    let mut kinds = rng.choose_multiple(1..=4, many);
    kinds.sort_unstable();
    kinds
}

fn access(rng: &mut Rng) -> AccessInfo {
    AccessInfo { data1: rng.u8(..), data2: rng.u8(..), data3: capitals(rng), data4: capitals(rng) }
}

fn facility(kind: u8, rng: &mut Rng) -> Facility {
    let row = SpecialFacility {
        active: u8::from(rng.u32(..100) < 85),
        error_control: rng.u8(..),
        data_a: rng.u8(..),
        data_b: capitals(rng),
    };
    let many = rng.usize(0..=START_TIMES.len());
    let mut starts = rng.choose_multiple(START_TIMES, many);
    starts.sort_unstable();
    let forwarding = |start| (start, CallForwarding { end_time: start + rng.u8(1..=8), number: digits(rng) });
    Facility { kind, row, forwardings: starts.into_iter().map(forwarding).collect() }
}

fn capitals<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.u8(b'A'..=b'Z'))
}

pub(super) fn digits<const N: usize>(rng: &mut Rng) -> [u8; N] {
    std::array::from_fn(|_| rng.u8(b'0'..=b'9'))
}

/// Number of rows of each table. There are as many telephone numbers as subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Subscribers.
    pub subscribers: u64,
    /// Number of access infos of all subscribers together.
    pub access_infos: u64,
    /// Number of special facilities of all subscribers together.
    pub special_facilities: u64,
    /// Number of call forwardings of all special facilities together.
    pub call_forwardings: u64,
}

impl Counts {
    /// The rows that are loaded with this seed.
    pub fn loaded(settings: &Settings, seed: u64) -> Counts {
        let mut counts = Counts { subscribers: settings.subscribers.into(), ..Counts::default() };
        for subscriber in 1..=settings.subscribers {
            let all = SubscriberRows::new(seed, subscriber);
            counts.access_infos += all.access.len() as u64;
            counts.special_facilities += all.facilities.len() as u64;
            let forwardings = all.facilities.iter().map(|facility| facility.forwardings.len() as u64);
            counts.call_forwardings += forwardings.sum::<u64>();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_population_has_the_shares_of_the_standard() {
        const SUBSCRIBERS: u32 = 20_000;
        let mut how_many = BTreeMap::<(&str, usize), f64>::new();
        let (mut active, mut facilities) = (0.0, 0.0);
        for subscriber in 1..=SUBSCRIBERS {
            let all = SubscriberRows::new(7, subscriber);
            assert_eq!(all, SubscriberRows::new(7, subscriber));
            assert!(all.access.is_sorted_by(|a, b| a.0 < b.0));
            assert!(all.facilities.is_sorted_by(|a, b| a.kind < b.kind));
            *how_many.entry(("access", all.access.len())).or_default() += 1.0;
            *how_many.entry(("facilities", all.facilities.len())).or_default() += 1.0;
            for Facility { kind, row, forwardings } in &all.facilities {
                assert!((1..=4).contains(kind) && forwardings.is_sorted_by(|a, b| a.0 < b.0));
                assert!(forwardings.iter().all(|(start, row)| (1..=8).contains(&(row.end_time - start))));
                *how_many.entry(("forwardings", forwardings.len())).or_default() += 1.0;
                active += f64::from(row.active);
                facilities += 1.0;
            }
        }
        let close = |share: f64, expected: f64| (share - expected).abs() < 0.02;
        assert_eq!(how_many.len(), 12, "{how_many:?}");
        for ((what, many), times) in how_many {
            let of = if what == "forwardings" { facilities } else { f64::from(SUBSCRIBERS) };
            assert!(close(times / of, 0.25), "{many} {what}: {times} of {of}");
        }
        assert!(close(active / facilities, 0.85), "{active} of {facilities} are active");
    }
}
