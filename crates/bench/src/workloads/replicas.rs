//! `bench ycsb --replicas`: a group of replicas under a driver.
//!
//! The records and the entries of the ledger (`ledger`) are rows of the group. Raw devices are not
//! measured, because they belong to other machines.

use super::ledger::{Entry, LEDGER};
use super::report::{Counted, Kinds, Loaded, Measured, Report};
use super::runner::{COUNTED_MAX, conclude, load, phase, stop_flag, usable};
use super::setup::{Setup, latency_from};
use crate::host::machine::Machine;
use crate::replication::GroupStore;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{Client, ClientOptions, ReadAt, Replicated, RequestId, Role, WriteOptions, WriteSet};
use katydid_workload::drive::{Outcome, Plan};
use katydid_workload::ycsb::{Settings, YcsbLoad, YcsbRun};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Maximum time of a commit, longer than an election.
const WAIT: Duration = Duration::from_secs(60);
/// Number of commits in flight of each loading thread.
const LOAD_IN_FLIGHT: usize = 32;
/// Number of rows that one call deletes or counts.
const ROWS: u32 = 5_000;

/// Flags that choose a group of replicas.
#[derive(Debug, Args)]
pub struct ReplicaFlags {
    /// Addresses of a group of replicas to run on, without TLS, instead of a database of this
    /// process
    ///
    /// The address of one running replica is enough.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', conflicts_with_all = FLAGS_OF_DATABASES)]
    replicas: Vec<String>,
    /// With --replicas: acknowledge a commit when every voter has it, not only a majority
    #[arg(long, requires = "replicas")]
    all: bool,
    /// With --replicas: the leader answers reads by its lease, if it can, without asking a majority
    #[arg(long, requires = "replicas")]
    lease: bool,
}

/// Flags that concern a database of this process.
const FLAGS_OF_DATABASES: [&str; 25] = [
    "dir",
    "engine",
    "streams",
    "dependences",
    "memory",
    "kind",
    "segment",
    "nvram_bytes",
    "nvram",
    "nvram_latency",
    "inserter",
    "slots",
    "hop_bytes",
    "chunk_bytes",
    "sync",
    "without",
    "durability",
    "lock_release",
    "contention",
    "old_versions",
    "cache",
    "checkpoint",
    "device",
    "method",
    "page_method",
];

impl ReplicaFlags {
    pub fn are_given(&self) -> bool {
        !self.replicas.is_empty()
    }

    fn write_options(&self) -> WriteOptions {
        let durability = if self.all { Replicated::All } else { Replicated::Quorum };
        WriteOptions { durability, wait: WAIT }
    }

    fn read_at(&self) -> ReadAt {
        if self.lease { ReadAt::Lease } else { ReadAt::Leader }
    }
}

/// One run of YCSB on a group.
pub struct ReplicatedRun<'r> {
    pub flags: &'r ReplicaFlags,
    pub setup: &'r Setup,
    pub settings: &'r Settings,
    pub plan: &'r Plan,
}

/// The ledger, as a table of the group.
struct GroupLedger {
    client: Client,
    last: RequestId,
    options: WriteOptions,
}

fn failed(error: katydid_replica::Error) -> Failure {
    Failure::failed(error)
}

impl GroupLedger {
    fn commit(&mut self, set: WriteSet) -> Result<()> {
        self.last.sequence += 1;
        self.client.write(self.last, set, self.options).map(drop).map_err(failed)
    }

    fn read(&self, name: &str) -> Result<Option<Entry>> {
        let found = self.client.get(LEDGER, name, ReadAt::Leader).map_err(failed)?;
        found.map(|text| Entry::parse(name, &text)).transpose()
    }

    fn write(&mut self, name: &str, entry: &Entry) -> Result<()> {
        self.commit(WriteSet::default().put(LEDGER, name, entry.text()))
    }

    /// Deletes the ledger's entry of a table, and then all rows of the table. If the deletion is
    /// interrupted, the remaining rows are not taken for loaded records.
    fn forget(&mut self, table: &str) -> Result<()> {
        self.commit(WriteSet::default().delete(LEDGER, table))?;
        loop {
            let found = self.client.range(table, .., ROWS, ReadAt::Leader).map_err(failed)?;
            if found.rows.is_empty() {
                return Ok(());
            }
            let rows = found.rows.iter();
            self.commit(rows.fold(WriteSet::default(), |set, (key, _)| set.delete(table, key)))?;
        }
    }

    /// Number of rows of a table. No client may write to the table meanwhile.
    fn count(&self, table: &str) -> Result<u64> {
        let (mut low, mut count) = (Bound::Unbounded, 0);
        loop {
            let found =
                self.client.range(table, (low, Bound::Unbounded), ROWS, ReadAt::Leader).map_err(failed)?;
            count += found.rows.len() as u64;
            match found.rows.last() {
                Some((last, _)) if !found.is_whole => low = Bound::Excluded(last.clone()),
                _ => return Ok(count),
            }
        }
    }
}

impl ReplicatedRun<'_> {
    fn client(&self) -> Result<Client> {
        Client::new(ClientOptions::new(self.flags.replicas.iter().cloned())).map_err(failed)
    }

    /// Loads the records, unless an earlier run did, and runs the requests.
    pub fn measure(&self, shape: &str, expected: u64, loading: Plan) -> Result<Measured> {
        let ReplicatedRun { flags, setup, settings, plan } = *self;
        let table = settings.table.as_str();
        let stop = stop_flag()?;
        let client = self.client()?;
        let last = RequestId { client: client.open_client().map_err(failed)?, sequence: 0 };
        let mut ledger = GroupLedger { client: client.clone(), last, options: flags.write_options() };
        let store = GroupStore::new(client, flags.write_options(), flags.read_at());
        let (mut entry, load) = self.load(&store, &mut ledger, shape, &loading, &stop)?;
        let loaded = match &load {
            Some((outcome, _)) => Loaded::Now(outcome.transactions, "records", outcome.elapsed),
            None => Loaded::Before,
        };
        let (outcome, cpu) = if settings.do_transactions {
            ledger.write(table, &Entry { finished: false, ..entry.clone() })?;
            let run = YcsbRun::new(settings, entry.next, expected);
            let (outcome, cpu) = phase(&store, "run", &[table], &run, plan, &stop)?;
            entry.count += run.next_record() - entry.next;
            entry.next = run.next_record();
            (outcome, cpu)
        } else {
            load.ok_or_else(|| {
                Failure::failed("dotransactions=false, and all records are loaded: nothing to do")
            })?
        };
        let counted = match setup.no_check || entry.count > COUNTED_MAX {
            true => None,
            false => {
                Some(Counted { what: "keys", found: ledger.count(table)?, expected: entry.count, also: None })
            }
        };
        ledger.write(table, &entry)?;
        let replicated = if flags.all { "all" } else { "quorum" };
        let options = vec![
            ("replicas", flags.replicas.join(",").into()),
            ("replicated", replicated.into()),
            ("threads", plan.threads.into()),
            ("in_flight", plan.in_flight.into()),
            ("seconds", plan.time.map(|time| time.as_secs_f64()).into()),
            ("operations", plan.transactions.into()),
            ("target", plan.target.into()),
            ("latency_from", plan.target.map(|_| latency_from(plan.latency_from)).into()),
            ("seed", setup.seed.into()),
        ];
        let (workload, kinds) = (String::new(), Kinds::default());
        Ok(Measured { workload, loaded, outcome, cpu, kinds, lock_waits: None, options, counted })
    }

    fn load(
        &self,
        store: &GroupStore,
        ledger: &mut GroupLedger,
        shape: &str,
        loading: &Plan,
        stop: &AtomicBool,
    ) -> Result<(Entry, Option<(Outcome, Duration)>)> {
        let ReplicatedRun { setup, settings, .. } = *self;
        let table = settings.table.as_str();
        if setup.fresh {
            ledger.forget(table)?;
        }
        let advice = "use --fresh to load it anew, or another table (-p table=NAME)";
        let is_there = |table: &str| -> Result<bool> {
            let first = ledger.client.range(table, .., 1, ReadAt::Leader).map_err(failed)?;
            Ok(!first.rows.is_empty())
        };
        if let Some(entry) = usable(ledger.read(table)?, table, &[table], shape, advice, is_there)? {
            return Ok((entry, None));
        }
        let mut entry = Entry {
            shape: shape.to_owned(),
            next: settings.insert_start + settings.insert_count,
            count: settings.insert_count,
            ..Entry::default()
        };
        ledger.write(table, &entry)?;
        let loading = Plan { in_flight: LOAD_IN_FLIGHT, ..loading.clone() };
        let loaded = load(store, &[table], &YcsbLoad::new(settings), &loading, stop)?;
        entry.finished = true;
        Ok((entry, Some(loaded)))
    }

    /// Writes and prints the report, with the final state of the group.
    pub fn report(&self, mut measured: Measured) -> Result<()> {
        let client = self.client()?;
        let states = client.addresses().iter().filter_map(|address| client.status(address).ok());
        if let Some(status) =
            states.filter(|status| status.role == Role::Leader).max_by_key(|status| status.term)
        {
            let state =
                [("leader", status.id), ("term", status.term), ("voters", status.voters.len() as u64)];
            measured.options.extend(state.map(|(name, number)| (name, number.into())));
        }
        let replicas = self.flags.replicas.join(",");
        let data = format!("in the group of {replicas} (katydid replica status --at {replicas})");
        let machine = Machine::read(Path::new("."));
        conclude(self.setup, &Report { measured, nvram: None, limit: None, machine, data })
    }
}
