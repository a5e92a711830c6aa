//! Keys that sort like the values that they encode. Pure functions.
//!
//! Numbers are big-endian. In a key, a zero byte follows each name; the names themselves contain no
//! zero byte.

/// Identity of a district. Most keys begin with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct DistrictId {
    pub(super) warehouse: u32,
    pub(super) district: u8,
}

impl DistrictId {
    /// The next district. Its keys come after all keys of this district, in every table whose keys
    /// begin with a district.
    pub(super) fn next(self) -> DistrictId {
        DistrictId { district: self.district + 1, ..self }
    }
}

fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut key = [0; N];
    let mut at = 0;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, N, "a key has another length than its parts");
    key
}

/// Key of a warehouse or an item.
pub(super) fn number(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

pub(super) fn district(of: DistrictId) -> [u8; 5] {
    join(&[&of.warehouse.to_be_bytes(), &[of.district]])
}

/// Key of a customer, an order or a new order.
pub(super) fn of_district(of: DistrictId, number: u32) -> [u8; 9] {
    join(&[&district(of), &number.to_be_bytes()])
}

pub(super) fn line(of: DistrictId, order: u32, line: u8) -> [u8; 10] {
    join(&[&of_district(of, order), &[line]])
}

pub(super) fn stock(warehouse: u32, item: u32) -> [u8; 8] {
    join(&[&warehouse.to_be_bytes(), &item.to_be_bytes()])
}

/// Prefix of the keys of all customers with this last name.
pub(super) fn last_name(of: DistrictId, last: &[u8]) -> Vec<u8> {
    [&district(of)[..], last, &[0]].concat()
}

pub(super) fn customer_by_name(of: DistrictId, last: &[u8], first: &[u8], customer: u32) -> Vec<u8> {
    [&last_name(of, last)[..], first, &[0], &customer.to_be_bytes()].concat()
}

/// Key of an order in `order_by_customer`. The latest order of a customer comes first.
pub(super) fn order_by_customer(of: DistrictId, customer: u32, order: u32) -> [u8; 13] {
    join(&[&of_district(of, customer), &(!order).to_be_bytes()])
}

/// Splits a key into its district and the number at its end.
pub(super) fn read_of_district(key: &[u8]) -> Option<(DistrictId, u32)> {
    let (of, number) = read_district(key)?;
    Some((of, u32::from_be_bytes(number.try_into().ok()?)))
}

/// Splits a key into its district and the rest.
pub(super) fn read_district(key: &[u8]) -> Option<(DistrictId, &[u8])> {
    let (warehouse, rest) = key.split_first_chunk()?;
    let (district, rest) = rest.split_first()?;
    Some((DistrictId { warehouse: u32::from_be_bytes(*warehouse), district: *district }, rest))
}

/// The number at the end of a key.
pub(super) fn last_number(key: &[u8]) -> Option<u32> {
    key.last_chunk().map(|number| u32::from_be_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_is_that_of_what_they_say() {
        let of = |warehouse, district| DistrictId { warehouse, district };
        let orders = [
            of_district(of(1, 1), 255),
            of_district(of(1, 1), 256),
            of_district(of(1, 10), 1),
            of_district(of(256, 1), 0),
        ];
        assert!(orders.is_sorted());
        assert_eq!(read_of_district(&orders[1]), Some((of(1, 1), 256)));
        assert_eq!(read_of_district(&orders[1][1..]), None);
        let names = [
            ("BAR", "B", 9),
            ("BARBAR", "A", 1),
            ("BARBAR", "AB", 0),
            ("BARBAR", "AB", 300),
            ("BARES", "A", 0),
        ];
        let keys = names.map(|(last, first, customer)| {
            customer_by_name(of(1, 1), last.as_bytes(), first.as_bytes(), customer)
        });
        assert!(keys.is_sorted());
        assert_eq!(keys.iter().filter(|key| key.starts_with(&last_name(of(1, 1), b"BARBAR"))).count(), 3);
        assert_eq!(last_number(&keys[3]), Some(300));
        assert!(order_by_customer(of(1, 1), 5, 9) < order_by_customer(of(1, 1), 5, 8));
        assert!(order_by_customer(of(1, 1), 5, 1) < order_by_customer(of(1, 1), 6, 9));
    }
}
