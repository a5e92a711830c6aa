//! The run phase: the requests of terminals that the driver runs.
//!
//! Rules:
//!
//! 1. Running a planned request again (after a conflict) repeats the same operations, because all
//!    random choices are made when it is planned.
//! 2. A request whose commit conflicts after later requests were planned is replaced by a request
//!    of the same kind, so that the mix does not change.
//! 3. A payment has a number that no payment of another thread or run has.

use super::delivery::Delivery;
use super::load::LOADED;
use super::look::{OrderStatus, StockLevel};
use super::new_order::NewOrder;
use super::payment::Payment;
use super::settings::Settings;
use super::terminal::Terminal;
use crate::drive::{Class, Ending, Planned, Source, Workload};
use crate::insert::first_number;
use crate::store::{Result, Transaction};
use fastrand::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The five transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Enters an order.
    NewOrder,
    /// Takes a customer's payment.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts the items with a low stock among the items of the last orders.
    StockLevel,
}

impl Kind {
    /// All kinds, in the order of the standard.
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];
}

/// Mix of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mix {
    /// The standard's mix in percent: NewOrder 45, Payment 43, and 4 each of the other three.
    #[default]
    Standard,
    /// NewOrder 50 %, Payment 50 %, as in ELEDA.
    Pair,
}

impl Mix {
    fn draw(self, rng: &mut Rng) -> Kind {
        match (self, rng.u32(..100)) {
            (Mix::Standard, 0..45) | (Mix::Pair, 0..50) => Kind::NewOrder,
            (Mix::Standard, 45..88) | (Mix::Pair, _) => Kind::Payment,
            (Mix::Standard, 88..92) => Kind::OrderStatus,
            (Mix::Standard, 92..96) => Kind::Delivery,
            (Mix::Standard, _) => Kind::StockLevel,
        }
    }
}

/// Endless requests; the driver's limits end the run.
#[derive(Debug)]
pub struct TpccRun {
    settings: Settings,
    mix: Mix,
    run: u64,
    acknowledged: [AtomicU64; Kind::ALL.len()],
}

impl TpccRun {
    /// Requests to loaded tables. Each run needs another `run`, which is less than
    /// [`RUNS_MAX`](crate::insert::RUNS_MAX) - 1.
    pub fn new(settings: &Settings, mix: Mix, run: u64) -> Arc<Self> {
        assert!(run < LOADED, "the caller has checked this");
        Arc::new(TpccRun { settings: *settings, mix, run, acknowledged: Default::default() })
    }

    /// Number of transactions of a kind that were acknowledged.
    pub fn acknowledged(&self, kind: Kind) -> u64 {
        self.acknowledged[kind as usize].load(Ordering::Relaxed)
    }
}

impl Workload for TpccRun {
    type Source = TpccSource;

    fn source(self: &Arc<Self>, thread: usize, rng: Rng) -> TpccSource {
        let warehouse = (thread as u64 % u64::from(self.settings.warehouses)) as u32 + 1;
        let terminal = Terminal { settings: self.settings, warehouse, rng };
        let next_payment = first_number(self.run, thread);
        TpccSource { run: Arc::clone(self), terminal, next_payment, request: None }
    }

    fn acknowledged(&self, ticket: u64) {
        if let Some(count) = usize::try_from(ticket).ok().and_then(|kind| self.acknowledged.get(kind)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[derive(Debug)]
enum Request {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

/// Source of one thread's requests.
#[derive(Debug)]
pub struct TpccSource {
    run: Arc<TpccRun>,
    terminal: Terminal,
    next_payment: u64,
    request: Option<Request>,
}

impl TpccSource {
    fn plan_kind(&mut self, kind: Kind) -> Planned {
        let terminal = &mut self.terminal;
        let (class, request) = match kind {
            Kind::NewOrder => (Class::Write, Request::NewOrder(NewOrder::plan(terminal))),
            Kind::Payment => {
                self.next_payment += 1;
                (Class::Write, Request::Payment(Payment::plan(terminal, self.next_payment)))
            }
            Kind::OrderStatus => (Class::Read, Request::OrderStatus(OrderStatus::plan(terminal))),
            Kind::Delivery => (Class::Write, Request::Delivery(Delivery::plan(terminal))),
            Kind::StockLevel => (Class::Read, Request::StockLevel(StockLevel::plan(terminal))),
        };
        self.request = Some(request);
        Planned { class, ticket: Some(kind as u64) }
    }
}

impl Source for TpccSource {
    fn plan(&mut self) -> Option<Planned> {
        let kind = self.run.mix.draw(&mut self.terminal.rng);
        Some(self.plan_kind(kind))
    }

    fn again(&mut self, ticket: u64) -> Planned {
        let known = Kind::ALL.into_iter().find(|kind| *kind as u64 == ticket);
        self.plan_kind(known.unwrap_or(Kind::NewOrder))
    }

    fn run<T: Transaction>(&mut self, transaction: &mut T) -> Result<Ending> {
        match &self.request {
            Some(Request::NewOrder(request)) => return request.run(transaction),
            Some(Request::Payment(request)) => request.run(transaction)?,
            Some(Request::OrderStatus(request)) => request.run(transaction)?,
            Some(Request::Delivery(request)) => request.run(transaction)?,
            Some(Request::StockLevel(request)) => request.run(transaction)?,
            None => {}
        }
        Ok(Ending::Commit)
    }
}
