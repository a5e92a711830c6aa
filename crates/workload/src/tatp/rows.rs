//! Encodes and decodes keys and rows. Pure functions.
//!
//! A key is a subscriber (4 bytes, big-endian), followed by the type and the start time (1 byte
//! each) if the table has them. The key of `subscriber_by_number` is a number of 15 digits.

use super::tables::{ACCESS_INFO, CALL_FORWARDING, SPECIAL_FACILITY, SUBSCRIBER, TABLES};
use crate::row::rows;

/// A telephone number.
pub(super) type Number = [u8; 15];

rows! {
    /// Key: the subscriber, from 1.
    Subscriber in SUBSCRIBER {
        number: Number,
        /// Each is 0 or 1.
        bits: [u8; 10],
        /// Each is less than 16.
        hexes: [u8; 10],
        bytes: [u8; 10],
        /// `msc_location` and `vlr_location` are not 0.
        msc_location: u32,
        vlr_location: u32,
    }

    /// Key: the subscriber and the type, from 1 to 4.
    AccessInfo in ACCESS_INFO {
        data1: u8,
        data2: u8,
        data3: [u8; 3],
        data4: [u8; 5],
    }

    /// Key: the subscriber and the type, from 1 to 4.
    SpecialFacility in SPECIAL_FACILITY {
        /// 1 if the facility is active, otherwise 0.
        active: u8,
        error_control: u8,
        data_a: u8,
        data_b: [u8; 5],
    }

    /// Key: the special facility and the start time, which is 0, 8 or 16.
    CallForwarding in CALL_FORWARDING {
        /// Hour from 1 to 24.
        end_time: u8,
        number: Number,
    }
}

/// The telephone number of a subscriber: its identity in decimal digits.
pub(super) fn number(subscriber: u32) -> Number {
    let mut rest = subscriber;
    let mut number = [b'0'; 15];
    for digit in number.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    number
}

pub(super) fn subscriber(subscriber: u32) -> [u8; 4] {
    subscriber.to_be_bytes()
}

/// Key of an access info or special facility.
pub(super) fn of_subscriber(subscriber: u32, kind: u8) -> [u8; 5] {
    let [a, b, c, d] = subscriber.to_be_bytes();
    [a, b, c, d, kind]
}

pub(super) fn forwarding(subscriber: u32, facility: u8, start_time: u8) -> [u8; 6] {
    let [a, b, c, d] = subscriber.to_be_bytes();
    [a, b, c, d, facility, start_time]
}

/// Decodes a subscriber.
pub(super) fn read_subscriber(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Splits a key into its subscriber and the rest.
pub(super) fn split(key: &[u8]) -> Option<(u32, &[u8])> {
    let (subscriber, rest) = key.split_first_chunk()?;
    Some((u32::from_be_bytes(*subscriber), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_is_that_of_what_they_say() {
        assert_eq!(&number(1_234_567_890), b"000001234567890");
        assert!([number(9), number(10), number(u32::MAX)].is_sorted());
        let keys =
            [forwarding(255, 4, 16), forwarding(256, 1, 0), forwarding(256, 1, 8), forwarding(256, 2, 0)];
        assert!(keys.is_sorted());
        assert_eq!(split(&keys[2]), Some((256, &[1, 8][..])));
        assert_eq!((split(&keys[2][..3]), read_subscriber(&keys[0])), (None, None));
    }
}
