//! `bench commit`: the papers' figures about commits; and what `bench log-commit` shares with it.
//!
//! One notion of a case for the log alone and for the store, one table, one CSV file, one way to draw. Figures and their cases are in
//! `figures`, runs in `alone` and `store`.

mod alone;
pub mod case;
mod charts;
pub mod cicada;
pub mod columns;
pub mod company;
mod compare;
pub mod csv;
pub mod figures;
pub mod flags;
pub mod nvram;
mod quantities;
mod raw;
mod stage;
pub mod store;
pub mod tuples;

use crate::grid::chart::draw;
use crate::grid::turns::in_turn;
use crate::host::device::{Device, MethodName};
use crate::host::machine::Machine;
use case::{Case, Row, Work};
use clap::Args;
use columns::{Of, Rows, Setting};
use company::{Companies, CompanyFlags, shown};
use csv::csv;
use figures::{Figure, Given};
use flags::Common;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::name_of;
use katydid_command::output::Output;
use katydid_command::signals;
use katydid_command::table::wrapped;
use katydid_command::whole_file;
use katydid_wal::{InserterKind, LogKind};
use stage::Stage;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::{Scale, Shop};
use tuples::Tuples;

/// Measure how commits become durable as the papers did: their figures, on this machine
///
/// Sync protocols, lock release, flush pipelining, sizes and I/O units, on TPC-B and key-value work, in the store or in the log alone. Each
/// figure takes about a minute; what it varies can be given. The raw device is measured beside it in every round.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct Commit {
    /// Figures, or `all`: aether3, aether4, aether5, aether9, flushing5, flushing6, flushing-table1, eleda8, eleda10, eleda12, eleda13,
    /// eleda14, eleda18, eleda19
    #[arg(long, alias = "sweep", value_name = "NAMES", default_value = "aether3", value_delimiter = ',')]
    figure: Vec<String>,
    /// Numbers of client threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = crate::grid::flags::threads)]
    threads: Vec<usize>,
    /// Sync protocols, or `all`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    sync: Vec<String>,
    /// How much more often popular tellers and accounts are chosen: exponents of a zipfian distribution
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::skew)]
    skew: Vec<f64>,
    /// Added to each durable write of the log: times such as 0, 15us, 100us, 1ms
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = katydid_command::flags::delay)]
    delay: Vec<Duration>,
    /// Bytes of what a commit writes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::payload)]
    payload: Vec<usize>,
    /// Most bytes of one write of the log
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::io_unit)]
    io_unit: Vec<usize>,
    /// Transactions in flight of clients that do not block in each
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = flags::in_flight)]
    in_flight: Vec<usize>,
    /// How records get into the log
    #[arg(long, value_name = "KIND", default_value = "marks", value_parser = flags::inserter)]
    inserter: InserterKind,
    /// What the log is kept in: in NVRAM there are no protocols, but delays
    #[arg(long, value_name = "KIND", default_value = "disk", value_parser = katydid_command::flags::word::<LogKind>)]
    log: LogKind,
    /// Branches of TPC-B, with 10 tellers each
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    branches: u64,
    /// Accounts of a branch
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    accounts: u64,
    /// Keys that are updated and searched, and rows of sysbench
    #[arg(long, value_name = "N", default_value = "100000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    #[command(flatten)]
    companies: CompanyFlags,
    /// What all random choices come from
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    #[command(flatten)]
    common: Common,
}

const AFTER: &str = "\
What the papers saw:
  aether3          early lock release on TPC-B over skew: nothing gained without contention, 2 times at 100 us and up to
                   35 times at 10 ms with a skew around 1, less beyond
  aether4          without flush pipelining context switches grow with the clients while processors idle; with it
                   they stay nearly constant and all processors are used
  aether5          flush pipelining does as well as asynchronous commit, which is unsafe: up to 22 % above the baseline
  aether9          flush pipelining gains most, 68 % over the baseline; a scalable log buffer another 7 %
  flushing5        aggregated over grouped, inserts: 3.9, 5.5, 1.83, 1.72, 1.3 times at 8, 16, 32, 64, 128 threads
  flushing6        the same on sysbench's writing transactions: 6.4, 3.3, 2.3, 1.7, 1.4 times
  flushing-table1  grouped spends 82 % of an insert waiting for the lock at 8 threads; aggregated takes a quarter of
                   the locks and syncs there
  eleda8, 10       before, after and ours on YCSB A and sysbench: 71 and 32 times as many at 32 threads, told later
  eleda12          TPC-C grows with the threads and does not collapse
  eleda13          the same in an engine of many versions
  eleda14          throughput falls as payloads grow from 512 bytes to 5 KiB, bandwidth grows to what the devices can do
  eleda18          with I/O units of 64 KiB commits are told ten times sooner, with 512 KiB twice the bytes are moved
  eleda19          hiding the latency gains nearly all with few threads, GRASSHOPPER the rest with many

Examples:
  katydid bench commit --figure aether3 --csv aether3.csv --svg charts
  katydid bench commit --figure aether3 --delay 1ms --skew 0.85 --threads 16,64,128
  katydid bench commit --figure flushing5,flushing-table1 --sync all --dir /mnt/log
  katydid bench commit --figure all --quick";

impl Commit {
    pub fn run(self) -> Result<()> {
        let given = self.given()?;
        let figures = self.figures()?;
        let cases = figures.iter().map(|figure| figure.cases(&given)).collect::<Result<Vec<_>>>()?;
        let scale = Scale {
            branches: self.branches,
            accounts_of_branch: self.accounts,
            keys: self.keys,
            seed: self.seed,
        };
        let company = self.companies.settings(32);
        let options = format!(
            "{} branches={} accounts={} keys={} {} seed={}",
            self.common.options(),
            self.branches,
            self.accounts,
            self.keys,
            shown(&company),
            self.seed
        );
        let mut session =
            Session::new(&self.common, Some(scale), "commits of the store and of the log", &options)?
                .with_companies(Companies::new(company, scale));
        let mut done = Ok(());
        for (figure, cases) in figures.into_iter().zip(cases) {
            let spec = figure.spec();
            let (time, rounds) = self.common.length(spec.seconds, spec.rounds);
            done = session.run(Of::Figure(figure), cases, spec.method, time, rounds);
            if done.is_err() {
                break;
            }
        }
        session.end(done)
    }

    fn given(&self) -> Result<Given> {
        Ok(Given {
            threads: self.threads.clone(),
            syncs: flags::syncs(&self.sync)?,
            skews: self.skew.clone(),
            delays: self.delay.clone(),
            payloads: self.payload.clone(),
            io_units: self.io_unit.clone(),
            in_flight: self.in_flight.clone(),
            inserter: self.inserter,
            log: self.log,
        })
    }

    /// The figures that were asked for, each once, in their own order.
    fn figures(&self) -> Result<Vec<Figure>> {
        let chosen = flags::chosen(&self.figure, &Figure::ALL.map(Figure::name), "figure")?;
        Ok(Figure::ALL.into_iter().filter(|figure| chosen.contains(&figure.name())).collect())
    }
}

/// One run of a command: its folder, what it has measured so far, and where that goes.
pub struct Session<'a> {
    common: &'a Common,
    stage: Stage,
    /// If cases may be of the store.
    shop: Option<Shop>,
    /// If they may be of tuples in the memory engine.
    tuples: Option<Tuples>,
    /// If they may be of TPC-C.
    companies: Option<Companies>,
    setting: Setting,
    done: Vec<(Of, Vec<Row>, Setting)>,
    stop: Arc<AtomicBool>,
    out: Output,
}

impl<'a> Session<'a> {
    /// Takes the folder and prints the head.
    pub fn new(common: &'a Common, scale: Option<Scale>, what: &str, options: &str) -> Result<Session<'a>> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        signals::on_stop(move || {
            asked.store(true, Ordering::Relaxed);
            eprintln!("katydid: the run under way is finished first; another signal ends at once");
        })?;
        let stage = common.stage()?;
        let machine = Machine::read(&common.dir).line();
        let mut out = Output::new();
        out.line(format!("katydid {VERSION}: {what}"))?;
        out.line(format!("machine    {machine}"))?;
        out.line(format!("options    {options}"))?;
        out.line("durability durable, but where a row says otherwise")?;
        out.line("")?;
        out.flush()?;
        let setting = Setting {
            commit: COMMIT,
            machine,
            device: "",
            method: String::new(),
            millis: 0.0,
            branches: scale.map(|scale| scale.branches),
        };
        let shop = scale.map(Shop::new);
        Ok(Session {
            common,
            stage,
            shop,
            tuples: None,
            companies: None,
            setting,
            done: Vec::new(),
            stop,
            out,
        })
    }

    /// Cases may be of tuples in the memory engine.
    pub fn with_tuples(self, tuples: Tuples) -> Session<'a> {
        Session { tuples: Some(tuples), ..self }
    }

    /// Cases may be of TPC-C, over logs of all kinds.
    pub fn with_companies(self, companies: Companies) -> Session<'a> {
        Session { companies: Some(companies), ..self }
    }

    /// Runs cases in rounds, with this method unless another is asked for, prints them, and writes the files with all that was run so far: a signal in what comes next loses no more
    /// than that.
    pub fn run(
        &mut self,
        of: Of,
        cases: Vec<Case>,
        method: MethodName,
        time: Duration,
        rounds: usize,
    ) -> Result<()> {
        let method = self.common.method.unwrap_or(method);
        let device = self.common.device.or(of.spec().map(|spec| spec.device)).unwrap_or(Device::File);
        let stop = Arc::clone(&self.stop);
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => Err(Failure::failed("stopped by a signal")),
            false => Ok(()),
        };
        let (stage, shop, tuples) = (&mut self.stage, &mut self.shop, &mut self.tuples);
        let companies = &mut self.companies;
        if let (Of::Nvram(figure), Some(companies)) = (of, companies.as_mut()) {
            companies.anew = figure.is_anew();
        }
        stage.begin(method, device);
        let one = |case: &Case, round: usize| {
            let raw = stage.raw(round, case, time.min(RAW))?;
            match (case.work, shop.as_mut(), tuples.as_mut()) {
                (Work::Log { payload }, _, _) => alone::measure(case, payload, stage, raw, time),
                (Work::Tuples { .. } | Work::Readers { .. }, _, Some(tuples)) => {
                    tuples.measure(case, stage, raw, time)
                }
                (Work::Pair, ..) | (Work::Updates, None, _) => match companies.as_mut() {
                    Some(companies) => companies.measure(case, stage, raw, time),
                    None => Err(Failure::failed("there is no company")),
                },
                (_, Some(shop), _) => shop.measure(case, stage, raw, time),
                _ => Err(Failure::failed("there is no store")),
            }
        };
        let rows = in_turn(of.name(), rounds, cases, &go_on, Case::words, one)?;
        let rows: Vec<Row> = rows.into_iter().map(|(case, rounds)| Row { case, rounds }).collect();
        let (millis, method) = (time.as_secs_f64() * 1e3, name_of(method));
        let setting = Setting { millis, method, device: device.name(), ..self.setting.clone() };
        self.print(&Rows { of, rows: &rows, setting: &setting }, rounds)?;
        self.done.push((of, rows, setting));
        self.write()
    }

    fn print(&mut self, rows: &Rows<'_>, rounds: usize) -> Result<()> {
        let out = &mut self.out;
        match rows.of.spec() {
            Some(spec) => {
                for text in [format!("{}: {}", spec.name, spec.about), format!("the paper saw: {}", spec.saw)]
                {
                    wrapped(&text).iter().try_for_each(|line| out.line(line))?;
                }
                wrapped(spec.note).iter().try_for_each(|line| out.line(format!("  {line}")))?;
            }
            None => out.line("log-commit: one record a commit, in the log alone")?,
        }
        out.line(format!(
            "  {rounds} rounds of {} s; the same in all: device={} method={} {}",
            rows.setting.millis / 1e3,
            rows.setting.device,
            rows.setting.method,
            rows.constants()
        ))?;
        for form in rows.forms() {
            wrapped(&format!("logs in {form}")).iter().try_for_each(|line| out.line(line))?;
        }
        rows.limits().iter().try_for_each(|line| out.line(format!("  {line}")))?;
        rows.table().iter().try_for_each(|line| out.line(line))?;
        rows.check().iter().try_for_each(|line| out.line(line))?;
        out.line("")?;
        out.flush()
    }

    fn write(&self) -> Result<()> {
        let mut all = self.done.iter().map(|(of, rows, setting)| Rows { of: *of, rows, setting });
        if let Some(file) = &self.common.csv {
            whole_file::write(file, csv(&all.clone().collect::<Vec<_>>()).as_bytes())?;
        }
        if let (Some(folder), Some(last)) = (&self.common.svg, all.next_back()) {
            for chart in charts::pictures(&last) {
                let file = folder.join(chart.name + ".svg");
                whole_file::create_parent(&file)?;
                whole_file::write(&file, draw(&chart.picture).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Leaves the folder as it was, whatever came of the runs, and says what the columns mean.
    pub fn end(mut self, done: Result<()>) -> Result<()> {
        let removed = self.stage.remove();
        done.and(removed)?;
        for line in wrapped(LEGEND) {
            self.out.line(line)?;
        }
        self.out.flush()
    }
}

/// Of each of the device's two measurements, at most.
const RAW: Duration = Duration::from_millis(100);

const LEGEND: &str = "Figures are medians over the rounds, slowest and fastest are rounds, percentiles are of all rounds. us: of one \
                      commit. waits, preempt.: context switches of a commit, voluntary and not. cores, others: processors that this process and all \
                      others kept busy. raw: the median durable 4 KiB write of the \
                      same round. to best: the log's bandwidth to the device's best sequential durable writes. to adaptive: commits a \
                      second to those of adaptive with the same clients. to disk: to those of the disk log that the figure names";
