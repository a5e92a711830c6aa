//! Settings of a workload, read from a properties file. All properties of YCSB's core workload and
//! client are known. A property that chooses YCSB's driver or output, or has no meaning here, is
//! ignored; all others are honoured. An unknown property is an error that names the property.
//!
//! Rules:
//!
//! 1. A value out of range is an error that names the property, the value and its origin.
//! 2. A property that is not given has YCSB's default.

use crate::drive::LatencyFrom;
use crate::generate::{KeyDistribution, ZIPFIAN_CONSTANT};
use crate::properties::{Origin, Properties, Property};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The workload that is used if none is given: half reads and half updates.
pub const WORKLOAD_A: &str = include_str!("../../../../workloads/ycsb/workloada");

/// A property that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The property does not exist.
    #[error("{origin}: unknown property {name:?}")]
    Unknown {
        /// Name of the property.
        name: String,
        /// Origin of the entry.
        origin: Origin,
    },
    /// A property with an illegal value.
    #[error("{origin}: {name}={value}: {reason}")]
    Value {
        /// Name of the property.
        name: String,
        /// Value of the property.
        value: String,
        /// Origin of the entry.
        origin: Origin,
        /// Range of legal values.
        reason: String,
    },
    /// Properties that contradict each other.
    #[error("{0}")]
    Together(String),
}

/// One kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reads a record.
    Read,
    /// Changes one field of a record, or all fields.
    Update,
    /// Adds a record.
    Insert,
    /// Reads some records in the order of their keys.
    Scan,
    /// Reads a record, then changes it.
    ReadModifyWrite,
}

/// Length of fields, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldLength {
    /// All fields have the same length.
    Constant(u32),
    /// The length is uniform between two lengths.
    Uniform(u32, u32),
    /// The length lies between two lengths; short lengths are more frequent.
    Zipfian(u32, u32),
}

impl FieldLength {
    /// The longest length.
    pub fn max(&self) -> u32 {
        match self {
            FieldLength::Constant(length)
            | FieldLength::Uniform(_, length)
            | FieldLength::Zipfian(_, length) => *length,
        }
    }
}

/// Number of records that a scan reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScanLength {
    /// The number is uniform between two numbers.
    Uniform(u32, u32),
    /// The number lies between two numbers; short scans are more frequent.
    Zipfian(u32, u32),
}

/// Order of the keys of new records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertOrder {
    /// Keys are scattered by a hash.
    Hashed,
    /// Keys are in the order of the record numbers.
    Ordered,
}

/// A workload, ready to be run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Number of records in the table after the load phase of all instances.
    pub record_count: u64,
    /// Number of requests in the run phase, if given.
    pub operation_count: Option<u64>,
    /// Number of the first record that this instance loads.
    pub insert_start: u64,
    /// Number of records that this instance loads.
    pub insert_count: u64,
    /// The kinds of requests and their shares, which add up to 1.
    pub proportions: Vec<(Operation, f64)>,
    /// Distribution of requests over the records.
    pub distribution: KeyDistribution,
    /// True if reads look at all fields, false for one field.
    pub read_all_fields: bool,
    /// True if updates write all fields, false for one field.
    pub write_all_fields: bool,
    /// True if a read borrows the value from a store that can lend it, instead of copying the
    /// value. Not a property of YCSB: false unless the caller sets it.
    pub borrows_values: bool,
    /// True if values follow from their keys, so that reads can check them.
    pub data_integrity: bool,
    /// Number of fields in a record.
    pub field_count: u32,
    /// Bytes in a field.
    pub field_length: FieldLength,
    /// Prefix of the names of fields. Names are not stored, but checked values depend on them.
    pub field_name_prefix: String,
    /// Records in a scan.
    pub scan_length: ScanLength,
    /// Order of keys.
    pub insert_order: InsertOrder,
    /// Number of digits to which record numbers in keys are padded.
    pub zero_padding: u32,
    /// Name of the table.
    pub table: String,
    /// Number of threads, if given.
    pub threads: Option<u32>,
    /// Requests per second of all threads together, if limited.
    pub target: Option<f64>,
    /// Maximum time of the run phase, if limited.
    pub time_max: Option<Duration>,
    /// Time from which latencies are measured when there is a target.
    pub latency_from: LatencyFrom,
    /// Number of times that a failed insert of the load phase is repeated.
    pub insertion_retries: u32,
    /// Wait before each repetition.
    pub insertion_retry_wait: Duration,
    /// True if there is a run phase.
    pub do_transactions: bool,
    /// Names of the given properties that are ignored.
    pub ignored: Vec<String>,
}

/// Ignored properties: they choose a driver of YCSB or an output that this program does not write,
/// or have no meaning for this program.
const IGNORED: &[&str] = &[
    "db",
    "exporter",
    "exportfile",
    "status",
    "status.interval",
    "label",
    "columnfamily",
    "readallfieldsbyname",
    "histogram.buckets",
    "timeseries.granularity",
    "hdrhistogram.percentiles",
    "hdrhistogram.fileoutput",
    "hdrhistogram.output.path",
    "measurement.trackjvm",
    "measurement.raw.output_file",
    "measurement.histogram.verbose",
    "reportlatencyforeacherror",
    "latencytrackederrors",
    "fieldlengthhistogram",
];

/// Looks properties up and remembers the names that were asked for.
struct Reader<'p> {
    properties: &'p Properties,
    known: Vec<&'static str>,
}

impl<'p> Reader<'p> {
    fn get(&mut self, name: &'static str) -> Option<&'p Property> {
        self.known.push(name);
        self.properties.get(name)
    }

    fn parsed<T: FromStr>(
        &mut self,
        name: &'static str,
        expected: impl fmt::Display,
        accept: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, SettingsError> {
        let Some(property) = self.get(name) else { return Ok(None) };
        match property.value.parse() {
            Ok(value) if accept(&value) => Ok(Some(value)),
            _ => Err(refused(property, format!("must be {expected}"))),
        }
    }

    fn count(&mut self, name: &'static str, min: u64, max: u64) -> Result<Option<u64>, SettingsError> {
        self.parsed(name, format_args!("a whole number from {min} to {max}"), |n| (min..=max).contains(n))
    }

    fn small(&mut self, name: &'static str, default: u32, min: u32, max: u32) -> Result<u32, SettingsError> {
        let given = self.count(name, min.into(), max.into())?;
        Ok(given.map_or(default, |n| u32::try_from(n).unwrap_or(max)))
    }

    fn fraction(&mut self, name: &'static str, default: f64) -> Result<f64, SettingsError> {
        let given = self.parsed(name, "a number from 0 to 1", |x| (0.0..=1.0).contains(x))?;
        Ok(given.unwrap_or(default))
    }

    fn flag(&mut self, name: &'static str, default: bool) -> Result<bool, SettingsError> {
        self.choice(name, &[("true", true), ("false", false)], default)
    }

    fn choice<T: Copy>(
        &mut self,
        name: &'static str,
        of: &[(&str, T)],
        default: T,
    ) -> Result<T, SettingsError> {
        let Some(property) = self.get(name) else { return Ok(default) };
        match of.iter().find(|(word, _)| property.value.eq_ignore_ascii_case(word)) {
            Some((_, value)) => Ok(*value),
            None => {
                let words: Vec<&str> = of.iter().map(|(word, _)| *word).collect();
                Err(refused(property, format!("must be one of {}", words.join(", "))))
            }
        }
    }
}

fn refused(property: &Property, reason: String) -> SettingsError {
    SettingsError::Value {
        name: property.name.clone(),
        value: property.value.clone(),
        origin: property.origin.clone(),
        reason,
    }
}

/// Maximum length in bytes of a record that the settings allow. A store's own limit may be lower.
const RECORD_BYTES_MAX: u64 = 64 << 20;

impl Settings {
    /// Reads the settings from `properties`.
    pub fn from_properties(properties: &Properties) -> Result<Settings, SettingsError> {
        let mut reader = Reader { properties, known: Vec::new() };
        let r = &mut reader;

        if let Some(class) = r.get("workload") {
            let core = class.value == "core" || class.value.rsplit('.').next() == Some("CoreWorkload");
            if !core {
                return Err(refused(
                    class,
                    "must be core or the name of YCSB's CoreWorkload class".to_owned(),
                ));
            }
        }
        let record_count = r.count("recordcount", 1, 1 << 40)?.unwrap_or(1000);
        let operation_count = r.count("operationcount", 0, 1 << 48)?.filter(|count| *count > 0);
        let insert_start = r.count("insertstart", 0, 1 << 40)?.unwrap_or(0);
        let insert_count = r.count("insertcount", 1, 1 << 40)?;
        let insert_count = insert_count.unwrap_or_else(|| record_count.saturating_sub(insert_start));
        if insert_count == 0 || insert_start + insert_count > record_count {
            return Err(SettingsError::Together(format!(
                "insertstart={insert_start} and insertcount={insert_count} do not lie within recordcount={record_count}"
            )));
        }

        let mut settings = Settings {
            record_count,
            operation_count,
            insert_start,
            insert_count,
            proportions: proportions(r)?,
            distribution: distribution(r)?,
            read_all_fields: r.flag("readallfields", true)?,
            write_all_fields: r.flag("writeallfields", false)?,
            borrows_values: false,
            data_integrity: r.flag("dataintegrity", false)?,
            field_count: r.small("fieldcount", 10, 1, super::FIELDS_MAX as u32)?,
            field_length: field_length(r)?,
            field_name_prefix: r.get("fieldnameprefix").map_or("field".to_owned(), |p| p.value.clone()),
            scan_length: scan_length(r)?,
            insert_order: r.choice(
                "insertorder",
                &[("hashed", InsertOrder::Hashed), ("ordered", InsertOrder::Ordered)],
                InsertOrder::Hashed,
            )?,
            zero_padding: r.small("zeropadding", 1, 0, 500)?,
            table: r.get("table").map_or("usertable".to_owned(), |p| p.value.clone()),
            threads: r.count("threadcount", 1, 4096)?.map(|n| n as u32),
            target: r
                .parsed("target", "a number of requests a second", |x: &f64| x.is_finite() && *x >= 0.0)?
                .filter(|target| *target > 0.0),
            time_max: r.count("maxexecutiontime", 0, 1 << 32)?.filter(|s| *s > 0).map(Duration::from_secs),
            latency_from: r.choice(
                "measurement.interval",
                &[
                    ("intended", LatencyFrom::Intended),
                    ("both", LatencyFrom::Intended),
                    ("op", LatencyFrom::Actual),
                ],
                LatencyFrom::Intended,
            )?,
            insertion_retries: r.small("core_workload_insertion_retry_limit", 0, 0, 1_000_000)?,
            insertion_retry_wait: Duration::from_secs(
                r.small("core_workload_insertion_retry_interval", 3, 0, 86_400)?.into(),
            ),
            do_transactions: r.flag("dotransactions", true)?,
            ignored: Vec::new(),
        };
        r.choice("measurementtype", &[("hdrhistogram", ()), ("histogram", ())], ())?;

        for property in properties.iter() {
            if IGNORED.contains(&property.name.as_str()) {
                settings.ignored.push(property.name.clone());
            } else if !reader.known.contains(&property.name.as_str()) {
                return Err(SettingsError::Unknown {
                    name: property.name.clone(),
                    origin: property.origin.clone(),
                });
            }
        }
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let bytes = u64::from(self.field_count) * u64::from(self.field_length.max());
        if bytes > RECORD_BYTES_MAX {
            return Err(SettingsError::Together(format!(
                "fieldcount={} fields of up to fieldlength={} bytes make a record of {bytes} bytes; the limit is \
                 {RECORD_BYTES_MAX}",
                self.field_count,
                self.field_length.max()
            )));
        }
        if self.data_integrity && !matches!(self.field_length, FieldLength::Constant(_)) {
            return Err(SettingsError::Together(
                "dataintegrity=true needs fieldlengthdistribution=constant".to_owned(),
            ));
        }
        if self.table.is_empty() {
            return Err(SettingsError::Together("table must have a name".to_owned()));
        }
        Ok(())
    }

    /// Share of the requests of one kind.
    pub fn share(&self, operation: Operation) -> f64 {
        self.proportions.iter().find(|(known, _)| *known == operation).map_or(0.0, |(_, share)| *share)
    }

    /// Replaces the content of `out` by the key of record number `number`.
    pub fn key(&self, number: u64, out: &mut Vec<u8>) {
        use std::io::Write;
        let number = match self.insert_order {
            InsertOrder::Hashed => crate::generate::fnv64(number),
            InsertOrder::Ordered => number,
        };
        out.clear();
        write!(out, "user{number:0width$}", width = self.zero_padding as usize)
            .expect("a vector takes all bytes");
    }
}

fn proportions(r: &mut Reader<'_>) -> Result<Vec<(Operation, f64)>, SettingsError> {
    let shares = [
        (Operation::Read, r.fraction("readproportion", 0.95)?),
        (Operation::Update, r.fraction("updateproportion", 0.05)?),
        (Operation::Insert, r.fraction("insertproportion", 0.0)?),
        (Operation::Scan, r.fraction("scanproportion", 0.0)?),
        (Operation::ReadModifyWrite, r.fraction("readmodifywriteproportion", 0.0)?),
    ];
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    if sum <= 0.0 {
        return Err(SettingsError::Together("all proportions are zero: there is nothing to do".to_owned()));
    }
    Ok(shares.into_iter().filter(|(_, share)| *share > 0.0).map(|(op, share)| (op, share / sum)).collect())
}

fn distribution(r: &mut Reader<'_>) -> Result<KeyDistribution, SettingsError> {
    let theta = r
        .parsed("zipfianconstant", "a number from 0 up to but not including 1", |x| (0.0..1.0).contains(x))?
        .unwrap_or(ZIPFIAN_CONSTANT);
    let hotspot = (r.fraction("hotspotdatafraction", 0.2)?, r.fraction("hotspotopnfraction", 0.8)?);
    let percentile = r
        .parsed("exponential.percentile", "a number above 0 and below 100", |x: &f64| *x > 0.0 && *x < 100.0)?
        .unwrap_or(95.0);
    let share = r
        .parsed("exponential.frac", "a number above 0 and at most 1", |x: &f64| *x > 0.0 && *x <= 1.0)?
        .unwrap_or(0.857_142_857_1);
    r.choice(
        "requestdistribution",
        &[
            ("uniform", KeyDistribution::Uniform),
            ("zipfian", KeyDistribution::Zipfian(theta)),
            ("latest", KeyDistribution::Latest(theta)),
            ("hotspot", KeyDistribution::Hotspot(hotspot.0, hotspot.1)),
            ("sequential", KeyDistribution::Sequential),
            ("exponential", KeyDistribution::Exponential(percentile, share)),
        ],
        KeyDistribution::Uniform,
    )
}

fn field_length(r: &mut Reader<'_>) -> Result<FieldLength, SettingsError> {
    let max = r.small("fieldlength", 100, 0, 64 << 20)?;
    let min = r.small("minfieldlength", 1.min(max), 0, 64 << 20)?;
    let chosen = r.choice(
        "fieldlengthdistribution",
        &[
            ("constant", FieldLength::Constant(max)),
            ("uniform", FieldLength::Uniform(min, max)),
            ("zipfian", FieldLength::Zipfian(min, max)),
        ],
        FieldLength::Constant(max),
    )?;
    if min > max && !matches!(chosen, FieldLength::Constant(_)) {
        return Err(SettingsError::Together(format!("minfieldlength={min} is above fieldlength={max}")));
    }
    Ok(chosen)
}

fn scan_length(r: &mut Reader<'_>) -> Result<ScanLength, SettingsError> {
    let max = r.small("maxscanlength", 1000, 1, 1 << 30)?;
    let min = r.small("minscanlength", 1, 1, 1 << 30)?;
    if min > max {
        return Err(SettingsError::Together(format!("minscanlength={min} is above maxscanlength={max}")));
    }
    r.choice(
        "scanlengthdistribution",
        &[("uniform", ScanLength::Uniform(min, max)), ("zipfian", ScanLength::Zipfian(min, max))],
        ScanLength::Uniform(min, max),
    )
}
