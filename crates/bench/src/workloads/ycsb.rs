//! The command `bench ycsb`.

use super::ledger::Entry;
#[cfg(feature = "replica")]
use super::replicas::{ReplicaFlags, ReplicatedRun};
use super::report::{Kinds, Loaded, Measured};
use super::runner::{Runner, TIME, load_plan};
use super::setup::{Setup, THREADS};
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::stderr::warn;
use katydid_workload::drive::{Outcome, Plan};
use katydid_workload::generate::KeyDistribution;
use katydid_workload::properties::Properties;
use katydid_workload::ycsb::{Operation, Settings, WORKLOAD_A, YcsbLoad, YcsbRun};
use std::path::PathBuf;
use std::time::Duration;

/// Run a YCSB workload: load phase, run phase, report
///
/// The workload is a YCSB properties file; -p and flags override its properties. Each request is
/// one transaction, which is acknowledged when it is durable, unless --durability sets a weaker
/// level. Without limits in the file or on the command line the run takes 10 seconds. The command
/// reuses the records of an earlier run in the folder if they match.
///
/// With --replicas the requests go to a running group of replicas (`katydid replica`). Each client
/// has a session. An update reads and writes the record in two calls, and an insert does not check
/// whether its key exists.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  katydid bench ycsb --workload workloads/ycsb/workloada
  katydid bench ycsb --workload workloads/ycsb/workloadb --threads 2 --in-flight 1000 --seconds 30 --json b.json
  katydid bench ycsb -p recordcount=1000000 -p requestdistribution=uniform --dir /mnt/fast/bench
  katydid bench ycsb --replicas 10.0.0.1:7101,10.0.0.2:7101,10.0.0.3:7101 --threads 32")]
pub struct Ycsb {
    /// YCSB properties file [default: workload A]
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Set a property, as if this line were at the end of the file
    #[arg(short = 'p', value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// Number of records to load; overrides the property recordcount
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    #[cfg(feature = "replica")]
    #[command(flatten)]
    replicas: ReplicaFlags,
    #[command(flatten)]
    setup: Setup,
}

/// Assumed requests per second if the number of requests is unknown. The expected number of
/// requests determines over how many records a zipfian distribution is spread.
const ASSUMED_RATE: f64 = 50_000.0;

impl Ycsb {
    pub fn run(self) -> Result<()> {
        #[cfg(feature = "replica")]
        if self.replicas.are_given() {
            return self.on_replicas();
        }
        self.setup.each().iter().try_for_each(|setup| self.on(setup))
    }

    fn on(&self, setup: &Setup) -> Result<()> {
        let settings = self.settings()?;
        let plan = self.plan(setup, &settings);
        let runner = Runner::new(setup)?;
        let table = settings.table.as_str();

        let (mut entry, load) = self.load(setup, &runner, &settings, &plan)?;
        let loaded = match &load {
            Some((outcome, _)) => Loaded::Now(outcome.transactions, "records", outcome.elapsed),
            None => Loaded::Before,
        };
        let (outcome, cpu) = if settings.do_transactions {
            runner.ledger.write(table, &Entry { finished: false, ..entry.clone() })?;
            let run = YcsbRun::new(&settings, entry.next, expected(&plan));
            let (outcome, cpu) = runner.phase("run", &[table], &run, &plan)?;
            entry.count += run.next_record() - entry.next;
            entry.next = run.next_record();
            (outcome, cpu)
        } else {
            load.ok_or_else(|| {
                Failure::failed("dotransactions=false, and all records are loaded: nothing to do")
            })?
        };
        let counted = runner.count(setup, table, entry.count)?;
        runner.ledger.write(table, &entry)?;

        let mut options = setup.options(&plan, &runner.opened.database);
        options.insert(0, ("workload", self.name().into()));
        options.extend(described(&settings));
        let workload = format!("YCSB {}", self.name());
        let kinds = Kinds::default();
        runner.finish(
            setup,
            Measured { workload, loaded, outcome, cpu, kinds, lock_waits: None, options, counted },
        )
    }

    fn name(&self) -> String {
        match &self.workload {
            Some(file) => file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned(),
            None => "workloada".to_owned(),
        }
    }

    fn settings(&self) -> Result<Settings> {
        let (text, name) = match &self.workload {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(|error| {
                    Failure::usage(format_args!("cannot read {}: {error}", file.display()))
                })?;
                (text, file.display().to_string())
            }
            None => (WORKLOAD_A.to_owned(), "workload A".to_owned()),
        };
        let wrong = |error: &dyn std::fmt::Display| Failure::usage(format_args!("{name}: {error}"));
        let mut properties = Properties::parse(&text).map_err(|error| wrong(&error))?;
        for property in &self.property {
            match property.split_once('=') {
                Some((name, value)) if !name.trim().is_empty() => properties.set(name.trim(), value.trim()),
                _ => return Err(Failure::usage(format_args!("-p {property}: expected NAME=VALUE"))),
            }
        }
        if let Some(records) = self.records {
            properties.set("recordcount", records.to_string());
        }
        let settings = Settings::from_properties(&properties).map_err(|error| wrong(&error))?;
        if !settings.ignored.is_empty() {
            warn(format_args!("without effect here: {}", settings.ignored.join(", ")));
        }
        Ok(settings)
    }

    /// Runs the workload on a group of replicas.
    #[cfg(feature = "replica")]
    fn on_replicas(&self) -> Result<()> {
        let settings = self.settings()?;
        let plan = self.plan(&self.setup, &settings);
        let group =
            ReplicatedRun { flags: &self.replicas, setup: &self.setup, settings: &settings, plan: &plan };
        let mut measured =
            group.measure(&shape(&settings), expected(&plan), load_plan_of(&settings, &plan))?;
        measured.workload = format!("YCSB {} on replicas", self.name());
        measured.options.insert(0, ("workload", self.name().into()));
        measured.options.extend(described(&settings));
        group.report(measured)
    }

    fn plan(&self, setup: &Setup, settings: &Settings) -> Plan {
        let mut plan = setup.plan(setup.threads.or(settings.threads).unwrap_or(THREADS));
        plan.target = setup.target.or(settings.target);
        plan.latency_from = settings.latency_from;
        if setup.seconds.is_none() && setup.operations.is_none() {
            plan.transactions = settings.operation_count;
            plan.time = settings.time_max;
            if plan.transactions.is_none() && plan.time.is_none() {
                plan.time = Some(TIME);
            }
        }
        plan
    }

    /// Loads the records, unless an earlier run did.
    fn load(
        &self,
        setup: &Setup,
        runner: &Runner,
        settings: &Settings,
        plan: &Plan,
    ) -> Result<(Entry, Option<(Outcome, Duration)>)> {
        let (table, shape) = (settings.table.as_str(), shape(settings));
        if let Some(entry) = runner.earlier(setup, table, &[table], &shape)? {
            return Ok((entry, None));
        }
        let mut entry = Entry {
            shape,
            next: settings.insert_start + settings.insert_count,
            count: settings.insert_count,
            ..Entry::default()
        };
        runner.ledger.write(table, &entry)?;
        let plan = load_plan_of(settings, plan);
        let loaded = runner.load(&[table], &YcsbLoad::new(settings), &plan)?;
        entry.finished = true;
        Ok((entry, Some(loaded)))
    }
}

fn load_plan_of(settings: &Settings, plan: &Plan) -> Plan {
    let failure_retries = (settings.insertion_retries, settings.insertion_retry_wait);
    Plan { failure_retries, ..load_plan(plan) }
}

/// Expected number of requests of a run.
fn expected(plan: &Plan) -> u64 {
    let assumed = || (plan.time.unwrap_or(TIME).as_secs_f64() * ASSUMED_RATE) as u64;
    plan.transactions.unwrap_or_else(assumed)
}

/// Description that distinguishes these records from records with other settings.
fn shape(settings: &Settings) -> String {
    format!(
        "records {}+{}, fields {} of {:?}, {:?} keys padded to {}{}",
        settings.insert_start,
        settings.insert_count,
        settings.field_count,
        settings.field_length,
        settings.insert_order,
        settings.zero_padding,
        if settings.data_integrity {
            format!(", checked ({})", settings.field_name_prefix)
        } else {
            String::new()
        }
    )
}

fn described(settings: &Settings) -> Vec<(&'static str, serde_json::Value)> {
    let names = [
        (Operation::Read, "read"),
        (Operation::Update, "update"),
        (Operation::Insert, "insert"),
        (Operation::Scan, "scan"),
        (Operation::ReadModifyWrite, "read-modify-write"),
    ];
    let mix: Vec<String> = names
        .iter()
        .map(|(operation, name)| (name, settings.share(*operation)))
        .filter(|(_, share)| *share > 0.0)
        .map(|(name, share)| {
            format!("{name}:{:.4}", share).trim_end_matches('0').trim_end_matches('.').to_owned()
        })
        .collect();
    let distribution = match settings.distribution {
        KeyDistribution::Uniform => "uniform".to_owned(),
        KeyDistribution::Zipfian(theta) => format!("zipfian({theta})"),
        KeyDistribution::Latest(theta) => format!("latest({theta})"),
        KeyDistribution::Hotspot(records, share) => format!("hotspot({records},{share})"),
        KeyDistribution::Sequential => "sequential".to_owned(),
        KeyDistribution::Exponential(percentile, share) => format!("exponential({percentile},{share})"),
        _ => "other".to_owned(),
    };
    vec![
        ("mix", mix.join(",").into()),
        ("distribution", distribution.into()),
        ("records", settings.insert_count.into()),
        ("fields", settings.field_count.into()),
        ("field_bytes", settings.field_length.max().into()),
        ("write_all_fields", settings.write_all_fields.into()),
        ("data_integrity", settings.data_integrity.into()),
    ]
}
