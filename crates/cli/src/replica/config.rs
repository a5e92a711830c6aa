//! The configuration file of a replica, in TOML. The command reads and checks the whole file before
//! it opens anything.
//!
//! Every error names the file, and the line and the key if they are known.

use humantime::parse_duration;
use katydid::{EngineKind, MemoryOptions, PagedOptions};
use katydid_command::bytes;
use katydid_command::failure::Failure;
use katydid_replica::ReplicaOptions;
use serde::Deserialize;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// An error in a configuration file.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    file: PathBuf,
    /// Line number from 1; `None` if the error is about the whole file.
    line: Option<usize>,
    key: Option<String>,
    problem: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", key {key:?}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Failure::usage(error)
    }
}

/// The keys of the file. A client's file may lack keys that only a replica needs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    cluster: Option<Spanned<String>>,
    id: Option<Spanned<u64>>,
    folder: Option<PathBuf>,
    listen: Option<Spanned<String>>,
    engine: Option<Spanned<String>>,
    cache: Option<Spanned<String>>,
    memory: Option<Spanned<String>>,
    heartbeat: Option<Spanned<String>>,
    election: Option<Spanned<String>>,
    snapshot_entries: Option<Spanned<u64>>,
    kept_entries: Option<Spanned<u64>>,
    in_flight_max: Option<Spanned<usize>>,
    threads: Option<Spanned<usize>>,
    tls: Option<TlsKeys>,
}

/// The table `tls`: paths of PEM files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsKeys {
    /// The certificate of this replica or client, followed by the certificates between it and the
    /// authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// The certificate of the authority that certifies all replicas and clients.
    pub authority: PathBuf,
}

/// A configuration file, read and decoded.
pub struct Config {
    file: PathBuf,
    text: String,
    keys: Keys,
}

impl Config {
    /// Reads a file. Its paths are relative to the file's folder.
    pub fn read(file: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|error| ConfigError {
            file: file.to_owned(),
            line: None,
            key: None,
            problem: format!("cannot be read: {error}"),
        })?;
        Self::parse(file, text)
    }

    fn parse(file: &Path, text: String) -> Result<Config, ConfigError> {
        match toml::from_str(&text) {
            Ok(keys) => Ok(Config { file: file.to_owned(), text, keys }),
            Err(error) => {
                let span = error.span().filter(|span| span.start < text.len() || text.is_empty());
                Err(ConfigError {
                    file: file.to_owned(),
                    line: span.as_ref().map(|span| line_of(&text, span)),
                    key: span.as_ref().and_then(|span| key_on(&text, span)),
                    problem: error.message().to_owned(),
                })
            }
        }
    }

    fn error(&self, key: &str, span: Option<Range<usize>>, problem: impl fmt::Display) -> ConfigError {
        ConfigError {
            file: self.file.clone(),
            line: span.map(|span| line_of(&self.text, &span)),
            key: Some(key.to_owned()),
            problem: problem.to_string(),
        }
    }

    fn needed<'k, T>(&self, key: &str, value: &'k Option<T>) -> Result<&'k T, ConfigError> {
        value.as_ref().ok_or_else(|| self.error(key, None, "is missing, and a replica needs it"))
    }

    fn read_as<T>(
        &self,
        key: &str,
        value: &Option<Spanned<String>>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = value else { return Ok(None) };
        read(value.get_ref()).map(Some).map_err(|problem| self.error(key, Some(value.span()), problem))
    }

    /// Returns the id of the cluster, if the file has it.
    pub fn cluster(&self) -> Result<Option<[u8; 16]>, ConfigError> {
        self.read_as("cluster", &self.keys.cluster, |text| {
            let number = (text.len() == 32).then(|| u128::from_str_radix(text, 16).ok()).flatten();
            let number = number.filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit()));
            number.map(u128::to_be_bytes).ok_or_else(|| "must be 32 hexadecimal digits".to_owned())
        })
    }

    /// Returns the address at which the replica accepts connections, if the file has it.
    pub fn listen(&self) -> Option<&str> {
        self.keys.listen.as_ref().map(|listen| listen.get_ref().as_str())
    }

    /// Returns the paths of the files for TLS, if the file has them.
    pub fn tls(&self) -> Option<TlsKeys> {
        let keys = self.keys.tls.as_ref()?;
        Some(TlsKeys {
            certificate: self.path(&keys.certificate),
            key: self.path(&keys.key),
            authority: self.path(&keys.authority),
        })
    }

    /// Resolves a path in the file, which may be relative to the file's folder.
    fn path(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Returns the options of the replica that the file describes, with the default transport.
    pub fn replica(&self) -> Result<ReplicaOptions, ConfigError> {
        let keys = &self.keys;
        self.needed("cluster", &keys.cluster)?;
        let cluster = self.cluster()?.unwrap_or_default();
        let id = *self.needed("id", &keys.id)?.get_ref();
        let folder = self.path(self.needed("folder", &keys.folder)?);
        let listen = self.needed("listen", &keys.listen)?.get_ref();
        let mut options = ReplicaOptions::new(folder, cluster, id, listen);
        let kind = self.read_as("engine", &keys.engine, |text| {
            text.parse::<EngineKind>().map_err(|error| error.to_string())
        })?;
        let kind = kind.unwrap_or(EngineKind::Paged);
        let (mut paged, mut memory) = (PagedOptions::default(), MemoryOptions::default());
        let bytes_of = |key, value: &Option<Spanned<String>>, of: EngineKind| {
            let read = self.read_as(key, value, bytes::parse)?;
            match value {
                Some(value) if kind != of => {
                    let problem = format!("is of engine {of}, and the engine is {kind}");
                    Err(self.error(key, Some(value.span()), problem))
                }
                _ => Ok(read),
            }
        };
        if let Some(bytes) = bytes_of("cache", &keys.cache, EngineKind::Paged)? {
            paged.cache_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        if let Some(bytes) = bytes_of("memory", &keys.memory, EngineKind::Memory)? {
            memory.memory_bytes = bytes;
        }
        options.engine.engine = kind.with(paged, memory);
        let time = |key, value| {
            self.read_as(key, value, |text| {
                parse_duration(text).map_err(|_| "must be a time such as 100ms or 2s".to_owned())
            })
        };
        let set = |to: &mut Duration, time: Option<Duration>| *to = time.unwrap_or(*to);
        set(&mut options.heartbeat, time("heartbeat", &keys.heartbeat)?);
        set(&mut options.election, time("election", &keys.election)?);
        if let Some(entries) = &keys.snapshot_entries {
            options.snapshot_entries = *entries.get_ref();
        }
        if let Some(entries) = &keys.kept_entries {
            options.kept_entries = *entries.get_ref();
        }
        if let Some(most) = &keys.in_flight_max {
            options.in_flight_max = *most.get_ref();
        }
        if let Some(threads) = &keys.threads {
            options.threads = *threads.get_ref();
        }
        self.check(&options)?;
        Ok(options)
    }

    /// Lets the library check the options. An error names the key of the file whose value is out of
    /// range.
    fn check(&self, options: &ReplicaOptions) -> Result<(), ConfigError> {
        match options.validate() {
            Ok(()) => Ok(()),
            Err(katydid_replica::Error::Option { option, reason }) => {
                Err(self.error(option, self.span(option), reason))
            }
            // The error is about an option of the engine, which the file sets by one of these keys.
            Err(error) => {
                let key = if self.keys.memory.is_some() { "memory" } else { "cache" };
                Err(self.error(key, self.span(key), error))
            }
        }
    }

    fn span(&self, key: &str) -> Option<Range<usize>> {
        let keys = &self.keys;
        match key {
            "heartbeat" => keys.heartbeat.as_ref().map(Spanned::span),
            "election" => keys.election.as_ref().map(Spanned::span),
            "snapshot_entries" => keys.snapshot_entries.as_ref().map(Spanned::span),
            "kept_entries" => keys.kept_entries.as_ref().map(Spanned::span),
            "in_flight_max" => keys.in_flight_max.as_ref().map(Spanned::span),
            "threads" => keys.threads.as_ref().map(Spanned::span),
            "cache" => keys.cache.as_ref().map(Spanned::span),
            "memory" => keys.memory.as_ref().map(Spanned::span),
            _ => None,
        }
    }
}

/// Returns the line number of a span in a text, from 1.
fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.as_bytes().iter().take(span.start).filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the key that the line of a span assigns.
fn key_on(text: &str, span: &Range<usize>) -> Option<String> {
    let line = text.lines().nth(line_of(text, span) - 1)?;
    let (key, _) = line.split_once('=')?;
    let key = key.trim().trim_matches(['"', '\'']);
    (!key.is_empty()).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"cluster = "000102030405060708090a0b0c0d0e0f"
id = 3
folder = "data"
listen = "127.0.0.1:7103"
engine = "memory"
memory = "64MiB"
heartbeat = "50ms"
election = "1s"
kept_entries = 9

[tls]
certificate = "/etc/c.pem"
key = "k.pem"
authority = "a.pem"
"#;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("/srv/r.toml"), text.to_owned())
    }

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(WHOLE).unwrap();
        let options = config.replica().unwrap();
        assert_eq!(options.cluster, std::array::from_fn(|at| at as u8));
        assert_eq!((options.id, options.address.as_str()), (3, "127.0.0.1:7103"));
        assert_eq!(options.folder, Path::new("/srv/data"));
        assert_eq!(
            (options.heartbeat, options.election),
            (Duration::from_millis(50), Duration::from_secs(1))
        );
        assert_eq!((options.kept_entries, options.snapshot_entries), (9, 50_000));
        assert_eq!(options.engine.engine.kind(), EngineKind::Memory);
        let tls = config.tls().unwrap();
        assert_eq!((tls.certificate, tls.key), ("/etc/c.pem".into(), "/srv/k.pem".into()));
    }

    #[test]
    fn an_error_names_the_file_the_line_and_the_key() {
        let text = |from: &str, to: &str| WHOLE.replace(from, to);
        let cases = [
            (text("0102", "xyzw"), "line 1, key \"cluster\": must be 32 hexadecimal digits"),
            (text("id = 3", "id = \"three\""), "line 2, key \"id\": invalid type"),
            (text("id = 3\n", ""), "key \"id\": is missing"),
            (text("\"memory\"\n", "\"disk\"\n"), "line 5, key \"engine\": "),
            (text("64MiB", "much"), "line 6, key \"memory\": expected a number of bytes"),
            (
                text("engine = \"memory\"", "engine = \"paged\""),
                "line 6, key \"memory\": is of engine memory",
            ),
            (text("50ms", "soon"), "line 7, key \"heartbeat\": must be a time"),
            (text("\"1s\"", "\"100ms\""), "line 8, key \"election\": must be at least three times"),
            (text("kept_", "keeped_"), "line 9, key \"keeped_entries\": unknown field"),
            (text("key = \"k.pem\"", "key = 7"), "line 13, key \"key\": invalid type"),
            (text("[tls]", "[tls"), "line 11: "),
        ];
        for (text, wanted) in cases {
            let error = match parse(&text).and_then(|config| config.replica()) {
                Ok(options) => panic!("{options:?} of\n{text}"),
                Err(error) => error.to_string(),
            };
            let found = error.strip_prefix("/srv/r.toml, ").unwrap_or_else(|| panic!("{error}"));
            assert!(found.starts_with(wanted), "{found:?} is not {wanted:?}");
        }
    }

    #[test]
    fn a_client_needs_only_what_it_uses() {
        let config = parse("cluster = \"ffffffffffffffffffffffffffffffff\"\n").unwrap();
        assert_eq!(config.cluster(), Ok(Some([0xff; 16])));
        assert!(config.replica().is_err() && config.listen().is_none() && config.tls().is_none());
    }
}
