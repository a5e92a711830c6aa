//! Three network namespaces that a bridge joins, and ways to cut their links.
//!
//! The caller runs in a network namespace and a mount namespace of its own (`unshare --net
//! --mount`), so nothing here reaches the host's network, and everything ends with these
//! namespaces. The bridge is in the caller's namespace. The bridge's own address is that of the
//! clients.
//!
//! 1. All hardware addresses are fixed, and every neighbour entry is permanent, so no packet waits
//!    for address resolution.
//! 2. A cut drops packets silently, and tells no socket. Taking a port off the bridge drops the
//!    packets of all directions. A neighbour entry with a hardware address that no interface has
//!    drops the packets of one direction.
//! 3. [`Network::heal`] undoes all cuts.

use std::fmt;
use std::process::Command;

/// Numbers of the replicas.
pub const REPLICAS: [u64; 3] = [1, 2, 3];

/// Number of the clients' address.
const CLIENTS: u64 = 4;

/// Last byte of a hardware address that no interface has.
const NOWHERE: u64 = 0xff;

/// Address of a replica's socket.
pub fn address(replica: u64) -> String {
    format!("{}:7101", ip(replica))
}

fn ip(of: u64) -> String {
    format!("10.77.0.{of}")
}

fn hardware(of: u64) -> String {
    format!("02:00:00:00:77:{of:02x}")
}

/// The command that starts a program in a replica's namespace.
pub fn within(replica: u64) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespace(replica)]);
    command
}

fn namespace(replica: u64) -> String {
    format!("replica-{replica}")
}

fn port(replica: u64) -> String {
    format!("port-{replica}")
}

/// A failure of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The replica reaches no other replica and no client.
    Off(u64),
    /// The other two replicas reach no replica and no client, so no majority is left.
    AllBut(u64),
    /// The replica reaches no other replica. Clients reach it.
    FromReplicas(u64),
    /// The other replicas receive nothing from the replica.
    Mute(u64),
    /// The replica receives nothing from the other replicas.
    Deaf(u64),
    /// Two replicas do not reach each other. The third one and the clients reach both.
    Between(u64, u64),
    /// The replica sends and receives this number of kbit/s.
    Slow(u64, u32),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Off(replica) => write!(f, "replica {replica} is cut off"),
            Cut::AllBut(replica) => write!(f, "all but replica {replica} are cut off"),
            Cut::FromReplicas(replica) => write!(f, "replica {replica} is cut off from the replicas"),
            Cut::Mute(replica) => write!(f, "nothing from replica {replica} reaches the replicas"),
            Cut::Deaf(replica) => write!(f, "nothing from the replicas reaches replica {replica}"),
            Cut::Between(one, other) => write!(f, "replicas {one} and {other} are cut off from each other"),
            Cut::Slow(replica, rate) => write!(f, "replica {replica} has links of {rate} kbit/s"),
        }
    }
}

/// The network, and the commands that undo its cuts.
pub struct Network {
    undo: Vec<String>,
}

impl Network {
    /// Makes the namespaces and links. All links work.
    pub fn make() -> Result<Self, String> {
        // The names of network namespaces are files in this folder, which the host must not see.
        call("mount -t tmpfs tmpfs /var/run")?;
        call("ip link add bridge type bridge")?;
        call(&format!("ip link set bridge address {} up", hardware(CLIENTS)))?;
        call(&format!("ip address add {}/24 dev bridge", ip(CLIENTS)))?;
        for replica in REPLICAS {
            let (namespace, port) = (namespace(replica), port(replica));
            call(&format!("ip netns add {namespace}"))?;
            call(&format!("ip link add {port} type veth peer name eth0 netns {namespace}"))?;
            call(&format!("ip link set {port} master bridge up"))?;
            call(&format!("ip -n {namespace} link set lo up"))?;
            call(&format!("ip -n {namespace} link set eth0 address {} up", hardware(replica)))?;
            call(&format!("ip -n {namespace} address add {}/24 dev eth0", ip(replica)))?;
            call(&send(CLIENTS, replica, replica))?;
            for other in others(replica).chain([CLIENTS]) {
                call(&send(replica, other, other))?;
            }
        }
        Ok(Network { undo: Vec::new() })
    }

    /// Makes a cut in addition to the present ones.
    pub fn cut(&mut self, cut: Cut) -> Result<(), String> {
        match cut {
            Cut::Off(replica) => self.unplug(replica),
            Cut::AllBut(replica) => others(replica).try_for_each(|other| self.unplug(other)),
            Cut::FromReplicas(replica) => others(replica).try_for_each(|other| {
                self.block(replica, other)?;
                self.block(other, replica)
            }),
            Cut::Mute(replica) => others(replica).try_for_each(|other| self.block(replica, other)),
            Cut::Deaf(replica) => others(replica).try_for_each(|other| self.block(other, replica)),
            Cut::Between(one, other) => {
                self.block(one, other)?;
                self.block(other, one)
            }
            Cut::Slow(replica, rate) => {
                // The queue holds ten packets, which a link of 100 kbit/s sends in 1.2 s.
                let shape = format!("root tbf rate {rate}kbit burst 5000 limit 15000");
                let far = format!("tc -n {}", namespace(replica));
                [("tc", &*port(replica)), (&*far, "eth0")].into_iter().try_for_each(|(tc, dev)| {
                    self.change(
                        format!("{tc} qdisc add dev {dev} {shape}"),
                        format!("{tc} qdisc del dev {dev} root"),
                    )
                })
            }
        }
    }

    /// Undoes all cuts.
    pub fn heal(&mut self) -> Result<(), String> {
        while let Some(command) = self.undo.pop() {
            call(&command)?;
        }
        Ok(())
    }

    fn change(&mut self, command: String, undo: String) -> Result<(), String> {
        call(&command)?;
        self.undo.push(undo);
        Ok(())
    }

    fn unplug(&mut self, replica: u64) -> Result<(), String> {
        let port = port(replica);
        self.change(format!("ip link set {port} nomaster"), format!("ip link set {port} master bridge"))
    }

    /// Drops all packets from one address to another.
    fn block(&mut self, from: u64, to: u64) -> Result<(), String> {
        self.change(send(from, to, NOWHERE), send(from, to, to))
    }
}

fn others(replica: u64) -> impl Iterator<Item = u64> {
    REPLICAS.into_iter().filter(move |other| *other != replica)
}

/// The command that makes `from` send packets for the address `to` to the interface `at`.
fn send(from: u64, to: u64, at: u64) -> String {
    let (netns, dev) = match from {
        CLIENTS => (String::new(), "bridge"),
        replica => (format!("-n {} ", namespace(replica)), "eth0"),
    };
    format!("ip {netns}neighbour replace {} lladdr {} nud permanent dev {dev}", ip(to), hardware(at))
}

/// Runs a command, whose words have no spaces.
fn call(command: &str) -> Result<(), String> {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let output = output.map_err(|error| format!("cannot start {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
