//! `replica status`: roles, terms and lags of all members.

use super::Group;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use katydid_command::table::lined_up;
use katydid_replica::{Client, ReplicaId, Role, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Print role, term and lag of each member of a group
///
/// The command asks every member. If a member does not answer, or has stopped, the command prints
/// the reason. The lag is the number of entries of the leader's log that
/// the member does not have on its device yet, as far as the leader knows. The exit code is 1 if no
/// leader answers.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid replica status --at 127.0.0.1:7101\n  \
                        katydid replica status --config replica-1.toml --json")]
pub struct StatusCommand {
    #[command(flatten)]
    group: Group,
    /// Print one JSON object for each member
    #[arg(long)]
    json: bool,
}

/// A member, and its answer.
struct Member {
    id: Option<ReplicaId>,
    address: String,
    answer: katydid_replica::Result<Status>,
    lag: Option<u64>,
}

impl StatusCommand {
    pub fn run(self) -> Result<()> {
        let members = ask(&self.group.client()?);
        let printed = self.print(&members);
        // A missing leader sets the exit code even if no program reads the output.
        match members.iter().any(Member::leads) {
            true => printed,
            false => Err(Failure::failed("no leader answers")),
        }
    }

    fn print(&self, members: &[Member]) -> Result<()> {
        let mut out = Output::new();
        match self.json {
            true => members.iter().try_for_each(|member| out.json(&member.json()))?,
            false => {
                for line in lined_up(&table(members)) {
                    out.line(line)?;
                }
                for line in members.iter().filter_map(Member::failure) {
                    out.line(line)?;
                }
            }
        }
        out.flush()
    }
}

/// Asks the replicas at the given addresses, and then the members that their answers name.
fn ask(client: &Client) -> Vec<Member> {
    let mut members: Vec<Member> = Vec::new();
    let mut ask = |id: Option<ReplicaId>, address: &str| {
        let answer = client.status(address);
        let id = answer.as_ref().map_or(id, |status| Some(status.id));
        if let Some(known) = members.iter_mut().find(|member| member.id.is_some() && member.id == id) {
            if known.answer.is_err() {
                known.answer = answer;
            }
            return None;
        }
        let named = answer.as_ref().ok().map(|status| status.members.clone());
        members.push(Member { id, address: address.to_owned(), answer, lag: None });
        named
    };
    let mut named: BTreeMap<ReplicaId, String> = BTreeMap::new();
    for address in client.addresses() {
        named.extend(ask(None, address).into_iter().flatten());
    }
    let asked: Vec<String> = client.addresses().to_vec();
    for (id, address) in &named {
        if !asked.contains(address) {
            ask(Some(*id), address);
        }
    }
    // If several replicas report that they lead, the leader is the one with the highest term.
    let leader =
        members.iter().filter(|member| member.leads()).filter_map(|member| member.answer.as_ref().ok());
    let lags = leader.max_by_key(|status| status.term).map(Status::lags).unwrap_or_default();
    for member in &mut members {
        // If an address did not answer, the number comes from the other members' lists.
        let by_address = || named.iter().find(|(_, address)| **address == member.address).map(|(id, _)| *id);
        member.id = member.id.or_else(by_address);
        member.lag = member.id.and_then(|id| lags.get(&id).copied());
    }
    members.sort_by_key(|member| member.id);
    members
}

impl Member {
    fn leads(&self) -> bool {
        self.answer.as_ref().is_ok_and(|status| status.role == Role::Leader)
    }

    /// Returns the reason why the member does not answer or has stopped.
    fn failure(&self) -> Option<String> {
        let failure = match &self.answer {
            Ok(status) => format!("the replica has stopped: {}", status.stopped.as_ref()?),
            Err(error) => error.to_string(),
        };
        Some(format!("{}: {failure}", self.address))
    }

    fn json(&self) -> Value {
        match &self.answer {
            Ok(status) => json!({
                "id": status.id,
                "address": self.address,
                "role": status.role.to_string(),
                "votes": status.voters.contains(&status.id),
                "term": status.term,
                "leader": status.leader,
                "last_index": status.last_index,
                "committed": status.committed,
                "applied": status.applied,
                "purged": status.purged,
                "lag": self.lag,
                "stopped": status.stopped,
            }),
            Err(error) => json!({
                "id": self.id,
                "address": self.address,
                "lag": self.lag,
                "error": error.to_string(),
            }),
        }
    }
}

fn table(members: &[Member]) -> Vec<Vec<String>> {
    let head = ["replica", "role", "term", "leader", "last", "committed", "applied", "lag", "address"];
    let shown = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    let row = |member: &Member| {
        let answer = member.answer.as_ref().ok();
        vec![
            shown(member.id),
            answer.map_or("no answer".to_owned(), |status| status.role.to_string()),
            shown(answer.map(|status| status.term)),
            shown(answer.and_then(|status| status.leader)),
            shown(answer.map(|status| status.last_index)),
            shown(answer.map(|status| status.committed)),
            shown(answer.map(|status| status.applied)),
            shown(member.lag),
            member.address.clone(),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(members.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_a_stopped_member_is_printed() {
        let member = |stopped: Value| {
            let answer = json!({
                "id": 2, "role": "Follower", "term": 7, "leader": 1, "last_index": 9, "committed": 9,
                "applied": 8, "purged": 0, "voters": [1, 2], "members": {}, "matched": {},
                "stopped": stopped,
            });
            let answer = serde_json::from_value(answer).expect("a status");
            Member { id: Some(2), address: "b:1".to_owned(), answer: Ok(answer), lag: None }
        };
        assert_eq!(member(Value::Null).failure(), None);
        let failure = member("no space left on the device".into()).failure();
        assert_eq!(failure.as_deref(), Some("b:1: the replica has stopped: no space left on the device"));
    }
}
