//! Calls on a group of replicas: reading, writing, and changing its members.

use super::{Group, failed};
use crate::key_range::{KeyFlags, key};
use crate::load::Source;
use crate::point::print_entry;
use crate::text;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::{Output, say};
use katydid_command::stderr::warn;
use katydid_replica::{Client, ReadAt, ReplicaId, Replicated, RequestId, WriteOptions, WriteSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of rows per call of a scan.
const ROWS: u32 = 5_000;

/// Flags that select the state that a read returns.
#[derive(Debug, Args)]
struct Recency {
    /// Maximum age of the state, which any replica may then return, such as 500ms [default: the
    /// current state, from the leader]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    stale: Option<Duration>,
    /// Let the leader answer without asking a majority if one has confirmed it recently
    ///
    /// The answer has every write that was acknowledged before, if no replica's clock runs twice as
    /// fast as another's.
    #[arg(long, conflicts_with = "stale")]
    lease: bool,
}

impl Recency {
    fn at(&self) -> ReadAt {
        match self.stale {
            Some(age) => ReadAt::Stale(age),
            None if self.lease => ReadAt::Lease,
            None => ReadAt::Leader,
        }
    }
}

/// Print `key<TAB>value` of one key of a group
///
/// The exit code is 1 if the key is absent.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica get --at 127.0.0.1:7101 fruit apple")]
pub struct Get {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    key: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recency: Recency,
    #[command(flatten)]
    group: Group,
}

impl Get {
    pub fn run(self) -> Result<()> {
        let key = key(&self.key)?;
        let value = self.group.client()?.get(&self.table, &key, self.recency.at()).map_err(failed)?;
        let Some(value) = value else {
            warn(format_args!("katydid: key {:?} is not in table {:?}", self.key, self.table));
            return Err(Failure::Said);
        };
        let mut out = Output::new();
        print_entry(&mut out, &key, &value, self.json)?;
        out.flush()
    }
}

/// Print `key<TAB>value` of all keys of a group's table, or of a range, in key order
///
/// The command reads up to 5,000 rows at a time. The rows of one read are of one state; the rows of
/// the next read may be of a newer state.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid replica scan --at 127.0.0.1:7101 fruit --prefix ap\n  \
                        katydid replica scan --at 127.0.0.1:7102 fruit --stale 1s --json")]
pub struct Scan {
    /// Name of the table
    table: String,
    #[command(flatten)]
    keys: KeyFlags,
    /// Print one JSON object for each key
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    recency: Recency,
    #[command(flatten)]
    group: Group,
}

impl Scan {
    pub fn run(self) -> Result<()> {
        let (mut low, high) = self.keys.range()?;
        let client = self.group.client()?;
        let mut out = Output::new();
        loop {
            let bounds = (low, high.clone());
            let found = client.range(&self.table, bounds, ROWS, self.recency.at()).map_err(failed)?;
            for (key, value) in &found.rows {
                print_entry(&mut out, key, value, self.json)?;
            }
            match found.rows.into_iter().last() {
                Some((last, _)) if !found.is_whole => low = Bound::Excluded(last),
                _ => return out.flush(),
            }
        }
    }
}

/// Flags that set when a write is acknowledged.
#[derive(Debug, Args)]
struct Acknowledged {
    /// Wait until every voter has the write, not only a majority
    ///
    /// If a voter does not confirm within --wait that it has the write, the command fails and names
    /// the voter, although the write has committed.
    #[arg(long)]
    all: bool,
    /// Give up after this time; the outcome of the write is then unknown
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    wait: Duration,
}

impl Acknowledged {
    fn options(&self) -> WriteOptions {
        let durability = if self.all { Replicated::All } else { Replicated::Quorum };
        WriteOptions { durability, wait: self.wait }
    }

    fn write(&self, client: &Client, id: RequestId, set: WriteSet) -> Result<()> {
        let committed = client.write(id, set, self.options()).map_err(failed)?;
        committed.confirmed().map(drop).map_err(Failure::failed)
    }

    /// Commits a write set, as the first write of a new session.
    fn write_once(&self, client: &Client, set: WriteSet) -> Result<()> {
        let id = RequestId { client: client.open_client().map_err(failed)?, sequence: 1 };
        self.write(client, id, set)
    }
}

/// Set the value of one key of a group
///
/// The command creates the table if it is missing. A majority has the write on its devices when the
/// command returns.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica put --at 127.0.0.1:7101 fruit apple 'red, sweet'")]
pub struct Put {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    key: String,
    /// Value, with the same escapes as the key
    #[arg(required_unless_present = "value_file")]
    value: Option<String>,
    /// Read the value from this file, without escapes
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    value_file: Option<PathBuf>,
    #[command(flatten)]
    acknowledged: Acknowledged,
    #[command(flatten)]
    group: Group,
}

impl Put {
    pub fn run(self) -> Result<()> {
        let key = key(&self.key)?;
        let value = match (&self.value, &self.value_file) {
            (_, Some(file)) => std::fs::read(file)
                .map_err(|error| Failure::failed(format_args!("cannot read {}: {error}", file.display())))?,
            (Some(value), None) => {
                text::argument(value).map_err(|error| Failure::usage(format_args!("the value: {error}")))?
            }
            (None, None) => return Err(Failure::usage("a value is needed")),
        };
        let set = WriteSet::default().put(&self.table, key, value);
        self.acknowledged.write_once(&self.group.client()?, set)
    }
}

/// Remove one key of a group
///
/// An absent key is no error. A majority has the write on its devices when the command returns.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica delete --at 127.0.0.1:7101 fruit apple")]
pub struct Delete {
    /// Name of the table
    table: String,
    /// Key; \xNN stands for a byte, \\ for a backslash
    key: String,
    #[command(flatten)]
    acknowledged: Acknowledged,
    #[command(flatten)]
    group: Group,
}

impl Delete {
    pub fn run(self) -> Result<()> {
        let set = WriteSet::default().delete(&self.table, key(&self.key)?);
        self.acknowledged.write_once(&self.group.client()?, set)
    }
}

/// Put the lines of a file into a table of a group, in file order
///
/// Each batch of lines is one transaction, and is acknowledged when a majority has it on its
/// devices. If the leader fails, the command sends the batch again, and the group applies it once.
/// A batch that fails ends the load, and the message names its lines.
/// The formats are those of `katydid load`.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  katydid replica load --at 127.0.0.1:7101 unicode UnicodeData.txt --separator ';'"
)]
pub struct Load {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    acknowledged: Acknowledged,
    #[command(flatten)]
    group: Group,
}

impl Load {
    pub fn run(self) -> Result<()> {
        let input = self.source.open()?;
        let client = self.group.client()?;
        let mut id = RequestId { client: client.open_client().map_err(failed)?, sequence: 0 };
        self.source.load(input, |entries| {
            id.sequence += 1;
            let put =
                |set: WriteSet, (key, value): &(Vec<u8>, Vec<u8>)| set.put(self.source.table(), key, value);
            let set = entries.iter().fold(WriteSet::default(), put);
            self.acknowledged.write(&client, id, set)
        })
    }
}

/// Make a group of running replicas
///
/// A group is made once. The command names all members, which must be new and belong to no group;
/// the first address of --at is that of a member.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  katydid replica init --at 10.0.0.1:7101 1=10.0.0.1:7101 2=10.0.0.2:7101 3=10.0.0.3:7101"
)]
pub struct Init {
    /// Number and address of each member
    #[arg(value_name = "ID=ADDRESS", required = true, value_parser = member)]
    members: Vec<(ReplicaId, String)>,
    #[command(flatten)]
    group: Group,
}

fn member(text: &str) -> std::result::Result<(ReplicaId, String), String> {
    let wrong = || "expected a number and an address, such as 1=127.0.0.1:7101".to_owned();
    let (id, address) = text.split_once('=').ok_or_else(wrong)?;
    Ok((id.parse().map_err(|_| wrong())?, address.to_owned()))
}

impl Init {
    pub fn run(self) -> Result<()> {
        let client = self.group.client()?;
        let members: BTreeMap<_, _> = self.members.iter().cloned().collect();
        if members.len() != self.members.len() {
            return Err(Failure::usage("a member is named twice"));
        }
        let first = client.addresses()[0].clone();
        client.initialize(&first, &members).map_err(failed)?;
        say(format!("the group has {} members", members.len()))
    }
}

/// Add a member that does not vote, and wait until it has the log
///
/// The replica must run, be new, and have a number that no replica of the group ever had. The
/// command `voters` can make it a voter later. For a member with another address the command
/// corrects the address.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica add --at 10.0.0.1:7101 4=10.0.0.4:7101")]
pub struct Add {
    /// Number and address of the member
    #[arg(value_name = "ID=ADDRESS", value_parser = member)]
    member: (ReplicaId, String),
    /// Give up after this time; the member may still be added
    #[arg(long, value_name = "TIME", default_value = "10min", value_parser = humantime::parse_duration)]
    wait: Duration,
    #[command(flatten)]
    group: Group,
}

impl Add {
    pub fn run(self) -> Result<()> {
        let (id, address) = &self.member;
        self.group.client()?.add_learner(*id, address, self.wait).map_err(failed)?;
        say(format!("replica {id} has the log"))
    }
}

/// Make these members the voters; each former voter that is not named leaves the group
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica voters --at 10.0.0.1:7101 1 2 4")]
pub struct Voters {
    /// Numbers of the voters
    #[arg(value_name = "ID", required = true)]
    voters: Vec<ReplicaId>,
    #[command(flatten)]
    group: Group,
}

impl Voters {
    pub fn run(self) -> Result<()> {
        let voters: BTreeSet<_> = self.voters.into_iter().collect();
        self.group.client()?.change_voters(&voters).map_err(failed)?;
        say(format!("the group has {} voters", voters.len()))
    }
}

/// Ask a voter to become the leader
///
/// The command does not wait: the voter leads as soon as it has the whole log.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  katydid replica transfer --at 10.0.0.1:7101 2")]
pub struct Transfer {
    /// Number of the voter
    #[arg(value_name = "ID")]
    leader: ReplicaId,
    #[command(flatten)]
    group: Group,
}

impl Transfer {
    pub fn run(self) -> Result<()> {
        self.group.client()?.transfer_leader(self.leader).map_err(failed)?;
        say(format!("replica {} was asked to lead", self.leader))
    }
}
