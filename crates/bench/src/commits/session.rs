//! One run of a command that measures commits: its folder, the workloads that its cases may have,
//! and the results so far.

use super::alone;
use super::case::{Case, Work};
use super::flags::Common;
use super::rows::LEGEND;
use super::stage::Stage;
use super::store::{Scale, StoreDatabases};
use super::study::Study;
use super::tpcc::TpccDatabases;
use super::tuples::Tuples;
use crate::grid::columns::Setting;
use crate::grid::results::Results;
use crate::grid::turns::in_turn;
use crate::host::device::{Device, MethodName};
use crate::host::machine::Machine;
use katydid_command::built::{COMMIT, VERSION};
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::name_of;
use katydid_command::signals;
use katydid_command::stderr::warn;
use katydid_command::table::wrapped;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One run of a command: its folder, its results so far, and the files for them.
pub struct Session<'a> {
    common: &'a Common,
    stage: Stage,
    /// Present if cases may use the store.
    stores: Option<StoreDatabases>,
    /// Present if cases may use tuples in the memory engine.
    tuples: Option<Tuples>,
    /// Present if cases may use TPC-C.
    tpcc: Option<TpccDatabases>,
    setting: Setting,
    results: Results<Study>,
    stop: Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    /// Prepares the folders of the run ([`Stage`]), which must be new or empty, and prints the
    /// first lines: version, machine, options and durability.
    pub fn new(common: &'a Common, scale: Option<Scale>, what: &str, options: &str) -> Result<Session<'a>> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        signals::on_stop(move || {
            asked.store(true, Ordering::Relaxed);
            warn(format_args!("katydid: the run under way is finished first; another signal ends at once"));
        })?;
        let stage = common.stage()?;
        let machine = Machine::read(&common.dir).line();
        let results = Results::new(
            common.files(),
            &[
                format!("katydid {VERSION}: {what}"),
                format!("machine    {machine}"),
                format!("options    {options}"),
                "durability durable, but where a row says otherwise".to_owned(),
            ],
        )?;
        let setting = Setting {
            commit: COMMIT,
            title: machine.clone(),
            machine,
            branches: scale.map(|scale| scale.branches),
            ..Setting::default()
        };
        let stores = scale.map(StoreDatabases::new);
        Ok(Session { common, stage, stores, tuples: None, tpcc: None, setting, results, stop })
    }

    /// Allows cases on tuples in the memory engine.
    pub fn with_tuples(self, tuples: Tuples) -> Session<'a> {
        Session { tuples: Some(tuples), ..self }
    }

    /// Allows cases on TPC-C over logs of all kinds. If the session has no stores,
    /// [`Work::Updates`] also runs in these databases.
    pub fn with_tpcc(self, tpcc: TpccDatabases) -> Session<'a> {
        Session { tpcc: Some(tpcc), ..self }
    }

    /// Runs cases in rounds, with this I/O method unless the command line chooses one. Prints the
    /// rows, and writes the files with all results so far, so that a later signal loses only later
    /// results.
    pub fn run(
        &mut self,
        study: Study,
        cases: Vec<Case>,
        method: MethodName,
        time: Duration,
        rounds: usize,
    ) -> Result<()> {
        let method = self.common.method.unwrap_or(method);
        let device = self.common.device.or(study.spec().map(|spec| spec.device)).unwrap_or(Device::File);
        let stop = Arc::clone(&self.stop);
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => Err(Failure::failed("stopped by a signal")),
            false => Ok(()),
        };
        let sized = |case: Case| Case { ring: case.ring.map(|own| self.common.ring.unwrap_or(own)), ..case };
        let cases = cases.into_iter().map(sized).collect();
        let (stage, stores, tuples) = (&mut self.stage, &mut self.stores, &mut self.tuples);
        let tpcc = &mut self.tpcc;
        if let (Study::Nvram(figure), Some(tpcc)) = (study, tpcc.as_mut()) {
            tpcc.anew = figure.is_anew();
        }
        stage.begin(method, device);
        let one = |case: &Case, round: usize| {
            let raw = stage.raw(round, case, time.min(RAW))?;
            match (case.work, stores.as_mut(), tuples.as_mut()) {
                (Work::Log { payload }, _, _) => alone::measure(case, payload, stage, raw, time),
                (Work::Tuples { .. } | Work::Readers { .. }, _, Some(tuples)) => {
                    tuples.measure(case, stage, raw, time)
                }
                (Work::Pair, ..) | (Work::Updates, None, _) => match tpcc.as_mut() {
                    Some(tpcc) => tpcc.measure(case, stage, raw, time),
                    None => Err(Failure::failed("there is no database of TPC-C")),
                },
                (_, Some(stores), _) => stores.measure(case, stage, raw, time),
                _ => Err(Failure::failed("there is no store")),
            }
        };
        let rows = in_turn(study.name(), rounds, cases, &go_on, Case::words, one)?;
        let (millis, method) = (time.as_secs_f64() * 1e3, name_of(method));
        let setting =
            Setting { millis, method, device: self.common.device_name(device), ..self.setting.clone() };
        self.results.add(study, rows, setting)
    }

    /// Restores the folders to their state before the run (removes or empties them), even after a
    /// failure. If all went well, prints the meanings of the columns.
    pub fn end(mut self, done: Result<()>) -> Result<()> {
        let removed = self.stage.remove();
        done.and(removed)?;
        self.results.end(&wrapped(LEGEND))
    }
}

/// Maximum time of each of the two measurements of the raw device.
const RAW: Duration = Duration::from_millis(100);
