//! Flags of the commands that run sweeps, and the cases that follow from them.

use super::case::{Case, Subject};
use super::sweep::{Spec, Sweep, Threads};
use crate::grid::flags::{self, or};
use crate::grid::results::Files;
use crate::host::device::Device;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_manycore::ring_bytes;
use katydid_wal::{FileOptions, HEADER_BYTES, InserterKind, InserterSettings};
use std::path::PathBuf;

/// Maximum bytes of a record that is not split, in a ring of at least 512 KiB.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// Flags of `lab log-insert` and `lab manycore run`. A given list replaces the sweep's own list,
/// except that `--inserter` selects from the sweep's designs (sweep `txn` runs any design).
#[derive(Debug, Args)]
pub struct Sweeps {
    /// Sweeps: threads, size, size-cached, outlier, slots, work, crawl, bitmap; on real threads
    /// also stall, limits, txn; or `all`
    #[arg(long, value_name = "NAMES", default_value = "threads", value_delimiter = ',')]
    pub sweep: Vec<String>,
    /// Inserters, which put records into the log: mutex, consolidated, decoupled, hybrid,
    /// delegated, grasshopper, bitmap, chunked, marks, or `all` for the sweep's own
    #[arg(long, value_name = "NAMES", default_value = "all", value_delimiter = ',')]
    pub inserter: Vec<String>,
    /// Numbers of threads [default: the sweep's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::threads)]
    pub threads: Vec<usize>,
    /// Bytes of a record, including its 48-byte header [default: the sweep's own, mostly 120]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::record)]
    pub record: Vec<usize>,
    /// Bytes of the large record that follows every 60 small ones [default: the sweep's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::record)]
    pub outlier: Vec<usize>,
    /// Number of slots in which threads form groups, with inserter consolidated, hybrid or
    /// delegated [default: the sweep's own, mostly 4]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::slots)]
    pub slots: Vec<usize>,
    /// Bytes of the range that the filled frontier hops over, with inserter grasshopper [default:
    /// the sweep's own, mostly 4MiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::hop_bytes)]
    pub hop_bytes: Vec<u64>,
    /// Maximum bytes that a session reserves at a time, with inserter chunked [default: 16KiB]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::chunk_bytes)]
    pub chunk_bytes: Vec<usize>,
    /// Bytes of the log's ring, a power of two [default: 256KiB for each core, from 2MiB to 64MiB;
    /// 64KiB in size-cached]
    ///
    /// The default is larger if four records of each thread need more. The reserved frontier may be
    /// ahead of the filled frontier by at most a quarter of the ring.
    #[arg(long, value_name = "BYTES", value_parser = flags::ring)]
    pub ring: Option<usize>,
    /// Nanoseconds of other work between two inserts of a thread [default: the sweep's own, mostly
    /// 0]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::work)]
    pub work: Vec<f64>,
    /// Write all rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the rows of each round separately to this file, as CSV
    #[arg(long, value_name = "FILE")]
    rounds_csv: Option<PathBuf>,
    /// Draw a chart of each sweep: into this file if its name ends in .svg, else into this folder
    #[arg(long, value_name = "FILE|DIR")]
    pub svg: Option<PathBuf>,
}

/// The kind of threads on which a command runs its cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    Real,
    Virtual,
}

impl World {
    fn runs(self, sweep: Sweep) -> bool {
        self == World::Real || sweep.spec().runs == Threads::Anywhere
    }
}

impl Sweeps {
    /// The requested sweeps, each once, in the order of `Sweep::ALL`.
    pub fn sweeps(&self, world: World) -> Result<Vec<Sweep>> {
        let known = || Sweep::ALL.into_iter().filter(|sweep| world.runs(*sweep));
        let all = self.sweep == ["all"];
        for name in self.sweep.iter().filter(|_| !all) {
            match Sweep::ALL.into_iter().find(|sweep| sweep.name() == name) {
                Some(sweep) if !world.runs(sweep) => {
                    return Err(Failure::usage(format_args!(
                        "sweep {name:?} runs on real threads only: katydid lab log-insert --sweep {name}"
                    )));
                }
                Some(_) => {}
                None => {
                    let names: Vec<_> = known().map(Sweep::name).collect();
                    let names = names.join(", ");
                    return Err(Failure::usage(format_args!("no sweep {name:?}; there are {names}, or all")));
                }
            }
        }
        let asked: Vec<_> =
            known().filter(|sweep| all || self.sweep.iter().any(|name| name == sweep.name())).collect();
        if asked.len() > 1 && self.files().has_one_chart() {
            return Err(Failure::usage("--svg must name a folder: each sweep has a chart of its own"));
        }
        Ok(asked)
    }

    /// The requested designs.
    pub fn designs(&self) -> Result<Vec<InserterKind>> {
        if self.inserter == ["all"] {
            return Ok(InserterKind::ALL.to_vec());
        }
        let read = |name: &String| {
            name.parse().map_err(|_| {
                let known = InserterKind::ALL.map(|kind| kind.to_string()).join(", ");
                Failure::usage(format_args!("no inserter {name:?}; there are {known}, or all"))
            })
        };
        self.inserter.iter().map(read).collect()
    }

    /// The cases of a sweep on a machine of `cores` cores.
    pub fn cases(&self, sweep: Sweep, cores: usize) -> Result<Vec<Case>> {
        let spec = sweep.spec();
        self.check(sweep)?;
        let mut cases = Vec::new();
        for subject in self.subjects(sweep, &spec)? {
            let threads = if subject == Subject::BareWord { &[1] } else { or(&self.threads, spec.threads) };
            for &device in devices(sweep) {
                for tuned in self.tuned(&spec, subject) {
                    for (record, outlier) in self.sizes(&spec) {
                        let largest = record.max(outlier.unwrap_or(0));
                        let ring = self.ring.or(spec.ring);
                        cases.extend(threads.iter().map(|&threads| Case {
                            sweep,
                            subject,
                            threads,
                            record,
                            outlier,
                            ring_bytes: ring.unwrap_or_else(|| ring_bytes(cores, threads, largest)),
                            device,
                            ..tuned.clone()
                        }));
                    }
                }
            }
        }
        Ok(cases)
    }

    /// Refuses flags that do not fit a sweep.
    fn check(&self, sweep: Sweep) -> Result<()> {
        let refuse = |wrong: bool, flag, why| match wrong {
            true => {
                Err(Failure::usage(format_args!("{flag} does not go with sweep {:?}: {why}", sweep.name())))
            }
            false => Ok(()),
        };
        let (limits, txn) = (sweep == Sweep::Limits, sweep == Sweep::Txn);
        refuse((limits || txn) && !self.outlier.is_empty(), "--outlier", "its records are all of one size")?;
        refuse((limits || txn) && !self.work.is_empty(), "--work", "its threads do nothing else")?;
        let large = self.record.iter().any(|&record| record > PIECE_BYTES_MAX);
        refuse(limits && large, "--record", "above 64 KiB a record travels in pieces")
    }

    /// One case for each combination of slots, hop bytes, chunk bytes and other work; a single case
    /// if the subject is not a design. The caller sets all other fields.
    fn tuned(&self, spec: &Spec, subject: Subject) -> Vec<Case> {
        let plain = Case {
            sweep: Sweep::Threads,
            subject,
            threads: 1,
            record: HEADER_BYTES,
            outlier: None,
            slots: InserterSettings::default().consolidation_slots,
            hop_bytes: InserterSettings::default().hop_bytes,
            chunk_bytes: InserterSettings::default().chunk_bytes,
            ring_bytes: FileOptions::default().ring_bytes,
            work_ns: 0.0,
            device: None,
        };
        if !matches!(subject, Subject::Design(_)) {
            return vec![plain];
        }
        let mut all = Vec::new();
        for &slots in or(&self.slots, spec.slots) {
            for &hop_bytes in or(&self.hop_bytes, spec.hop_bytes) {
                for &chunk_bytes in or(&self.chunk_bytes, &[plain.chunk_bytes]) {
                    let work = or(&self.work, spec.work_ns).iter();
                    all.extend(work.map(|&work_ns| Case {
                        slots,
                        hop_bytes,
                        chunk_bytes,
                        work_ns,
                        ..plain.clone()
                    }));
                }
            }
        }
        all
    }

    fn subjects(&self, sweep: Sweep, spec: &Spec) -> Result<Vec<Subject>> {
        let asked = self.designs()?;
        let designs: Vec<_> = match &self.inserter[..] {
            [all] if all == "all" => spec.designs.to_vec(),
            // Sweep `txn` opens logs, which accept every design. Only its default list is limited
            // to the papers' designs.
            _ if sweep == Sweep::Txn => asked,
            _ => spec.designs.iter().copied().filter(|kind| asked.contains(kind)).collect(),
        };
        if designs.is_empty() {
            let known: Vec<_> = spec.designs.iter().map(ToString::to_string).collect();
            return Err(Failure::usage(format_args!(
                "sweep {:?} is about {} only",
                spec.name,
                known.join(", ")
            )));
        }
        let mut subjects = Vec::new();
        if sweep == Sweep::Limits {
            subjects.extend([Subject::PrivateRings, Subject::BareWord]);
        }
        subjects.extend(designs.into_iter().map(Subject::Design));
        Ok(subjects)
    }

    fn sizes(&self, spec: &Spec) -> Vec<(usize, Option<usize>)> {
        let outliers = or(&self.outlier, spec.outliers);
        let mut sizes = Vec::new();
        for &record in or(&self.record, spec.records) {
            if outliers.is_empty() {
                sizes.push((record, None));
            }
            sizes.extend(outliers.iter().map(|&outlier| (record, Some(outlier))));
        }
        sizes
    }

    /// Names of the files for rows and charts.
    pub fn files(&self) -> Files {
        Files { csv: self.csv.clone(), rounds_csv: self.rounds_csv.clone(), svg: self.svg.clone() }
    }
}

fn devices(sweep: Sweep) -> &'static [Option<Device>] {
    match sweep {
        Sweep::Txn => &[Some(Device::Memory), Some(Device::File)],
        _ => &[None],
    }
}
