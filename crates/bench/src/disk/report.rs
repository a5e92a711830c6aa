//! Results of `bench-disk` as a table, as JSON, and as advice.

use crate::host::limit::{BLOCK, Writes, method_name};
use katydid_command::bytes::{grouped, shown};
use katydid_command::failure::Result;
use katydid_command::output::Output;
use katydid_device::probe::{Samples, Trials};
use katydid_device::{Device, Method};
use serde_json::{Value, json};

/// One measurement, with the value of the varied setting.
pub struct Row<T> {
    of: T,
    writes: Writes,
}

impl<T> Row<T> {
    pub fn new(of: T, samples: &Samples, block: usize) -> Result<Row<T>> {
        Ok(Row { of, writes: Writes::of(samples, block)? })
    }
}

/// All measurements, and the recommended settings.
pub struct DiskReport {
    place: String,
    device: Device,
    /// Writes of 4 KiB, by method.
    methods: Vec<Row<Method>>,
    /// Writes of [`Trials::LARGE`] bytes, by method.
    large: Vec<Row<Method>>,
    in_flight: Vec<Row<usize>>,
    sequential: Vec<Row<usize>>,
    states: Vec<Row<&'static str>>,
    syncs: Vec<Row<usize>>,
}

impl DiskReport {
    pub fn new(
        place: String,
        trials: &Trials,
        states: Vec<Row<&'static str>>,
        syncs: Vec<Row<usize>>,
    ) -> Result<DiskReport> {
        let by = |samples: Vec<(Method, &Samples)>, block| -> Result<Vec<_>> {
            samples.into_iter().map(|(method, samples)| Row::new(method, samples, block)).collect()
        };
        let methods = by(trials.methods.iter().map(|(method, small, _)| (*method, small)).collect(), BLOCK)?;
        let large = trials.methods.iter().map(|(method, _, large)| (*method, large)).collect();
        let depths = trials.depths.iter().map(|(depth, samples)| Row::new(*depth, samples, BLOCK));
        let sizes = trials.sizes.iter().map(|(block, samples)| Row::new(*block, samples, *block));
        Ok(DiskReport {
            place,
            device: trials.device(),
            methods,
            large: by(large, Trials::LARGE)?,
            // `methods` already has the measurement with one write in flight.
            in_flight: depths.skip(1).collect::<Result<_>>()?,
            sequential: sizes.skip(1).collect::<Result<_>>()?,
            states,
            syncs,
        })
    }

    fn us(rows: &[Row<Method>], method: Method) -> Option<f64> {
        rows.iter().find(|row| row.of == method).map(|row| row.writes.us(0.5))
    }

    fn advice(&self) -> Vec<String> {
        let Device { method, write_bytes, depth, .. } = self.device;
        let times: Vec<String> = self
            .methods
            .iter()
            .zip(&self.large)
            .map(|(small, large)| {
                let name = method_name(small.of);
                format!("{name} {:.0} and {:.0} us", small.writes.us(0.5), large.writes.us(0.5))
            })
            .collect();
        let size = shown(Trials::LARGE as u64);
        let mut advice = vec![format!(
            "use --method {}: p50 of 4 KiB and {size}: {}",
            method_name(method),
            times.join(", ")
        )];
        if Self::us(&self.methods, Method::Direct).is_none() {
            advice.push("this file system takes no direct writes".to_owned());
        } else if Self::us(&self.methods, Method::Uring).is_none() {
            advice.push("this kernel gives out no rings (io_uring)".to_owned());
        }
        let alone = self.methods.iter().find(|row| row.of == method).map_or(0.0, |row| row.writes.per_second);
        advice.push(format!(
            "one blocking client can commit at most {} times a second; group commit does the rest",
            grouped(alone as u64)
        ));
        advice.push(format!("writes of {} reach 80 % of the best rate", shown(write_bytes as u64)));
        let deep = self.in_flight.iter().find(|row| row.of == depth).map(|row| row.writes.per_second);
        advice.push(match deep {
            Some(rate) if alone > 0.0 => {
                format!("{depth} writes in flight reach {:.1} times the rate of one", rate / alone)
            }
            _ => "several writes in flight gain little here".to_owned(),
        });
        if let Some(slower) = self.slow_state() {
            advice.push(slower);
        }
        advice
    }

    /// Advice about filling segments with zeros in advance, if this matters on the device.
    fn slow_state(&self) -> Option<String> {
        let us = |name: &str| self.states.iter().find(|row| row.of == name).map(|row| row.writes.us(0.5));
        let (ready, fresh) = (us("zero-filled")?, us("appended")?);
        let times = fresh / ready.max(1e-3);
        (times >= 1.2).then(|| {
            format!(
                "appending takes {times:.1} times as long as writing where zeros are: the log prepares ahead"
            )
        })
    }

    pub fn print(&self) -> Result<()> {
        let mut out = Output::new();
        out.line(&self.place)?;
        out.line(format!(
            "{:<42}{:>12}{:>10}{:>10}{:>12}",
            "durable writes", "a second", "p50 us", "p99 us", "MB/s"
        ))?;
        let mut row = |what: String, writes: &Writes| {
            out.line(format!(
                "{what:<42}{:>12}{:>10.1}{:>10.1}{:>12.1}",
                grouped(writes.per_second as u64),
                writes.us(0.5),
                writes.us(0.99),
                writes.bytes_per_second / 1e6,
            ))
        };
        for Row { of, writes } in &self.methods {
            row(format!("4 KiB {}", method_name(*of)), writes)?;
        }
        for Row { of, writes } in &self.large {
            row(format!("{} {}", shown(Trials::LARGE as u64), method_name(*of)), writes)?;
        }
        let best = method_name(self.device.method);
        for Row { of, writes } in &self.sequential {
            row(format!("{} {best}", shown(*of as u64)), writes)?;
        }
        for Row { of, writes } in &self.in_flight {
            row(format!("4 KiB {best}, {of} in flight"), writes)?;
        }
        for Row { of, writes } in &self.states {
            row(format!("4 KiB {best}, {of} file"), writes)?;
        }
        for Row { of, writes } in &self.syncs {
            row(format!("4 KiB buffered + fdatasync, {of} at once"), writes)?;
        }
        for advice in self.advice() {
            out.line(format!("- {advice}"))?;
        }
        out.flush()
    }

    pub fn json(&self) -> Value {
        let Device { method, write_bytes, depth, write_time, bytes_per_second, .. } = self.device;
        let names = |rows: &[Row<Method>]| {
            rows.iter().map(|row| object("method", method_name(row.of), &row.writes)).collect::<Vec<_>>()
        };
        json!({
            "place": self.place,
            "device": {
                "method": method_name(method),
                "write_bytes": write_bytes,
                "depth": depth,
                "write_time_us": write_time.as_secs_f64() * 1e6,
                "bytes_per_second": bytes_per_second,
            },
            "methods": names(&self.methods),
            "methods_large": names(&self.large),
            "in_flight": objects("in_flight", &self.in_flight),
            "sequential": objects("block_bytes", &self.sequential),
            "states": objects("state", &self.states),
            "syncs": objects("at_once", &self.syncs),
            "advice": self.advice(),
        })
    }
}

fn objects<T: Into<Value> + Copy>(name: &str, rows: &[Row<T>]) -> Vec<Value> {
    rows.iter().map(|row| object(name, row.of, &row.writes)).collect()
}

fn object(name: &str, of: impl Into<Value>, writes: &Writes) -> Value {
    let mut object = json!({
        "per_second": writes.per_second,
        "bytes_per_second": writes.bytes_per_second,
        "latency_us": { "p50": writes.us(0.5), "p99": writes.us(0.99) },
    });
    object[name] = of.into();
    object
}
