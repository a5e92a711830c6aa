//! The papers' figures: the settings that each figure varies, and the results of the paper.
//!
//! Pure functions. There is one file for each paper, and file `systems` for ELEDA's figures that
//! compare whole systems. A list of the command line replaces the figure's own list. `check`
//! refuses a list for a setting that the figure does not vary.

mod aether;
pub mod cicada;
mod eleda;
mod flushing;
pub mod nvram;
pub mod spec;
mod systems;

use super::case::{Case, Work};
use katydid_command::failure::{Failure, Result};
use spec::{ListFlag, Lists, Spec};

/// A figure or table of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Aether2,
    Aether3,
    Aether4,
    Aether5,
    Aether9,
    Flushing5,
    Flushing6,
    FlushingTable1,
    /// Figures 8 and 9, which show the same runs.
    Eleda8,
    /// Figures 10 and 11, which show the same runs.
    Eleda10,
    Eleda12,
    Eleda13,
    Eleda14,
    Eleda18,
    Eleda19,
}

impl Figure {
    pub const ALL: [Figure; 15] = [
        Figure::Aether2,
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
            Figure::Aether2 => aether::TWO,
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

    /// The cases of the figure with the command line's lists.
    pub fn cases(self, lists: &Lists) -> Result<Vec<Case>> {
        self.check(lists)?;
        let inserter = lists.inserter.unwrap_or_default();
        let plain = Case { log: lists.log, inserter, ..Case::new(Work::Tpcb { skew: 0.0 }) };
        Ok(match self {
            Figure::Aether2 => aether::two(lists, &plain),
            Figure::Aether3 => aether::three(lists, &plain),
            Figure::Aether4 => aether::four(lists, &plain),
            Figure::Aether5 => aether::five(lists, &plain),
            Figure::Aether9 => aether::nine(lists, &plain),
            Figure::Flushing5 => flushing::threads_and_syncs(
                lists,
                &plain,
                &[Work::Inserts { value: 100 }, Work::UpdateSearch { value: 100 }],
            ),
            Figure::FlushingTable1 => {
                flushing::threads_and_syncs(lists, &plain, &[Work::Inserts { value: 100 }])
            }
            Figure::Flushing6 => flushing::threads_and_syncs(lists, &plain, &[Work::Sysbench]),
            Figure::Eleda8 => systems::side_by_side(lists, &plain, systems::KEY_VALUE),
            Figure::Eleda10 => systems::side_by_side(lists, &plain, Work::Sysbench),
            Figure::Eleda12 => systems::side_by_side(lists, &plain, Work::Pair),
            Figure::Eleda13 => systems::thirteen(lists, &plain),
            Figure::Eleda14 => eleda::fourteen(lists, &plain),
            Figure::Eleda18 => eleda::eighteen(lists, &plain),
            Figure::Eleda19 => systems::nineteen(lists, &plain),
        })
    }

    fn check(self, lists: &Lists) -> Result<()> {
        let lists = [
            (ListFlag::Threads, lists.threads.is_empty()),
            (ListFlag::Sync, lists.syncs.is_empty()),
            (ListFlag::Skew, lists.skews.is_empty()),
            (ListFlag::Delay, lists.delays.is_empty()),
            (ListFlag::Payload, lists.payloads.is_empty()),
            (ListFlag::IoUnit, lists.io_units.is_empty()),
            (ListFlag::InFlight, lists.in_flight.is_empty()),
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
