//! Text into a database and out of it: `load`, `scan`, `count`, `get`, `put`, `delete`,
//! `drop-table`, and their errors.

use crate::program::{command, in_repository, run, run_in, run_unread, run_with_input, seeded};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

#[test]
fn lines_come_back_as_they_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let text = "b\tsecond\tvalue\na\tfirst\n\\x00\\xff\t\\\\ and \\t and \\n and \\x1b\né\t漢字 \u{1F600}\nempty\t\n";
    let out = run_with_input(dir.path(), "load t -", text.as_bytes()).expect(0);
    assert!(out.starts_with("acknowledged 5 lines"), "{out}");
    let scanned = run_in(dir.path(), "scan t").expect(0);
    let expected = "\\x00\\xff\t\\\\ and \\t and \\n and \\x1b\na\tfirst\nb\tsecond\\tvalue\nempty\t\né\t漢字 \u{1F600}\n";
    assert_eq!(scanned, expected);
    assert_eq!(
        run_in(dir.path(), "get t \\x00\\xff").expect(0),
        "\\x00\\xff\t\\\\ and \\t and \\n and \\x1b\n"
    );
}

#[test]
fn what_is_scanned_can_be_loaded() {
    let mut rng = seeded(5);
    let mut model = BTreeMap::new();
    while model.len() < 500 {
        let mut bytes = |max| -> Vec<u8> {
            let alphabet = b"\\xtn0aF\t\n\r\x00\x7f\xff\xc3\xa9";
            (0..rng.usize(..max))
                .map(|_| if rng.bool() { *rng.choice(alphabet).unwrap() } else { rng.u8(..) })
                .collect()
        };
        let (key, value) = (bytes(30), bytes(200));
        model.insert(key, value);
    }
    let json: String = model
        .iter()
        .map(|(key, value)| {
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            format!("{{\"key_hex\":\"{}\",\"value_hex\":\"{}\"}}\n", hex(key), hex(value))
        })
        .collect();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    run_with_input(dirs[0].path(), "load t - --format jsonl", json.as_bytes()).expect(0);
    let as_text = run_in(dirs[0].path(), "scan t").expect(0);
    let as_json = run_in(dirs[0].path(), "scan t --json").expect(0);
    assert_eq!((as_text.lines().count(), as_json.lines().count()), (500, 500));
    run_with_input(dirs[1].path(), "load t -", as_text.as_bytes()).expect(0);
    run_with_input(dirs[2].path(), "load t - --format jsonl --batch 7", as_json.as_bytes()).expect(0);
    for dir in &dirs[1..] {
        assert_eq!(run_in(dir.path(), "scan t").expect(0), as_text);
        let database = katydid::Database::open(dir.path()).unwrap();
        let table = database.open_table("t").unwrap().unwrap();
        let transaction = database.begin().unwrap();
        let found: BTreeMap<_, _> = transaction.range(&table, ..).map(|entry| entry.unwrap()).collect();
        assert_eq!(found, model);
        transaction.rollback().unwrap();
        database.close().unwrap();
    }
}

#[test]
fn a_file_of_many_lines_loads_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("UnicodeData.txt");
    let db = dir.path().join("db");
    // Every key occurs twice, and the later line counts, even in another batch.
    let mut text = String::new();
    for round in 0..2 {
        for number in 0..16_000 {
            text.push_str(&format!("{number:05X};CHARACTER {number};{round};Lu;0\n"));
        }
    }
    std::fs::write(&file, text).unwrap();
    let arguments = [
        "load",
        "unicode",
        file.to_str().unwrap(),
        "--separator",
        ";",
        "--dir",
        db.to_str().unwrap(),
        "--acks",
    ];
    let out = run(arguments).expect(0);
    let acks: Vec<&str> = out.lines().collect();
    assert_eq!(acks.len(), 33);
    assert_eq!((acks[0], acks[31]), ("acknowledged 1000 lines", "acknowledged 32000 lines"));
    assert!(acks[32].starts_with("acknowledged 32,000 lines ("));
    let scanned = run_in(&db, "scan unicode").expect(0);
    assert_eq!(scanned.lines().count(), 16_000);
    assert_eq!(scanned.lines().next(), Some("00000\tCHARACTER 0;1;Lu;0"));
    assert!(scanned.lines().all(|line| line.contains(";1;Lu;0")));
    assert_eq!(run_in(&db, "tables").expect(0), "unicode\n");
}

#[test]
fn the_key_can_be_another_column() {
    let dir = tempfile::tempdir().unwrap();
    run_with_input(dir.path(), "load t - --separator , --key-column 2", b"a,b,c\nd,e\n").expect(0);
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "b\ta,c\ne\td\n");
    run_with_input(dir.path(), "load raw - --raw", b"C:\\temp\t\\x\n").expect(0);
    assert_eq!(run_in(dir.path(), "scan raw").expect(0), "C:\\\\temp\t\\\\x\n");
}

#[test]
fn bad_input_is_named_by_line_and_what_came_before_stays() {
    let long = format!("{}\tx\n", "k".repeat(1025));
    let cases = [
        ("tsv", "a\t1\nb\t2\nc\n".to_owned(), "line 3: no separator"),
        ("tsv", "a\t1\nb\t2\n\nc\t3\n".to_owned(), "line 3: it is empty"),
        ("tsv", "a\t1\nb\t2\nc\\q\t3\n".to_owned(), "line 3: unknown escape \\q"),
        ("tsv", format!("a\t1\nb\t2\n{long}"), "line 3: the key is longer"),
        (
            "jsonl",
            "{\"key\":\"a\",\"value\":\"1\"}\n{\"key\":\"b\",\"value\":\"2\"}\n{\"key\":3}\n".to_owned(),
            "line 3: \"key\" must be a string",
        ),
    ];
    for (format, text, why) in cases {
        for batch in [1, 2, 1000] {
            let dir = tempfile::tempdir().unwrap();
            let words = format!("load t - --format {format} --batch {batch}");
            let done = run_with_input(dir.path(), &words, text.as_bytes());
            assert!(done.out.starts_with("acknowledged 2 lines"), "{}", done.out);
            assert!(done.err.contains("the 2 lines before it are durable"), "{}", done.err);
            done.expect_error(1, why);
            assert_eq!(run_in(dir.path(), "scan t").expect(0), "a\t1\nb\t2\n");
        }
    }
}

#[test]
fn scans_take_a_part() {
    let dir = tempfile::tempdir().unwrap();
    run_with_input(dir.path(), "load t -", b"a\t1\nab\t2\nabc\t3\nb\t4\nba\t5\n\\xff\t6\n").expect(0);
    let keys = |words: &str| -> String {
        let out = run_in(dir.path(), words).expect(0);
        out.lines().map(|line| line.split('\t').next().unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys("scan t"), "a ab abc b ba \\xff");
    assert_eq!(keys("scan t --prefix ab"), "ab abc");
    assert_eq!(keys("scan t --prefix \\xff"), "\\xff");
    assert_eq!(keys("scan t --from ab --to b"), "ab abc");
    assert_eq!(keys("scan t --from b --to ab"), "");
    assert_eq!(keys("scan t --prefix a --from abb"), "abc");
    assert_eq!(keys("scan t --limit 2"), "a ab");
    assert_eq!(keys("scan t --reverse --limit 2"), "\\xff ba");
    assert_eq!(keys("scan t --prefix a --reverse"), "abc ab a");
    assert_eq!(keys("scan t --limit 0"), "");
    assert_eq!(
        run_in(dir.path(), "scan t --json --from ba").expect(0),
        "{\"key\":\"ba\",\"value\":\"5\"}\n{\"key_hex\":\"ff\",\"value\":\"6\"}\n"
    );
}

#[test]
fn single_keys() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), "put fruit apple red").expect(0);
    run_in(dir.path(), "put fruit apple green\\x00").expect(0);
    assert_eq!(run_in(dir.path(), "get fruit apple").expect(0), "apple\tgreen\\x00\n");
    assert_eq!(
        run_in(dir.path(), "get fruit apple --json").expect(0),
        "{\"key\":\"apple\",\"value\":\"green\\u0000\"}\n"
    );
    let file = dir.path().join("value");
    std::fs::write(&file, b"\x00raw\\n").unwrap();
    run_in(dir.path(), &format!("put fruit pear --value-file {}", file.display())).expect(0);
    assert_eq!(run_in(dir.path(), "get fruit pear").expect(0), "pear\t\\x00raw\\\\n\n");
    run_in(dir.path(), "get fruit plum").expect_error(1, "key \"plum\" is not in table \"fruit\"");
    run_in(dir.path(), "delete fruit apple").expect(0);
    run_in(dir.path(), "delete fruit apple").expect_error(1, "is not in table");
    run_in(dir.path(), "get fruit \\q").expect_error(2, "unknown escape");
    run_in(dir.path(), "put fruit plum").expect_error(2, "required");
    // A file that is longer than any value is refused before the database is made.
    std::fs::write(&file, vec![0; (16 << 20) + 1]).unwrap();
    let none = dir.path().join("none");
    run_in(&none, &format!("put fruit pear --value-file {}", file.display()))
        .expect_error(1, "value has more than 16777216 bytes, the length of the longest value");
    assert!(!none.exists());
}

#[test]
fn looking_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    for words in ["get t k", "delete t k", "scan t", "tables", "stat", "verify", "dump-log", "checkpoint"] {
        run_in(&missing, words).expect_error(1, "there is no database in");
        assert!(!missing.exists(), "{words} made a folder");
    }
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    for words in ["get t k", "scan t", "tables", "stat", "verify", "dump-log", "checkpoint"] {
        let done = run_in(&empty, words);
        assert_eq!(done.code, 1, "{words}: {done:?}");
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0, "{words} made a file");
    }
    let db = dir.path().join("db");
    run_in(&db, "put fruit apple red").expect(0);
    run_in(&db, "scan vegetables").expect_error(1, "there is no table \"vegetables\"; there are: fruit");
    assert_eq!(run_in(&db, "tables").expect(0), "fruit\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let text: String = (0..5000).map(|number| format!("{number:08}\t{}\n", "x".repeat(100))).collect();
    run_with_input(dir.path(), "load t -", text.as_bytes()).expect(0);
    for words in ["scan t", "scan t --json", "dump-log"] {
        let mut child = command(words.split(' ')).arg("--dir").arg(dir.path()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(child.wait().unwrap().success(), "{words}: {err}");
        assert!(!err.contains("katydid:"), "{words}: {err}");
    }
}

#[test]
fn a_load_that_fails_or_ends_early_is_no_success_if_its_output_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let load = |flags: &str, text: &str| run_unread(dir.path(), &format!("load t -{flags}"), text.as_bytes());
    load("", "a\t1\nbroken\n").expect_error(1, "line 2: no separator");
    load(" --batch 1 --acks", "b\t1\nc\t2\n").expect_error(1, "1 line is durable");
    load("", "d\t1\n").expect(0);
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "a\t1\nb\t1\nd\t1\n");
}

#[test]
fn a_signal_ends_a_load_that_waits_for_input() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut command = command(["load", "t", "-", "--batch", "1", "--acks"]);
        let mut child = command.arg("--dir").arg(dir.path()).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        for number in 1..=3 {
            writeln!(stdin, "k{number}\tv").unwrap();
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            let lines = if number == 1 { "line" } else { "lines" };
            assert_eq!(line, format!("acknowledged {number} {lines}\n"));
        }
        // Standard input stays open, so the load waits for more lines when the signal comes.
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let status = child.wait().unwrap();
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(status.code(), Some(1), "{err}");
        assert!(err.contains("stopped by a signal"), "{err}");
        drop(stdin);
        let verified = run_in(dir.path(), "verify").expect(0);
        assert!(verified.contains("closed cleanly") && !verified.contains("not closed"), "{verified}");
        assert_eq!(run_in(dir.path(), "scan t").expect(0), "k1\tv\nk2\tv\nk3\tv\n");
    }
}

#[test]
fn wrong_usage_has_its_own_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    run(["--nonsense"]).expect(2);
    run(["load", "t"]).expect(2);
    run_in(dir.path(), "load t - --batch 0").expect(2);
    run_in(dir.path(), "load t - --separator \\q").expect_error(2, "the separator");
    run_in(dir.path(), "load t /nowhere/at/all").expect_error(1, "cannot read /nowhere/at/all");
    run_in(dir.path(), "load t /").expect_error(1, "it is a folder");
    assert!(run(["--help"]).expect(0).contains("Exit codes"));
    for subcommand in ["bench ycsb", "bench insert", "bench-disk", "load", "get", "put", "delete", "scan"] {
        let help = run(subcommand.split(' ').chain(["--help"])).expect(0);
        assert!(help.contains("Example"), "{subcommand} --help has no example:\n{help}");
    }
}

#[test]
fn the_shipped_workloads_are_where_the_readme_says() {
    for letter in 'a'..='f' {
        assert!(in_repository(&format!("workloads/ycsb/workload{letter}")).is_file());
    }
}

#[test]
fn keys_are_counted_and_deleted_by_prefix() {
    let dir = tempfile::tempdir().unwrap();
    run_with_input(dir.path(), "load t -", b"a\t1\nab\t2\nac\t3\nb\t4\n\\xff\t5\n").expect(0);
    assert_eq!(run_in(dir.path(), "count t").expect(0), "5\n");
    assert_eq!(run_in(dir.path(), "count t --prefix a").expect(0), "3\n");
    assert_eq!(run_in(dir.path(), "count t --prefix a --from ab").expect(0), "2\n");
    assert_eq!(run_in(dir.path(), "count t --from ab --to b").expect(0), "2\n");
    assert_eq!(run_in(dir.path(), "count t --from b --to a").expect(0), "0\n");
    assert_eq!(run_in(dir.path(), "scan t --prefix \\xff").expect(0), "\\xff\t5\n");
    assert_eq!(run_in(dir.path(), "delete t --prefix a").expect(0), "3 keys deleted\n");
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "b\t4\n\\xff\t5\n");
    assert_eq!(run_in(dir.path(), "delete t --prefix a").expect(0), "0 keys deleted\n");
    run_in(dir.path(), "delete t b --prefix b").expect_error(2, "cannot be used with");
    run_in(dir.path(), "delete t").expect_error(2, "<KEY");
    run_in(dir.path(), "count none").expect_error(1, "there is no table \"none\"; there are: t");
    run_in(dir.path(), "count t --prefix \\x").expect_error(2, "the key");
}

#[test]
fn a_dropped_table_is_gone_and_the_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), "put t key value").expect(0);
    run_in(dir.path(), "put other key value").expect(0);
    run_in(dir.path(), "drop-table none").expect_error(1, "there is no table \"none\"");
    assert_eq!(run_in(dir.path(), "drop-table t").expect(0), "");
    assert_eq!(run_in(dir.path(), "tables").expect(0), "other\n");
    run_in(dir.path(), "get t key").expect_error(1, "there is no table \"t\"");
    assert_eq!(run_in(dir.path(), "get other key --raw").expect(0), "value");
}

#[test]
fn a_raw_value_is_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (file, db) = (dir.path().join("value"), dir.path().join("db"));
    std::fs::write(&file, &bytes).unwrap();
    let (file, db) = (file.to_str().unwrap(), db.to_str().unwrap());
    run(["put", "t", "key", "--value-file", file, "--dir", db]).expect(0);
    let output = command(["get", "t", "key", "--raw", "--dir", db]).output().unwrap();
    assert!(output.status.success() && output.stdout == bytes);
    run(["get", "t", "key", "--raw", "--json", "--dir", db]).expect_error(2, "cannot be used with");
}

#[test]
fn csv_goes_in_with_quotes_and_comes_out_as_it_went_in() {
    let dir = tempfile::tempdir().unwrap();
    let csv = "key,value\nplain,text\n\"a, b\",\"she said \"\"no\"\"\"\n\"two\nlines\",\"\"\n";
    run_with_input(dir.path(), "load t - --format csv --header", csv.as_bytes()).expect(0);
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "a, b\tshe said \"no\"\nplain\ttext\ntwo\\nlines\t\n");
    run_in(dir.path(), r"put t \xff\xe2\x80\xae \\x,1").expect(0);
    let out = run_in(dir.path(), "scan t --csv").expect(0);
    let expected =
        "\"a, b\",\"she said \"\"no\"\"\"\nplain,text\ntwo\\nlines,\n\\xff\\xe2\\x80\\xae,\"\\\\x,1\"\n";
    assert_eq!(out, expected);
    run_with_input(dir.path(), "load u - --format csv", out.as_bytes()).expect(0);
    assert_eq!(run_in(dir.path(), "scan u --csv").expect(0), out);
    // A byte order mark at the beginning of a file is not read as part of the first key.
    run_in(dir.path(), r"put b \xef\xbb\xbfkey value").expect(0);
    let out = run_in(dir.path(), "scan b --csv").expect(0);
    run_with_input(dir.path(), "load c - --format csv", out.as_bytes()).expect(0);
    assert_eq!(run_in(dir.path(), "scan c --csv").expect(0), out);
    run_in(dir.path(), r"get c \xef\xbb\xbfkey").expect(0);
    // In a wide table one field is the key, and the other fields are a CSV record.
    let wide = dir.path().join("wide.csv");
    std::fs::write(&wide, "id;name;note\n7;Ann;\"x;y\"\n").unwrap();
    let words = format!("load w {} --separator ; --key-column 2 --header", wide.display());
    run_in(dir.path(), &words).expect(0);
    assert_eq!(run_in(dir.path(), "get w Ann --raw").expect(0), "7;\"x;y\"");
    run_with_input(dir.path(), "load t - --format csv", b"a,b\nc\n")
        .expect_error(1, "record 2: no separator");
    run_with_input(dir.path(), "load t - --format csv", b"a,b\nc,\"d\ne,f\n")
        .expect_error(1, "record 2: a quote is left open at the end of the file");
    run_with_input(dir.path(), "load t - --format csv --separator ::", b"").expect_error(2, "one byte");
    run_with_input(dir.path(), "load t - --header", b"").expect_error(2, "only a CSV file");
}

#[test]
fn every_report_can_be_json() {
    let dir = tempfile::tempdir().unwrap();
    let json = |out: String| serde_json::from_str::<serde_json::Value>(&out).unwrap();
    let load = json(run_with_input(dir.path(), "load t - --json", b"a1\tx\na2\ty\nb\tz\n").expect(0));
    assert_eq!((&load["lines"], &load["bytes"], &load["table"]), (&3.into(), &8.into(), &"t".into()));
    assert!(load["seconds"].is_f64());
    assert_eq!(run_in(dir.path(), "count t --json").expect(0), "{\"count\":3}\n");
    assert_eq!(run_in(dir.path(), "tables --json").expect(0), "{\"tables\":[\"t\"]}\n");
    assert_eq!(run_in(dir.path(), "delete t --prefix a --json").expect(0), "{\"deleted\":2}\n");
    assert_eq!(run_in(dir.path(), "delete t --prefix b").expect(0), "1 key deleted\n");
    let checkpoint = json(run_in(dir.path(), "checkpoint --json").expect(0));
    assert!(checkpoint["log_bytes"].is_u64() && checkpoint["log_starts"][0].is_u64(), "{checkpoint}");
}

#[test]
fn a_sorted_file_is_loaded_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let line = |number: u32| format!("{number:06}\t{}\n", "x".repeat(number as usize % 300));
    let text: String = (0..5000).map(line).collect();
    let out = run_with_input(dir.path(), "load t - --sorted", text.as_bytes()).expect(0);
    assert!(out.starts_with("loaded 5,000 lines ("), "{out}");
    assert!(out.ends_with("5,000 keys durable in table \"t\"\n"), "{out}");
    assert_eq!(run_in(dir.path(), "scan t").expect(0), text);
    assert!(run_in(dir.path(), "verify").expect(0).contains("closed cleanly"));
    // A table with keys is refused.
    run_with_input(dir.path(), "load t - --sorted", b"z\t1\n").expect_error(1, "table \"t\" is not empty");
    let json = b"{\"key\":\"a\",\"value\":\"1\"}\n";
    let out = run_with_input(dir.path(), "load m - --sorted --json --format jsonl", json).expect(0);
    assert!(out.starts_with("{\"bytes\":2,\"keys\":1,\"lines\":1,\"seconds\":"), "{out}");
    for words in ["load t - --sorted --sort", "load t - --sorted --acks", "load t - --sort --batch 3"] {
        run_in(dir.path(), words).expect_error(2, "cannot be used with");
    }
}

#[test]
fn the_first_line_out_of_order_is_named_and_nothing_is_put() {
    let cases = [
        (
            "a\t1\nc\t2\nb\t3\na\t4\n",
            "standard input: line 3: its key \"b\" is not above that of the line before it",
        ),
        ("a\t1\nb\t2\nb\t3\n", "line 3: its key \"b\""),
        ("\\xff\t1\nb\t2\n", "line 2: its key \"b\""),
        ("a\t1\n\\x00\t2\n", "line 2: its key \"\\x00\""),
        ("a\t1\nb\n", "line 2: no separator"),
    ];
    for (text, why) in cases {
        nothing_is_put("--sorted", text, why);
    }
}

#[test]
fn a_key_that_is_too_long_is_named_by_its_line_and_nothing_is_put() {
    let text = format!("a\t1\n{}\t2\n", "k".repeat(1025));
    for flag in ["--sorted", "--sort"] {
        nothing_is_put(flag, &text, "standard input: line 2: the key is longer than 1024 bytes");
    }
}

fn nothing_is_put(flag: &str, text: &str, why: &str) {
    let dir = tempfile::tempdir().unwrap();
    let done = run_with_input(dir.path(), &format!("load t - {flag}"), text.as_bytes());
    assert!(done.err.contains("nothing was put"), "{}", done.err);
    done.expect_error(1, why);
    assert_eq!(run_in(dir.path(), "count t").expect(0), "0\n");
    assert!(run_in(dir.path(), "verify").expect(0).contains("closed cleanly"));
}

#[test]
fn a_file_in_any_order_is_sorted_first() {
    let mut rng = seeded(8);
    for engine in ["paged", "memory"] {
        let dir = tempfile::tempdir().unwrap();
        let mut model = BTreeMap::new();
        let mut text = String::new();
        for number in 0..3000 {
            let key = format!("{:04}", rng.u32(..2000));
            text.push_str(&format!("{key}\t{number}\n"));
            model.insert(key, number);
        }
        let words = format!("load t - --sort --engine {engine}");
        let out = run_with_input(dir.path(), &words, text.as_bytes()).expect(0);
        assert!(out.starts_with("loaded 3,000 lines ("), "{out}");
        let expected: String = model.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
        assert_eq!(run_in(dir.path(), "scan t").expect(0), expected);
    }
}
