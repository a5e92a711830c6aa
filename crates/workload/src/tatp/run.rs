//! The run phase: the requests that the driver runs.
//!
//! Rules:
//!
//! 1. Running a planned request again (after a conflict) repeats the same operations, because all
//!    random choices are made when it is planned.
//! 2. A request whose commit conflicts after later requests were planned is replaced by a request
//!    of the same kind, so that the mix does not change.
//! 3. A request counts once, as acknowledged or as failed. A request that ends with a failure of
//!    the store counts as neither.

use super::request::Request;
use super::settings::Settings;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::generate::non_uniform;
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The seven transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads a subscriber.
    GetSubscriberData,
    /// Reads where a call is forwarded to; fails if the call is not forwarded.
    GetNewDestination,
    /// Reads an access info; fails if it is missing.
    GetAccessData,
    /// Changes a subscriber and a special facility; fails if the facility is missing.
    UpdateSubscriberData,
    /// Changes the location of the subscriber with a given number.
    UpdateLocation,
    /// Inserts a call forwarding; fails if it exists or if its special facility is missing.
    InsertCallForwarding,
    /// Deletes a call forwarding; fails if it is missing.
    DeleteCallForwarding,
}

impl Kind {
    /// All kinds, in the order of the standard.
    pub const ALL: [Kind; 7] = [
        Kind::GetSubscriberData,
        Kind::GetNewDestination,
        Kind::GetAccessData,
        Kind::UpdateSubscriberData,
        Kind::UpdateLocation,
        Kind::InsertCallForwarding,
        Kind::DeleteCallForwarding,
    ];

    fn class(self) -> Class {
        match self {
            Kind::GetSubscriberData | Kind::GetNewDestination | Kind::GetAccessData => Class::Read,
            _ => Class::Write,
        }
    }
}

/// Mix of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mix {
    /// The standard's mix in percent: 35, 10, 35, 2, 14, 2 and 2, in the order of [`Kind::ALL`].
    #[default]
    Standard,
    /// UpdateLocation only, as in Aether.
    UpdateLocation,
}

impl Mix {
    fn draw(self, rng: &mut Rng) -> Kind {
        if self == Mix::UpdateLocation {
            return Kind::UpdateLocation;
        }
        match rng.u32(..100) {
            0..35 => Kind::GetSubscriberData,
            35..45 => Kind::GetNewDestination,
            45..80 => Kind::GetAccessData,
            80..82 => Kind::UpdateSubscriberData,
            82..96 => Kind::UpdateLocation,
            96..98 => Kind::InsertCallForwarding,
            _ => Kind::DeleteCallForwarding,
        }
    }
}

/// Endless requests; the driver's limits end the run.
#[derive(Debug)]
pub struct TatpRun {
    settings: Settings,
    mix: Mix,
    /// Callbacks and sources write these numbers. The caller reads them after the run, so the joins
    /// of the threads order the accesses.
    acknowledged: [AtomicU64; Kind::ALL.len()],
    failed: [AtomicU64; Kind::ALL.len()],
}

impl TatpRun {
    /// Requests to loaded tables.
    pub fn new(settings: &Settings, mix: Mix) -> Arc<Self> {
        Arc::new(TatpRun {
            settings: *settings,
            mix,
            acknowledged: Default::default(),
            failed: Default::default(),
        })
    }

    /// Number of transactions of a kind that were acknowledged.
    pub fn acknowledged(&self, kind: Kind) -> u64 {
        self.acknowledged[kind as usize].load(Ordering::Relaxed)
    }

    /// Number of transactions of a kind that failed by the standard's rules. The number is final
    /// when the run is over.
    pub fn failed(&self, kind: Kind) -> u64 {
        self.failed[kind as usize].load(Ordering::Relaxed)
    }

    /// Expected number of call forwardings after the run, if there were `before` of them before the
    /// run.
    pub fn call_forwardings(&self, before: u64) -> u64 {
        let inserted = self.acknowledged(Kind::InsertCallForwarding);
        (before + inserted).saturating_sub(self.acknowledged(Kind::DeleteCallForwarding))
    }
}

impl Workload for TatpRun {
    type Source = TatpSource;

    fn source(self: &Arc<Self>, _thread: usize, rng: Rng) -> TatpSource {
        TatpSource { run: Arc::clone(self), rng, planned: None, failed: None }
    }

    fn acknowledged(&self, ticket: u64) {
        if let Some(count) = usize::try_from(ticket).ok().and_then(|kind| self.acknowledged.get(kind)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Source of one thread's requests.
#[derive(Debug)]
pub struct TatpSource {
    run: Arc<TatpRun>,
    rng: Rng,
    planned: Option<(Kind, Request)>,
    /// Kind of the last transaction if it failed. The failure is counted when the driver asks for
    /// the next plan or drops the source, because until then the driver may run the transaction
    /// again.
    failed: Option<Kind>,
}

impl TatpSource {
    fn plan_kind(&mut self, kind: Kind) -> Planned {
        self.count_failed();
        let Settings { subscribers } = self.run.settings;
        let subscriber = non_uniform(&mut self.rng, self.run.settings.a(), 0, subscribers);
        self.planned = Some((kind, Request::draw(kind, subscriber, &mut self.rng)));
        Planned { class: kind.class(), ticket: Some(kind as u64) }
    }

    fn count_failed(&mut self) {
        if let Some(kind) = self.failed.take() {
            self.run.failed[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for TatpSource {
    fn drop(&mut self) {
        self.count_failed();
    }
}

impl Source for TatpSource {
    fn plan(&mut self) -> Option<Planned> {
        let kind = self.run.mix.draw(&mut self.rng);
        Some(self.plan_kind(kind))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        let known = Kind::ALL.into_iter().find(|kind| *kind as u64 == ticket);
        self.plan_kind(known.unwrap_or(Kind::GetSubscriberData))
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        self.failed = None;
        let Some((kind, request)) = &self.planned else { return Ok(Ending::Commit) };
        let ending = request.run(transaction)?;
        self.failed = (ending == Ending::RollBack).then_some(*kind);
        Ok(ending)
    }
}
