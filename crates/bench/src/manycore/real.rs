//! Runs the simulated code on real threads, for comparison.

use katydid_manycore::Real;
use katydid_wal::testing::rate::{Load, run};
use katydid_wal::testing::sizes::Sizes;
use katydid_wal::{FileOptions, InserterKind, Options};
use std::time::Duration;

const TIME: Duration = Duration::from_millis(250);

/// Rates of every design with each number of threads, each the median of five runs.
pub fn measure(record: usize, threads: &[usize]) -> Vec<Real> {
    let mut all = Vec::new();
    for inserter in InserterKind::ALL {
        for &threads in threads {
            let options = Options {
                medium: FileOptions { inserter: inserter.into(), ..FileOptions::default() }.into(),
                ..Options::default()
            };
            let load = Load { threads, sizes: Sizes::Fixed(record), work: 0, time: TIME };
            let mut rates: Vec<f64> =
                (0..5).map(|_| run(&options, &load, |_, _| ()).records_per_second()).collect();
            rates.sort_by(f64::total_cmp);
            all.push(Real { inserter: inserter.to_string(), threads, record, per_second: rates[2] });
        }
    }
    all
}
