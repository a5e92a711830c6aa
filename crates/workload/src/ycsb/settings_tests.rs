//! Tests of settings that are read from properties files, and of refused settings.

use super::settings::*;
use crate::generate::KeyDistribution;
use crate::properties::Properties;
use std::time::Duration;

fn read(text: &str) -> Result<Settings, SettingsError> {
    Settings::from_properties(&Properties::parse(text).expect("it is a properties file"))
}

#[test]
fn the_shipped_workloads_have_the_standard_mixes() {
    use Operation::*;
    type Mix = &'static [(Operation, f64)];
    let zipfian = KeyDistribution::Zipfian(0.99);
    let shipped: [(&str, Mix, KeyDistribution); 6] = [
        (WORKLOAD_A, &[(Read, 0.5), (Update, 0.5)], zipfian),
        (include_str!("../../../../workloads/ycsb/workloadb"), &[(Read, 0.95), (Update, 0.05)], zipfian),
        (include_str!("../../../../workloads/ycsb/workloadc"), &[(Read, 1.0)], zipfian),
        (
            include_str!("../../../../workloads/ycsb/workloadd"),
            &[(Read, 0.95), (Insert, 0.05)],
            KeyDistribution::Latest(0.99),
        ),
        (include_str!("../../../../workloads/ycsb/workloade"), &[(Insert, 0.05), (Scan, 0.95)], zipfian),
        (
            include_str!("../../../../workloads/ycsb/workloadf"),
            &[(Read, 0.5), (ReadModifyWrite, 0.5)],
            zipfian,
        ),
    ];
    for (text, mix, distribution) in shipped {
        let settings = read(text).unwrap();
        assert_eq!(settings.proportions, mix);
        assert_eq!(settings.distribution, distribution);
        assert_eq!((settings.field_count, settings.field_length), (10, FieldLength::Constant(100)));
    }
}

#[test]
fn what_is_not_given_has_the_default_of_ycsb() {
    let settings = read("").unwrap();
    assert_eq!(settings.proportions, [(Operation::Read, 0.95), (Operation::Update, 0.05)]);
    assert_eq!(settings.distribution, KeyDistribution::Uniform);
    assert_eq!(settings.scan_length, ScanLength::Uniform(1, 1000));
    assert_eq!((settings.insert_order, settings.zero_padding), (InsertOrder::Hashed, 1));
    assert_eq!((settings.insert_start, settings.insert_count), (0, settings.record_count));
    assert!(settings.read_all_fields && !settings.write_all_fields && settings.do_transactions);
    assert_eq!(settings.table, "usertable");
}

#[test]
fn every_property_of_the_core_workload_is_taken() {
    let settings = read(
        "workload=com.yahoo.ycsb.workloads.CoreWorkload\nrecordcount=100\noperationcount=7\ninsertstart=10\n\
         insertcount=20\nreadproportion=1\nupdateproportion=1\ninsertproportion=1\nscanproportion=1\n\
         readmodifywriteproportion=0\nreadallfields=false\nwriteallfields=true\nrequestdistribution=exponential\n\
         exponential.percentile=90\nexponential.frac=0.5\nhotspotdatafraction=0.1\nhotspotopnfraction=0.9\n\
         fieldcount=4\nfieldlength=30\nminfieldlength=3\nfieldlengthdistribution=zipfian\nfieldnameprefix=f\n\
         minscanlength=2\nmaxscanlength=9\nscanlengthdistribution=zipfian\ninsertorder=ordered\nzeropadding=6\n\
         table=t\nthreadcount=3\ntarget=250\nmaxexecutiontime=60\ndataintegrity=false\nzipfianconstant=0.5\n\
         core_workload_insertion_retry_limit=2\ncore_workload_insertion_retry_interval=1\n\
         measurementtype=hdrhistogram\nmeasurement.interval=op\ndb=site.ycsb.BasicDB\nstatus.interval=10\n\
         dotransactions=true\n",
    )
    .unwrap();
    assert_eq!((settings.insert_start, settings.insert_count), (10, 20));
    assert_eq!(settings.share(Operation::Scan), 0.25);
    assert_eq!(settings.distribution, KeyDistribution::Exponential(90.0, 0.5));
    assert_eq!(settings.field_length, FieldLength::Zipfian(3, 30));
    assert_eq!(settings.scan_length, ScanLength::Zipfian(2, 9));
    assert_eq!(settings.target, Some(250.0));
    assert_eq!(settings.time_max, Some(Duration::from_secs(60)));
    assert_eq!(settings.latency_from, crate::drive::LatencyFrom::Actual);
    assert_eq!((settings.threads, settings.operation_count), (Some(3), Some(7)));
    assert_eq!((settings.insertion_retries, settings.insertion_retry_wait), (2, Duration::from_secs(1)));
    assert_eq!(settings.ignored, ["db", "status.interval"]);
    let mut key = Vec::new();
    settings.key(42, &mut key);
    assert_eq!(key, b"user000042");
}

#[test]
fn an_unknown_property_is_named_with_its_line() {
    let error = read("recordcount=10\n\nreadpropotion=0.5\n").unwrap_err();
    assert_eq!(error.to_string(), "line 3: unknown property \"readpropotion\"");
    let mut properties = Properties::default();
    properties.set("recordcont", "1");
    let error = Settings::from_properties(&properties).unwrap_err();
    assert_eq!(error.to_string(), "given property: unknown property \"recordcont\"");
}

#[test]
fn bad_values_are_named_with_their_line() {
    let bad = [
        "recordcount=many",
        "recordcount=0",
        "recordcount=-1",
        "operationcount=1e6",
        "readproportion=1.5",
        "readproportion=NaN",
        "updateproportion=-0.1",
        "readallfields=maybe",
        "requestdistribution=zipf",
        "fieldcount=0",
        "fieldcount=70000",
        "fieldlength=-5",
        "fieldlengthdistribution=histogram",
        "insertorder=random",
        "zeropadding=100000",
        "maxscanlength=0",
        "scanlengthdistribution=latest",
        "threadcount=0",
        "target=inf",
        "target=-1",
        "maxexecutiontime=1.5",
        "exponential.percentile=100",
        "hotspotdatafraction=2",
        "zipfianconstant=1",
        "workload=site.ycsb.workloads.TimeSeriesWorkload",
        "measurementtype=raw",
        "dotransactions=1",
    ];
    for line in bad {
        let error = read(&format!("\n{line}\n")).expect_err(line).to_string();
        assert!(error.starts_with(&format!("line 2: {line}: must be ")), "{error}");
    }
}

#[test]
fn properties_must_fit_each_other() {
    let bad = [
        "recordcount=10\ninsertstart=5\ninsertcount=6",
        "recordcount=10\ninsertstart=10",
        "minscanlength=5\nmaxscanlength=4",
        "fieldlengthdistribution=uniform\nminfieldlength=5\nfieldlength=4",
        "dataintegrity=true\nfieldlengthdistribution=uniform",
        "readproportion=0\nupdateproportion=0",
        "fieldcount=60000\nfieldlength=60000",
        "table=",
    ];
    for text in bad {
        assert!(matches!(read(text), Err(SettingsError::Together(_))), "{text}");
    }
}
