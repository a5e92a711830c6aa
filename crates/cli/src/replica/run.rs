//! `replica --config`: one replica, until a signal.

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
    /// Start the replica that this file describes
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Stop when standard input ends, too: for a program that must not leave replicas behind when
    /// it is killed
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
        // The main thread may have gone on already.
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
        // Programs wait for this line: the replica takes connections from here on.
        say(format!("replica {id} in {folder} listens at {}", replica.address()))?;
        // The senders live as long as the threads that watch.
        let _stopped = stopped.recv();
        replica.close().map_err(failed)?;
        say(format!("replica {id} is closed"))
    }
}
