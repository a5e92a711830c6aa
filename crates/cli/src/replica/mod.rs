//! `replica`: starts a replica of a replicated database, and uses and administers a group of
//! replicas.
//!
//! `replica --config` runs a replica until a signal. The other commands are clients of running
//! replicas, on this machine or on others.

mod calls;
mod config;
mod demo;
mod run;
mod status;

use calls::{Add, Delete, Get, Init, Load, Put, Scan, Transfer, Voters};
use clap::{Args, Subcommand};
use config::Config;
use demo::Demo;
use katydid_command::failure::{Failure, Result};
use katydid_replica::{Client, ClientOptions, Tcp, Transport};
use run::Run;
use status::StatusCommand;
use std::path::PathBuf;
use std::sync::Arc;

/// Run a replica of a database that several machines keep, or use a group of replicas
///
/// A group of replicas keeps one database by Raft: a write is acknowledged when a majority has it
/// on its devices, and the group serves clients while a majority runs. `--config` runs one replica
/// until SIGINT or SIGTERM; `init` makes a group of running replicas. The other commands, except
/// `demo`, need the address of any running replica, and find the leader themselves.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  katydid replica demo\n  katydid replica --config replica-1.toml\n  \
                        katydid replica init --at 10.0.0.1:7101 1=10.0.0.1:7101 2=10.0.0.2:7101 3=10.0.0.3:7101\n  \
                        katydid replica status --at 10.0.0.1:7101\n  \
                        katydid replica put --at 10.0.0.1:7101,10.0.0.2:7101 fruit apple red")]
pub struct ReplicaCommand {
    #[command(flatten)]
    run: Run,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(StatusCommand),
    Get(Get),
    Put(Put),
    Delete(Delete),
    Scan(Scan),
    Load(Load),
    Init(Init),
    Add(Add),
    Voters(Voters),
    Transfer(Transfer),
    Demo(Demo),
}

impl ReplicaCommand {
    /// Runs the command. `program` is the definition of the command line, whose manual `demo`
    /// loads.
    pub fn run(self, program: clap::Command) -> Result<()> {
        match self.command {
            None => self.run.run(),
            Some(Command::Status(command)) => command.run(),
            Some(Command::Get(command)) => command.run(),
            Some(Command::Put(command)) => command.run(),
            Some(Command::Delete(command)) => command.run(),
            Some(Command::Scan(command)) => command.run(),
            Some(Command::Load(command)) => command.run(),
            Some(Command::Init(command)) => command.run(),
            Some(Command::Add(command)) => command.run(),
            Some(Command::Voters(command)) => command.run(),
            Some(Command::Transfer(command)) => command.run(),
            Some(Command::Demo(command)) => command.run(program),
        }
    }
}

/// Flags that name a group of replicas.
#[derive(Debug, Args)]
struct Group {
    /// Addresses of replicas; one running replica is enough [default: the address in --config]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', required_unless_present = "config")]
    at: Vec<String>,
    /// Read the cluster, the certificates and the address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Group {
    fn client(&self) -> Result<Client> {
        let mut options = ClientOptions::new(self.at.iter().cloned());
        if let Some(file) = &self.config {
            let config = Config::read(file)?;
            options.cluster = config.cluster()?;
            options.transport = transport(&config)?;
            if options.addresses.is_empty() {
                options.addresses.extend(config.listen().map(str::to_owned));
            }
        }
        Client::new(options).map_err(failed)
    }
}

/// Returns the transport that a configuration file asks for.
fn transport(config: &Config) -> Result<Arc<dyn Transport>> {
    match config.tls() {
        None => Ok(Arc::new(Tcp)),
        #[cfg(feature = "tls")]
        Some(config::TlsKeys { certificate, key, authority }) => {
            let files = katydid_replica::TlsFiles { certificate, key, authority };
            Ok(Arc::new(katydid_replica::Tls::new(&files).map_err(failed)?))
        }
        #[cfg(not(feature = "tls"))]
        Some(_) => {
            Err(Failure::usage("the configuration file asks for TLS, but this program was built without it"))
        }
    }
}

fn failed(error: katydid_replica::Error) -> Failure {
    Failure::failed(error)
}
