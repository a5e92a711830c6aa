//! Counts acknowledged commits, and compares the counts with the contents of a database.
//!
//! Only the comparison reads a database; all other functions are pure.

use super::clients::{TABLE, key, number};
use hdrhistogram::Histogram;
use katydid::Database;
use katydid_command::bytes::grouped;
use katydid_command::failure::Result;

/// One acknowledged commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    pub client: u32,
    /// Latency of the commit, in microseconds.
    pub micros: u32,
}

impl Ack {
    /// Size of one encoded `Ack`, in bytes.
    pub const BYTES: usize = 8;

    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.client.to_le_bytes());
        out.extend_from_slice(&self.micros.to_le_bytes());
    }

    pub fn decode(bytes: [u8; Ack::BYTES]) -> Ack {
        let [a, b, c, d, e, f, g, h] = bytes;
        Ack { client: u32::from_le_bytes([a, b, c, d]), micros: u32::from_le_bytes([e, f, g, h]) }
    }
}

/// Acknowledged commits of the clients of one database.
#[derive(Debug)]
pub struct Tally {
    /// For each client: the number of commits found by the last comparison, plus those acknowledged
    /// since.
    known: Vec<u64>,
    /// Number of commits acknowledged since the last comparison.
    acknowledged: u64,
    latencies: Histogram<u64>,
}

/// Result of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Number of commits acknowledged between the last comparison and the crash.
    pub acknowledged: u64,
    /// Number of these commits that are in the database.
    pub found: u64,
    /// Number of acknowledged commits that are lost, those of before the last comparison included.
    pub lost: u64,
    /// Number of commits in the database that were never acknowledged.
    pub beyond: u64,
}

impl Verdict {
    /// Returns the verdict as a line of text for the terminal.
    pub fn line(self) -> String {
        let (acknowledged, found) = (grouped(self.acknowledged), grouped(self.found));
        format!("acknowledged {acknowledged}, found {found}, lost {}", grouped(self.lost))
    }
}

impl Tally {
    pub fn new(clients: u32) -> Result<Tally> {
        // From 1 us to 1 min, with two significant digits.
        let latencies = Histogram::new_with_bounds(1, 60_000_000, 2).map_err(|error| {
            katydid_command::failure::Failure::failed(format_args!("no histogram: {error}"))
        })?;
        Ok(Tally { known: vec![0; clients as usize], acknowledged: 0, latencies })
    }

    pub fn note(&mut self, acks: &[Ack]) {
        for ack in acks {
            if let Some(known) = self.known.get_mut(ack.client as usize) {
                *known += 1;
                self.acknowledged += 1;
                self.latencies.saturating_record(u64::from(ack.micros).max(1));
            }
        }
    }

    /// Returns the number of commits acknowledged since the last comparison.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the latency in milliseconds that 99 of 100 commits do not exceed.
    pub fn p99_millis(&self) -> f64 {
        self.latencies.value_at_quantile(0.99) as f64 / 1000.0
    }

    /// Compares the counts with the contents of `database` after a crash. Later comparisons count
    /// from these contents.
    pub fn compare(&mut self, database: &Database) -> Result<Verdict> {
        let table = database.open_table(TABLE)?;
        let mut verdict = Verdict { acknowledged: self.acknowledged, found: 0, lost: 0, beyond: 0 };
        for (client, known) in (0..).zip(&mut self.known) {
            let value = match &table {
                Some(table) => database.get(table, key(client))?,
                None => None,
            };
            let there = value.map_or(0, |value| number(&value));
            verdict.lost += known.saturating_sub(there);
            verdict.beyond += there.saturating_sub(*known);
            *known = there;
        }
        // The loss may exceed the acknowledged commits since the last comparison, because a client
        // may also have lost earlier ones.
        verdict.found = verdict.acknowledged.saturating_sub(verdict.lost);
        self.acknowledged = 0;
        self.latencies.reset();
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::clients::options;

    #[test]
    fn a_lost_commit_is_counted() {
        let database = Database::in_memory_with(options()).unwrap();
        let table = database.table(TABLE).unwrap();
        let mut tally = Tally::new(3).unwrap();
        let acks = |client, count| vec![Ack { client, micros: 7 }; count];
        tally.note(&acks(0, 5));
        tally.note(&acks(1, 2));
        tally.note(&acks(9, 1));
        database.put(&table, key(0), 5u64.to_be_bytes()).unwrap();
        database.put(&table, key(1), 1u64.to_be_bytes()).unwrap();
        database.put(&table, key(2), 1u64.to_be_bytes()).unwrap();
        let verdict = tally.compare(&database).unwrap();
        assert_eq!(verdict, Verdict { acknowledged: 7, found: 6, lost: 1, beyond: 1 });
        assert_eq!(verdict.line(), "acknowledged 7, found 6, lost 1");
        tally.note(&acks(2, 1));
        database.put(&table, key(2), 2u64.to_be_bytes()).unwrap();
        assert_eq!(
            tally.compare(&database).unwrap(),
            Verdict { acknowledged: 1, found: 1, lost: 0, beyond: 0 }
        );
        // The database loses two commits that the last comparison has found.
        database.put(&table, key(0), 3u64.to_be_bytes()).unwrap();
        assert_eq!(
            tally.compare(&database).unwrap(),
            Verdict { acknowledged: 0, found: 0, lost: 2, beyond: 0 }
        );
    }

    #[test]
    fn acknowledgements_pass_a_pipe() {
        let ack = Ack { client: 0x0102_0304, micros: 99 };
        let mut bytes = Vec::new();
        ack.encode(&mut bytes);
        assert_eq!(Ack::decode(bytes.try_into().unwrap()), ack);
    }
}
