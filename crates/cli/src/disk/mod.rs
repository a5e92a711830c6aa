//! `bench-disk`: what a device can do for a log.

mod measure;

use crate::bytes::{grouped, shown};
use crate::failure::Result;
use crate::output::{Output, say};
use crate::progress::Progress;
use clap::Args;
use katydid_device::{Directory, FileDirectory, Method};
pub use measure::{BLOCK, Limit, Probe, Writes, method_name};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Measure how fast a device makes small writes durable, and say what suits it
///
/// Writes to a zero-filled file in the folder, as the log does, and removes it afterwards. On a shared machine, repeat it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid bench-disk --dir /mnt/fast")]
pub struct BenchDisk {
    /// A folder on the device; created if it is missing
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Seconds for each of the ten measurements
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Size of the file written to
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = file_bytes)]
    file_bytes: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Reads a number of seconds that a measurement may take.
pub fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=86_400.0 * 365.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds above 0".to_owned()),
    }
}

fn file_bytes(text: &str) -> std::result::Result<u64, String> {
    match crate::bytes::parse(text)? {
        bytes @ 0x10_0000..=0x10_0000_0000 => Ok(bytes / BLOCK as u64 * BLOCK as u64),
        _ => Err("must be from 1 MiB to 64 GiB".to_owned()),
    }
}

const IN_FLIGHT: [usize; 4] = [2, 4, 8, 16];
const SEQUENTIAL: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];

struct Found {
    direct: Option<Writes>,
    buffered: Writes,
    best: Method,
    in_flight: Vec<(usize, Writes)>,
    sequential: Vec<(usize, Writes)>,
}

impl BenchDisk {
    pub fn run(self) -> Result<()> {
        let place = FileDirectory::open(&self.dir)?.describe();
        let found = self.measure()?;
        if self.json {
            return say(as_json(&found, &place).to_string());
        }
        print(&found, &place)
    }

    fn measure(&self) -> Result<Found> {
        let mut progress = Progress::new("bench-disk");
        let steps = (2 + IN_FLIGHT.len() + SEQUENTIAL.len()) as f64;
        let mut step = 0.0;
        let time = Duration::from_secs_f64(self.seconds);
        let mut show = |what: String| {
            progress.show(Some(step / steps), || what);
            step += 1.0;
        };

        show("direct, durable writes".to_owned());
        let probe = Probe::new(&self.dir, self.file_bytes, Method::Direct)?;
        let direct = match probe.method() {
            Method::Direct => Some(probe.durable_writes(BLOCK, 1, time)?),
            _ => None,
        };
        drop(probe);
        show("buffered writes and fdatasync".to_owned());
        let probe = Probe::new(&self.dir, self.file_bytes, Method::Buffered)?;
        let buffered = probe.durable_writes(BLOCK, 1, time)?;
        drop(probe);

        let best = match &direct {
            Some(direct) if direct.us(0.5) <= buffered.us(0.5) => Method::Direct,
            _ => Method::Buffered,
        };
        let probe = Probe::new(&self.dir, self.file_bytes, best)?;
        let mut in_flight = Vec::new();
        for threads in IN_FLIGHT {
            show(format!("{threads} in flight"));
            in_flight.push((threads, probe.durable_writes(BLOCK, threads, time)?));
        }
        let mut sequential = Vec::new();
        for block in SEQUENTIAL {
            show(format!("{} at a time", shown(block as u64)));
            sequential.push((block, probe.durable_writes(block, 1, time)?));
        }
        Ok(Found { direct, buffered, best, in_flight, sequential })
    }
}

impl Found {
    fn alone(&self) -> &Writes {
        match (&self.direct, self.best) {
            (Some(direct), Method::Direct) => direct,
            _ => &self.buffered,
        }
    }

    /// The smallest write that gets 80 % of the best sequential rate.
    fn write_bytes(&self) -> usize {
        let best = self.sequential.iter().map(|(_, writes)| writes.bytes_per_second).fold(0.0, f64::max);
        let enough = self.sequential.iter().find(|(_, writes)| writes.bytes_per_second >= 0.8 * best);
        enough.map_or(BLOCK, |(block, _)| *block)
    }

    /// How many times the rate of one write after the other 16 in flight reach.
    fn scaling(&self) -> f64 {
        let most = self.in_flight.iter().map(|(_, writes)| writes.per_second).fold(0.0, f64::max);
        most / self.alone().per_second.max(1e-9)
    }

    fn advice(&self) -> Vec<String> {
        let method = method_name(self.best);
        let mut advice = vec![match &self.direct {
            None => "use --method buffered: this file system takes no direct writes".to_owned(),
            Some(direct) => {
                let (a, b) = (direct.us(0.5), self.buffered.us(0.5));
                format!("use --method {method}: direct p50 {a:.0} us, buffered {b:.0} us")
            }
        }];
        advice.push(format!(
            "one blocking client can commit at most {} times a second; group commit does the rest",
            grouped(self.alone().per_second as u64)
        ));
        advice.push(format!(
            "writes of {} reach 80 % of the sequential rate",
            shown(self.write_bytes() as u64)
        ));
        if self.scaling() < 1.5 {
            advice.push("several writes in flight gain little here".to_owned());
        } else {
            advice
                .push(format!("several writes in flight reach {:.1} times the rate of one", self.scaling()));
        }
        advice
    }
}

fn print(found: &Found, place: &str) -> Result<()> {
    let mut out = Output::new();
    out.line(place)?;
    out.line(format!(
        "{:<38}{:>12}{:>10}{:>10}{:>12}",
        "durable writes", "a second", "p50 us", "p99 us", "MB/s"
    ))?;
    let mut row = |what: String, writes: &Writes| {
        out.line(format!(
            "{what:<38}{:>12}{:>10.1}{:>10.1}{:>12.1}",
            grouped(writes.per_second as u64),
            writes.us(0.5),
            writes.us(0.99),
            writes.bytes_per_second / 1e6,
        ))
    };
    if let Some(direct) = &found.direct {
        row("4 KiB direct".to_owned(), direct)?;
    }
    row("4 KiB buffered + fdatasync".to_owned(), &found.buffered)?;
    let best = method_name(found.best);
    for (threads, writes) in &found.in_flight {
        row(format!("4 KiB {best}, {threads} in flight"), writes)?;
    }
    for (block, writes) in &found.sequential {
        row(format!("{} {best}", shown(*block as u64)), writes)?;
    }
    for advice in found.advice() {
        out.line(format!("- {advice}"))?;
    }
    out.flush()
}

fn as_json(found: &Found, place: &str) -> Value {
    let writes = |writes: &Writes| {
        json!({
            "per_second": writes.per_second,
            "bytes_per_second": writes.bytes_per_second,
            "latency_us": { "p50": writes.us(0.5), "p99": writes.us(0.99) },
        })
    };
    let each = |list: &[(usize, Writes)], name: &str| -> Vec<Value> {
        list.iter()
            .map(|(number, measured)| {
                let mut object = writes(measured);
                object[name] = (*number).into();
                object
            })
            .collect()
    };
    json!({
        "place": place,
        "direct": found.direct.as_ref().map(writes),
        "buffered": writes(&found.buffered),
        "best_method": method_name(found.best),
        "in_flight": each(&found.in_flight, "in_flight"),
        "sequential": each(&found.sequential, "block_bytes"),
        "advice": found.advice(),
    })
}
