//! Facts about all rows together, printed above and below their table.
//!
//! Pure functions.

use super::case::{Delay, Work};
use super::quantities::{checked, form};
use super::run::Row;
use super::study::Study;
use crate::grid::columns::Rows;
use crate::host::device::Device;
use katydid_command::bytes::grouped;
use katydid_wal::Form;

/// Name of the row's log device; empty if no case of the figure names a device of its own.
pub fn on(of: &Rows<'_, Study>, row: &Row) -> String {
    match of.rows.iter().any(|row| row.case.device.is_some()) {
        true => row.case.device.map_or(of.setting.device, Device::name).to_owned(),
        false => String::new(),
    }
}

/// All forms of NVRAM that the logs use.
pub fn forms(of: &Rows<'_, Study>) -> Vec<Form> {
    let mut forms: Vec<Form> = Vec::new();
    for form in of.rows.iter().filter_map(form) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

/// Summary of the checks that were made, if there were any.
pub fn check(of: &Rows<'_, Study>) -> Option<String> {
    let transfers: u64 = of.rows.iter().filter_map(checked).sum();
    let any = of.rows.iter().any(|row| checked(row).is_some());
    if of.rows.iter().any(|row| row.case.work == Work::Pair) {
        return any.then(|| {
            format!(
                "check: the conditions of TPC-C held after every run, {} transactions",
                grouped(transfers)
            )
        });
    }
    any.then(|| {
        format!(
            "check: after every run all balances and the history added up, {} transfers",
            grouped(transfers)
        )
    })
}

/// Rates of the raw device or raw NVRAM, one line for each device, delay and size of a record in
/// NVRAM.
pub fn limits(of: &Rows<'_, Study>) -> Vec<String> {
    let mut measured: Vec<_> =
        of.rows.iter().map(|row| (row.case.delay, row.case.record_in_nvram(), on(of, row))).collect();
    measured.sort();
    measured.dedup();
    let line = |(delay, record, device): (_, Option<u64>, String)| {
        let same = |row: &&Row| {
            (row.case.delay, row.case.record_in_nvram()) == (delay, record) && on(of, row) == device
        };
        let row = of.rows.iter().find(same)?;
        if let Some(bytes) = record {
            let us = row.median(|run| run.raw.write_us);
            return Some(format!(
                "NVRAM, delay {}: {bytes} bytes copied, written back and fenced in {us:.3} us (median round)",
                Delay(delay)
            ));
        }
        Some(format!(
            "device{}{device}, delay {}: raw durable 4 KiB write {:.1} us, best sequential {:.0} MB/s (median round)",
            if device.is_empty() { "" } else { " " },
            Delay(delay),
            row.median(|run| run.raw.write_us),
            row.median(|run| run.raw.best_megabytes)
        ))
    };
    measured.into_iter().filter_map(line).collect()
}
