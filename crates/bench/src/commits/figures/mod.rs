//! The papers' figures: what each varies, and what its paper saw.
//!
//! Pure. A file for each paper. A list that the command line gives replaces the figure's own; one that the figure does not vary is refused.

mod aether;
mod eleda;
mod flushing;
mod systems;

use super::case::{Case, Work};
use crate::host::device::{Device, MethodName};
use katydid_command::failure::{Failure, Result};
use katydid_wal::{InserterKind, LogKind, SyncKind};
use std::time::Duration;

/// A figure or table of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Aether3,
    Aether4,
    Aether5,
    Aether9,
    Flushing5,
    Flushing6,
    FlushingTable1,
    /// And 9, of the same runs.
    Eleda8,
    /// And 11.
    Eleda10,
    Eleda12,
    Eleda13,
    Eleda14,
    Eleda18,
    Eleda19,
}

/// What can be given as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    Threads,
    Sync,
    Skew,
    Delay,
    Payload,
    IoUnit,
    InFlight,
}

impl Axis {
    pub fn flag(self) -> &'static str {
        match self {
            Axis::Threads => "--threads",
            Axis::Sync => "--sync",
            Axis::Skew => "--skew",
            Axis::Delay => "--delay",
            Axis::Payload => "--payload",
            Axis::IoUnit => "--io-unit",
            Axis::InFlight => "--in-flight",
        }
    }
}

/// A figure in words.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    pub name: &'static str,
    /// What it shows, and where it is.
    pub about: &'static str,
    /// What the paper saw.
    pub saw: &'static str,
    /// What is to be known about ours.
    pub note: &'static str,
    /// What may be given.
    pub varies: &'static [Axis],
    /// How the log's bytes travel, if nothing else is asked for.
    pub method: MethodName,
    /// Where the log is, if nothing else is asked for.
    pub device: Device,
    /// Of each run, and how many of each: about a minute together, with opening, reading and adding up.
    pub seconds: f64,
    pub rounds: usize,
}

/// What the command line gives; what is empty is the figure's own.
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub threads: Vec<usize>,
    pub syncs: Vec<SyncKind>,
    pub skews: Vec<f64>,
    pub delays: Vec<Duration>,
    pub payloads: Vec<usize>,
    pub io_units: Vec<usize>,
    pub in_flight: Vec<usize>,
    pub inserter: InserterKind,
    pub log: LogKind,
}

const MS: Duration = Duration::from_millis(1);
const BLOCKING: usize = 1;
/// What transactions the clients of a figure have in flight, if they do not block in each.
const IN_FLIGHT: &[usize] = &[100];

impl Figure {
    pub const ALL: [Figure; 14] = [
        Figure::Aether3,
        Figure::Aether4,
        Figure::Aether5,
        Figure::Aether9,
        Figure::Flushing5,
        Figure::Flushing6,
        Figure::FlushingTable1,
        Figure::Eleda8,
        Figure::Eleda10,
        Figure::Eleda12,
        Figure::Eleda13,
        Figure::Eleda14,
        Figure::Eleda18,
        Figure::Eleda19,
    ];

    pub fn spec(self) -> Spec {
        match self {
            Figure::Aether3 => aether::THREE,
            Figure::Aether4 => aether::FOUR,
            Figure::Aether5 => aether::FIVE,
            Figure::Aether9 => aether::NINE,
            Figure::Flushing5 => flushing::FIVE,
            Figure::Flushing6 => flushing::SIX,
            Figure::FlushingTable1 => flushing::TABLE_ONE,
            Figure::Eleda8 => systems::EIGHT,
            Figure::Eleda10 => systems::TEN,
            Figure::Eleda12 => systems::TWELVE,
            Figure::Eleda13 => systems::THIRTEEN,
            Figure::Eleda14 => eleda::FOURTEEN,
            Figure::Eleda18 => eleda::EIGHTEEN,
            Figure::Eleda19 => systems::NINETEEN,
        }
    }

    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The cases, given what the command line says.
    pub fn cases(self, given: &Given) -> Result<Vec<Case>> {
        self.check(given)?;
        let plain = Case { log: given.log, inserter: given.inserter, ..Case::new(Work::Tpcb { skew: 0.0 }) };
        Ok(match self {
            Figure::Aether3 => aether::three(given, &plain),
            Figure::Aether4 => aether::four(given, &plain),
            Figure::Aether5 => aether::five(given, &plain),
            Figure::Aether9 => aether::nine(given, &plain),
            Figure::Flushing5 => flushing::threads_and_syncs(
                given,
                &plain,
                &[Work::Inserts { value: 100 }, Work::UpdateSearch { value: 100 }],
            ),
            Figure::FlushingTable1 => {
                flushing::threads_and_syncs(given, &plain, &[Work::Inserts { value: 100 }])
            }
            Figure::Flushing6 => flushing::threads_and_syncs(given, &plain, &[Work::Sysbench]),
            Figure::Eleda8 => systems::side_by_side(given, &plain, systems::KEY_VALUE),
            Figure::Eleda10 => systems::side_by_side(given, &plain, Work::Sysbench),
            Figure::Eleda12 => systems::side_by_side(given, &plain, Work::Pair),
            Figure::Eleda13 => systems::thirteen(given, &plain),
            Figure::Eleda14 => eleda::fourteen(given, &plain),
            Figure::Eleda18 => eleda::eighteen(given, &plain),
            Figure::Eleda19 => systems::nineteen(given, &plain),
        })
    }

    fn check(self, given: &Given) -> Result<()> {
        let lists = [
            (Axis::Threads, given.threads.is_empty()),
            (Axis::Sync, given.syncs.is_empty()),
            (Axis::Skew, given.skews.is_empty()),
            (Axis::Delay, given.delays.is_empty()),
            (Axis::Payload, given.payloads.is_empty()),
            (Axis::IoUnit, given.io_units.is_empty()),
            (Axis::InFlight, given.in_flight.is_empty()),
        ];
        let spec = self.spec();
        match lists.into_iter().find(|(axis, empty)| !empty && !spec.varies.contains(axis)) {
            Some((axis, _)) => {
                let varies: Vec<_> = spec.varies.iter().map(|axis| axis.flag()).collect();
                Err(Failure::usage(format_args!(
                    "{} does not go with figure {:?}, which takes {}",
                    axis.flag(),
                    spec.name,
                    varies.join(", ")
                )))
            }
            None => Ok(()),
        }
    }
}

fn or<'a, T>(given: &'a [T], own: &'a [T]) -> &'a [T] {
    if given.is_empty() { own } else { given }
}
