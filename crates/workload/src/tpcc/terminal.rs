//! A terminal: the warehouse and the random generator with which requests are planned, and
//! functions that requests share.

use super::keys::DistrictId;
use super::settings::{DISTRICTS, Settings};
use super::tables::TABLES;
use crate::row::wrong;
use crate::store::StoreError;
use fastrand::Rng;
use std::time::SystemTime;

/// Source of requests.
#[derive(Debug)]
pub(super) struct Terminal {
    pub(super) settings: Settings,
    pub(super) warehouse: u32,
    pub(super) rng: Rng,
}

impl Terminal {
    /// Draws a district of the terminal's warehouse.
    pub(super) fn district(&mut self) -> DistrictId {
        DistrictId { warehouse: self.warehouse, district: self.rng.u8(1..=DISTRICTS) }
    }

    /// Draws another warehouse, or returns the terminal's own if there is only one.
    pub(super) fn other_warehouse(&mut self) -> u32 {
        match self.settings.warehouses {
            1 => self.warehouse,
            all => {
                let other = self.rng.u32(1..all);
                if other < self.warehouse { other } else { other + 1 }
            }
        }
    }
}

/// Microseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The error for a wrong row.
pub(super) fn inconsistent(table: usize, key: &[u8], how: &str) -> StoreError {
    wrong(TABLES[table], key, how)
}
