//! Error of the simulation on a machine whose real rates were measured.

use super::simulate::simulate;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_manycore::{Machine, Plan, Sizes, ring_bytes};
use katydid_wal::InserterSettings;

/// Simulates all runs of `designs` whose real rates `machine` contains. Prints one line for each
/// run, and the mean error.
pub fn print(out: &mut Output, machine: &Machine, designs: &[String], seed: u64) -> Result<()> {
    let known: Vec<_> = machine.real.iter().filter(|real| designs.contains(&real.inserter)).collect();
    if known.is_empty() {
        return out.line("no measurement of a real machine is known to compare with");
    }
    let plans = known.iter().map(|real| Plan {
        inserter: real.inserter.clone(),
        threads: real.threads,
        sizes: Sizes::Fixed(real.record),
        slots: InserterSettings::default().consolidation_slots,
        hop_bytes: InserterSettings::default().hop_bytes,
        chunk_bytes: InserterSettings::default().chunk_bytes,
        ring_bytes: ring_bytes(machine.cores, real.threads, real.record),
        millis: 5.0,
        work_ns: 0.0,
        seed,
    });
    let outcomes = simulate(machine, "compare", plans.collect())?;
    out.line(format!(
        "{:<14}{:>8}{:>8}{:>16}{:>16}{:>9}",
        "inserter", "threads", "record", "real/s", "simulated/s", "error"
    ))?;
    let mut product = 1.0;
    for (real, outcome) in known.iter().zip(&outcomes) {
        let simulated = outcome.records_per_second;
        if real.per_second <= 0.0 || simulated <= 0.0 {
            return Err(Failure::failed("a rate of zero cannot be compared"));
        }
        let ratio = simulated / real.per_second;
        product *= ratio.max(1.0 / ratio);
        out.line(format!(
            "{:<14}{:>8}{:>8}{:>16.0}{:>16.0}{:>+8.0}%",
            real.inserter,
            real.threads,
            real.record,
            real.per_second,
            simulated,
            (ratio - 1.0) * 100.0
        ))?;
    }
    let mean = f64::powf(product, 1.0 / known.len() as f64);
    out.line(format!("off by a factor of {mean:.2} in the (geometric) mean"))
}
