//! `completions` and `man`: shell completions and manual pages, generated from the definitions of
//! the flags.

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man as Page;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::Output;
use std::path::PathBuf;

/// Print a script with which a shell completes commands and flags
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid completions bash > ~/.local/share/bash-completion/completions/katydid\n  \
                        katydid completions zsh > ~/.zfunc/_katydid\n  \
                        katydid completions fish > ~/.config/fish/completions/katydid.fish"
)]
pub struct Completions {
    /// Shell that reads the script
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub fn run(self, mut program: Command) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut program, "katydid", &mut script);
        let mut out = Output::new();
        out.bytes(&script)?;
        out.flush()
    }
}

/// Print a manual page, or write the pages of all commands into a folder
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid man | man -l -\n  katydid man lab reproduce | man -l -\n  \
                        katydid man --out ~/.local/share/man/man1")]
pub struct Man {
    /// Command whose page is printed [default: the program]
    #[arg(conflicts_with = "out")]
    command: Vec<String>,
    /// Write a page for each command into this folder, which must exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Returns the manual pages of all commands, one after another.
#[cfg(feature = "replica")]
pub fn manual(mut program: Command) -> Result<Vec<u8>> {
    program.build();
    let mut pages = Vec::new();
    let mut commands = vec![&program];
    while let Some(command) = commands.pop() {
        let rendered = Page::new(command.clone()).render(&mut pages);
        rendered.map_err(|error| Failure::failed(format_args!("cannot make the page: {error}")))?;
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(pages)
}

impl Man {
    pub fn run(self, mut program: Command) -> Result<()> {
        program.build();
        if let Some(folder) = &self.out {
            return clap_mangen::generate_to(program, folder).map_err(|error| {
                Failure::failed(format_args!("cannot write to {}: {error}", folder.display()))
            });
        }
        let mut command = &program;
        let mut name = "katydid".to_owned();
        for word in &self.command {
            command = command
                .find_subcommand(word)
                .ok_or_else(|| Failure::usage(format_args!("{name} has no command {word:?}")))?;
            name = format!("{name} {word}");
        }
        let mut page = Vec::new();
        let rendered = Page::new(command.clone()).render(&mut page);
        rendered.map_err(|error| Failure::failed(format_args!("cannot make the page: {error}")))?;
        let mut out = Output::new();
        out.bytes(&page)?;
        out.flush()
    }
}
