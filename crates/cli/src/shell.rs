//! `shell`: runs several commands on one open database, also in one transaction.
//!
//! Lines come from a terminal, with a history, or from standard input. Each line is one command.
//! Blanks separate words; within quotes, blanks are part of a word. If a command fails, the shell
//! prints the error and reads the next line. If the input is not a terminal, the exit code is 0
//! only if every command succeeded.

use crate::load::lines::{LINE_BYTES_MAX, next_line};
use crate::point::print_entry;
use crate::show::as_lines;
use crate::text::{self, EscapeError};
use clap::Args;
use katydid::{Database, Prefix, Table, Transaction};
use katydid_command::database::{DatabaseDir, EngineFlags, close_after, listen, no_table};
use katydid_command::failure::{Failure, Result};
use katydid_command::output::{Output, say};
use katydid_command::stderr::warn;
use katydid_observe::{Reply, Request, answer};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Run commands from a terminal or from standard input on one database
///
/// The command `help` lists the commands. Without `begin` each command is a transaction of its own.
/// Tables are created outside of transactions, by `create` or by a `put` without `begin`.
/// The database is created if it is missing. Other programs can read it while the shell runs. The
/// history of a terminal is kept in ~/.katydid_history. If standard input is no terminal, the shell
/// continues after a failed command, and its exit code is 1. If no program reads its output, the
/// shell ends, and its exit code is 1.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  katydid shell --dir ./db\n  \
                        printf 'create fruit\\nbegin\\nput fruit apple red\\nput fruit pear green\\ncommit\\n' | katydid shell --dir ./db")]
pub struct Shell {
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    place: DatabaseDir,
}

/// The commands: name, arguments, and effect.
const COMMANDS: [(&str, &str, &str); 13] = [
    ("get", "TABLE KEY", "print the value of a key"),
    ("put", "TABLE KEY VALUE", "set the value of a key; outside of a transaction, create a missing table"),
    ("delete", "TABLE KEY", "remove a key"),
    ("scan", "TABLE [PREFIX]", "print keys and values, in the order of keys"),
    ("count", "TABLE [PREFIX]", "print the number of keys"),
    ("create", "TABLE", "create a table if it is missing, at once; a rollback does not remove it"),
    ("tables", "", "print the names of all tables"),
    ("begin", "", "begin a transaction of several commands"),
    ("commit", "", "commit the open transaction"),
    ("rollback", "", "roll back the open transaction"),
    ("stat", "", "print positions and counters"),
    ("help", "", "print this list"),
    ("quit", "", "end the shell, and roll back an open transaction; also: exit"),
];

/// Help about writing words with blanks, and bytes.
const WORDS: &str = "A word with blanks stands in \"quotes\". \\xNN is a byte, \\\\ a backslash, \\\" a quote, and \\t, \\n and \\r are control characters.";

/// Returns the list of commands.
fn help() -> String {
    let line = |(name, arguments, effect): &_| format!("{:<27}{effect}\n", format!("{name} {arguments}"));
    COMMANDS.iter().map(line).chain([WORDS.to_owned()]).collect()
}

/// Makes the failure of a line whose command is unknown or has the wrong number of arguments.
fn wrong(command: &[u8], given: usize) -> Failure {
    let command = text::escaped(command);
    let name = if command == "exit" { "quit" } else { &command };
    match COMMANDS.iter().find(|(known, ..)| *known == name) {
        Some((_, "", _)) => Failure::failed(format_args!("{command} takes no arguments")),
        Some((_, arguments, _)) => {
            Failure::failed(format_args!("{command} takes the arguments {arguments}; the line has {given}"))
        }
        None => Failure::failed(format_args!("there is no command {command:?}; try help")),
    }
}

impl Shell {
    pub fn run(self) -> Result<()> {
        let database = self.place.open_or_create(&self.engine)?;
        let socket = listen(&database, &self.place.dir);
        let mut session = Session { database: &database, txn: None };
        let outcome = match std::io::stdin().is_terminal() {
            true => session.converse(),
            false => session.follow(),
        };
        if session.txn.take().is_some() {
            warn(format_args!("katydid: the open transaction was rolled back"));
        }
        drop(socket);
        close_after(&database, outcome)
    }
}

/// Next step of the shell after a line.
enum Next {
    Line,
    Quit,
}

struct Session<'d> {
    database: &'d Database,
    txn: Option<Transaction>,
}

impl Session<'_> {
    fn converse(&mut self) -> Result<()> {
        let failed =
            |error: ReadlineError| Failure::failed(format_args!("cannot read from the terminal: {error}"));
        let mut editor = DefaultEditor::new().map_err(failed)?;
        let history = std::env::home_dir().map(|home: PathBuf| home.join(".katydid_history"));
        if let Some(history) = &history {
            // The file does not exist at first.
            let _may_be_missing = editor.load_history(history);
        }
        let ended = loop {
            let prompt = if self.txn.is_some() { "katydid*> " } else { "katydid> " };
            let line = match editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => continue,
                Err(ReadlineError::Eof) => break Ok(()),
                Err(error) => break Err(failed(error)),
            };
            if !line.trim().is_empty() {
                // The entry is kept in memory, which cannot fail.
                let _cannot_fail = editor.add_history_entry(&line);
            }
            match self.line(line.as_bytes()) {
                Ok(Next::Line) => {}
                Ok(Next::Quit) => break Ok(()),
                Err(failure) => drop(failure.report()),
            }
        };
        if let Some(history) = &history
            && let Err(error) = editor.save_history(history)
        {
            warn(format_args!("katydid: cannot keep the history in {}: {error}", history.display()));
        }
        ended
    }

    fn follow(&mut self) -> Result<()> {
        let mut ended = Ok(());
        let mut input = std::io::stdin().lock();
        for number in 1_u64.. {
            let line = next_line(&mut input, LINE_BYTES_MAX);
            let line =
                line.map_err(|why| Failure::failed(format_args!("standard input: line {number}: {why}")))?;
            let Some((line, _)) = line else { break };
            match self.line(&line) {
                Ok(Next::Line) => {}
                Ok(Next::Quit) => break,
                // The commands of the later lines are not run, so the exit code must not say that
                // all commands succeeded.
                Err(Failure::NobodyReads) => {
                    return Err(Failure::failed(format_args!(
                        "no program reads the output; the shell ended at line {number} of its input"
                    )));
                }
                Err(failure) => {
                    failure.report();
                    ended = Err(Failure::Said);
                }
            }
        }
        ended
    }

    fn line(&mut self, line: &[u8]) -> Result<Next> {
        let words = words(line).map_err(Failure::failed)?;
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let [command, arguments @ ..] = &words[..] else { return Ok(Next::Line) };
        match (*command, arguments) {
            (b"get", [table, key]) => self.get(&name(table)?, key)?,
            (b"put", [table, key, value]) => self.put(&name(table)?, key, value)?,
            (b"delete", [table, key]) => self.delete(&name(table)?, key)?,
            (b"scan", [table]) => self.scan(&name(table)?, b"")?,
            (b"scan", [table, prefix]) => self.scan(&name(table)?, prefix)?,
            (b"count", [table]) => self.count(&name(table)?, b"")?,
            (b"count", [table, prefix]) => self.count(&name(table)?, prefix)?,
            (b"create", [table]) => drop(self.database.table(&name(table)?)?),
            (b"tables", []) => self.tables()?,
            (b"stat", []) => self.stat()?,
            (b"begin", []) => self.begin()?,
            (b"commit", []) => drop(self.ending()?.commit()?),
            (b"rollback", []) => self.ending()?.rollback()?,
            (b"help", []) => say(help())?,
            (b"quit" | b"exit", []) => return Ok(Next::Quit),
            (command, arguments) => return Err(wrong(command, arguments.len())),
        }
        Ok(Next::Line)
    }

    fn table(&self, name: &str) -> Result<Table> {
        match self.database.open_table(name)? {
            Some(table) => Ok(table),
            None => Err(no_table(name, &self.database.tables()?)),
        }
    }

    /// Runs `body` in the open transaction. If none is open, runs it in a new transaction and
    /// commits that.
    fn within<T>(&self, body: impl Fn(&Transaction) -> katydid::Result<T>) -> katydid::Result<T> {
        match &self.txn {
            Some(txn) => body(txn),
            None => self.database.transact(|txn| body(txn)),
        }
    }

    fn get(&self, name: &str, key: &[u8]) -> Result<()> {
        let table = self.table(name)?;
        match self.within(|txn| txn.get(&table, key))? {
            Some(value) => say(text::escaped(&value)),
            None => Err(missing(name, key)),
        }
    }

    fn put(&self, name: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let table = match &self.txn {
            // A creation is a transaction of its own, so a rollback would keep the table.
            Some(_) => self.database.open_table(name)?.ok_or_else(|| {
                Failure::failed(format_args!(
                    "there is no table {name:?}, and put creates no table in a transaction; first run: \
                     create {name:?}"
                ))
            })?,
            None => self.database.table(name)?,
        };
        Ok(self.within(|txn| txn.put(&table, key, value))?)
    }

    fn delete(&self, name: &str, key: &[u8]) -> Result<()> {
        let table = self.table(name)?;
        match self.within(|txn| txn.delete(&table, key))? {
            true => Ok(()),
            false => Err(missing(name, key)),
        }
    }

    fn scan(&self, name: &str, prefix: &[u8]) -> Result<()> {
        let table = self.table(name)?;
        let mut out = Output::new();
        let own;
        let txn = match &self.txn {
            Some(txn) => txn,
            None => {
                own = self.database.begin_read_only()?;
                &own
            }
        };
        let mut range = txn.range(&table, Prefix(prefix));
        while let Some((key, value)) = range.next_ref()? {
            print_entry(&mut out, key, value, false)?;
        }
        out.flush()
    }

    fn count(&self, name: &str, prefix: &[u8]) -> Result<()> {
        let table = self.table(name)?;
        say(self.within(|txn| txn.count(&table, Prefix(prefix)))?.to_string())
    }

    fn tables(&self) -> Result<()> {
        let mut out = Output::new();
        self.database.tables()?.iter().try_for_each(|name| out.line(text::escaped(name.as_bytes())))?;
        out.flush()
    }

    fn stat(&self) -> Result<()> {
        let stat = match answer(self.database, &Request::Stat) {
            Reply::Stat(stat) => stat,
            Reply::Refused(refusal) => return Err(Failure::failed(refusal)),
            other => return Err(Failure::failed(format_args!("an unexpected reply: {other:?}"))),
        };
        let mut out = Output::new();
        as_lines(&stat).into_iter().try_for_each(|(name, value)| out.line(format!("{name:<20}{value}")))?;
        out.flush()
    }

    fn begin(&mut self) -> Result<()> {
        if self.txn.is_some() {
            return Err(Failure::failed("a transaction is open already: first commit or rollback"));
        }
        self.txn = Some(self.database.begin()?);
        Ok(())
    }

    /// Takes the open transaction, which the caller ends.
    fn ending(&mut self) -> Result<Transaction> {
        self.txn.take().ok_or_else(|| Failure::failed("no transaction is open: first begin"))
    }
}

fn missing(table: &str, key: &[u8]) -> Failure {
    Failure::failed(format_args!("key {:?} is not in table {table:?}", text::escaped(key)))
}

/// Returns the name of a table, which must be UTF-8.
fn name(word: &[u8]) -> Result<String> {
    String::from_utf8(word.to_vec()).map_err(|_| {
        Failure::failed(format_args!("the name of a table must be UTF-8, not {}", text::escaped(word)))
    })
}

/// Reason why a line cannot be split into words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum WordsError {
    #[error("a quote is left open")]
    Quote,
    #[error("{0}")]
    Escape(#[from] EscapeError),
}

/// Splits a line into its words, unescaped.
fn words(line: &[u8]) -> std::result::Result<Vec<Vec<u8>>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    let mut rest = line;
    while let [byte, after @ ..] = rest {
        rest = after;
        match byte {
            b'"' => {
                quoted = !quoted;
                // An empty pair of quotes is an empty word.
                word.get_or_insert_default();
            }
            b'\\' => {
                let part = word.get_or_insert_default();
                if let [b'"', after @ ..] = rest {
                    part.push(b'"');
                    rest = after;
                } else {
                    let length = if rest.first() == Some(&b'x') { 3 } else { 1 };
                    let (escape, after) = rest.split_at(length.min(rest.len()));
                    part.extend(text::unescape(&[b"\\", escape].concat())?);
                    rest = after;
                }
            }
            byte if byte.is_ascii_whitespace() && !quoted => words.extend(word.take()),
            byte => word.get_or_insert_default().push(*byte),
        }
    }
    words.extend(word);
    if quoted { Err(WordsError::Quote) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_parted_by_blanks_and_kept_by_quotes() {
        let parted = |line: &str| {
            words(line.as_bytes())
                .map(|words| words.iter().map(|word| text::escaped(word)).collect::<Vec<_>>())
        };
        assert_eq!(parted("put  t\tk v ").unwrap(), ["put", "t", "k", "v"]);
        assert_eq!(parted(r#"put t "a b" "" é"x"y"#).unwrap(), ["put", "t", "a b", "", "éxy"]);
        assert_eq!(parted(r#"\xff\\ \" "\"\t""#).unwrap(), [r"\xff\\", "\"", r#""\t"#]);
        assert_eq!(parted("  ").unwrap(), Vec::<String>::new());
        assert_eq!(parted("a \"b"), Err(WordsError::Quote));
        assert_eq!(parted(r"a\x4"), Err(WordsError::Escape(EscapeError::Hex)));
        assert_eq!(parted(r"a\q"), Err(WordsError::Escape(EscapeError::Unknown('q'))));
        assert_eq!(parted(r"a\"), Err(WordsError::Escape(EscapeError::Trailing)));
    }
}
