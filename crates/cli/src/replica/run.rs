//! `replica --config`: runs one replica until a signal.

use super::config::Config;
use super::{failed, transport};
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_command::signals;
use katydid_replica::Replica;
use std::io::Read;
use std::path::PathBuf;
use std::sync::mpsc::channel;

#[derive(Debug, Args)]
pub struct Run {
    /// Run the replica that this configuration file describes
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Stop also when standard input ends, so that a killed program leaves no replicas behind
    #[arg(long, hide = true)]
    until_input_ends: bool,
}

impl Run {
    pub fn run(self) -> Result<()> {
        let file = self.config.ok_or_else(|| Failure::usage("--config FILE is needed"))?;
        let config = Config::read(&file)?;
        let mut options = config.replica()?;
        options.transport = transport(&config)?;
        let (stop, stopped) = channel();
        let at_end = stop.clone();
        // An error means that the main thread is ending already.
        signals::on_stop(move || stop.send(()).unwrap_or_default())?;
        let (id, folder) = (options.id, options.folder.display().to_string());
        let replica = Replica::open(options).map_err(failed)?;
        if self.until_input_ends {
            std::thread::spawn(move || {
                let mut nothing = [0; 64];
                while std::io::stdin().read(&mut nothing).is_ok_and(|count| count > 0) {}
                at_end.send(()).unwrap_or_default();
            });
        }
        // Programs that start replicas wait for this line: it shows that the replica accepts
        // connections.
        let said = say(format!("replica {id} in {folder} listens at {}", replica.address()));
        if let Err(failure) = said {
            replica.close().map_err(failed)?;
            return Err(match failure {
                // The replica ends although no signal came, so its exit code must report a failure.
                Failure::NobodyReads => {
                    let why = "no program reads standard output, to which it prints its address";
                    Failure::failed(format_args!("replica {id} in {folder} is closed again: {why}"))
                }
                failure => failure,
            });
        }
        // The watching threads hold the senders, so this returns only when one of them sends.
        let _stopped = stopped.recv();
        replica.close().map_err(failed)?;
        say(format!("replica {id} is closed"))
    }
}
