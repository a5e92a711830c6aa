//! Runs the programs as processes, as their users do, and kills some of them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const WEB: &str = env!("CARGO_BIN_EXE_web");
const JOBS: &str = env!("CARGO_BIN_EXE_jobs");
const EVENTS: &str = env!("CARGO_BIN_EXE_events");
const PROMETHEUS: &str = env!("CARGO_BIN_EXE_prometheus");

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Returns the output of a program. A failure of the program fails the test.
fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// A program that answers HTTP. Dropping this value kills the program.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn shop(folder: &Path, engine: &str) -> Server {
        Self::open(WEB, &[text(folder), engine, "127.0.0.1:0"])
    }

    fn open(program: &str, args: &[&str]) -> Server {
        let mut process = Command::new(program).args(args).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Server { process, address }
    }

    /// Sends a request and returns the status code and the body of the answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut connection = TcpStream::connect(&self.address).expect("it listens");
        write!(
            connection,
            "{method} {path} HTTP/1.1\r\nhost: local\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("sent");
        let mut answer = String::new();
        connection.read_to_string(&mut answer).expect("an answer");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head");
        (code, body.to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }
}

#[test]
fn an_order_that_was_answered_is_there_after_the_shop_was_killed() {
    for engine in ["paged", "memory"] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("shop");
        let order = r#"{"customer":"anna","lines":[{"sku":"apple","qty":2}],"idempotency_key":"one"}"#;
        let first = {
            let shop = Server::shop(&folder, engine);
            let items =
                r#"[{"sku":"apple","price_cents":30,"stock":3},{"sku":"pear","price_cents":50,"stock":1}]"#;
            assert_eq!(shop.ask("POST", "/items", items).0, 201);
            let (code, placed) = shop.ask("POST", "/orders", order);
            assert_eq!(code, 201, "{placed}");
            placed
        };
        let shop = Server::shop(&folder, engine);
        // A repeated request returns the same order, and makes no other one.
        assert_eq!(shop.ask("POST", "/orders", order), (201, first.clone()));
        assert_eq!(shop.ask("GET", "/customers/anna/orders", ""), (200, format!("[{first}]")));
        assert_eq!(shop.ask("GET", "/report", ""), (200, "[1,60,2]".to_owned()));
        let left = r#"[{"sku":"apple","price_cents":30,"stock":1}]"#;
        assert_eq!(shop.ask("GET", "/items?prefix=app", ""), (200, left.to_owned()));
        // A refused order takes no stock, not even for its earlier lines.
        let refused = r#"{"customer":"karl","lines":[{"sku":"pear","qty":1},{"sku":"apple","qty":2}]}"#;
        assert_eq!(shop.ask("POST", "/orders", refused), (409, "only 1 of apple left".to_owned()));
        let unknown = r#"{"customer":"karl","lines":[{"sku":"plum","qty":1}]}"#;
        assert_eq!(shop.ask("POST", "/orders", unknown), (404, "no item plum".to_owned()));
        let (_, pear) = shop.ask("GET", "/items?prefix=pear", "");
        assert!(pear.contains(r#""stock":1"#), "{pear}");
        assert!(shop.ask("GET", "/metrics", "").1.contains("katydid_commits_total"));
    }
}

/// Returns the number after `name` in a line such as `ready 0 leased 0 done 7`.
fn number(line: &str, name: &str) -> u64 {
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line:?}"))
}

#[test]
fn each_job_is_done_once_and_a_killed_run_loses_none() {
    for engine in ["paged", "memory"] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("jobs");
        let path = text(&folder);
        run(JOBS, &["run", path, "--engine", engine, "--jobs", "300", "--workers", "4", "--batch", "8"]);
        let line = run(JOBS, &["check", path]);
        assert_eq!(
            (number(&line, "done"), number(&line, "sum"), number(&line, "faults")),
            (300, 300, 0),
            "{line}"
        );
        // There are more jobs than the workers can do before the first line of progress, so the
        // kill interrupts the workers.
        let mut process = Command::new(JOBS)
            .args(["run", path, "--jobs", "100000000", "--workers", "4", "--shards", "2", "--engine", engine])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut progress = String::new();
        BufReader::new(process.stderr.take().expect("piped")).read_line(&mut progress).expect("a line");
        process.kill().expect("killed");
        process.wait().expect("it ends");
        let finished = progress.split_whitespace().nth(2).and_then(|word| word.parse::<u64>().ok());
        let finished = finished.unwrap_or_else(|| panic!("no progress in {progress:?}"));
        let line = run(JOBS, &["check", path]);
        assert!(number(&line, "done") >= 300 + finished, "{progress}{line}");
        assert_eq!(number(&line, "faults"), 0, "{line}");
    }
}

#[test]
fn a_log_that_follows_has_each_event_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, copy) = (folder.path().join("log"), folder.path().join("copy"));
    let (log, copy) = (text(&log), text(&copy));
    run(EVENTS, &["write", log, "400"]);
    // The follower copies events from before its start, and events that are written while it runs.
    let first = run(EVENTS, &["replicate", log, copy, "1200"]);
    assert!(first.starts_with("copied 1600;"), "{first}");
    let second = run(EVENTS, &["replicate", log, copy, "400"]);
    assert!(second.starts_with("copied 400;"), "{second}");
    let tail = run(EVENTS, &["tail", copy]);
    assert!(tail.ends_with("2000 events\n") && tail.contains("something happened"), "{tail}");
}

/// Returns the value of the line that begins with `name`, in Prometheus's text format.
fn sample(page: &str, name: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn prometheus_reads_commits_and_waits_with_buckets() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::open(PROMETHEUS, &[text(&folder.path().join("db")), "127.0.0.1:0"]);
    let is_there = |page: &str, name: &str| sample(page, name).is_some_and(|value| value > 0.0);
    // Scrapes until a transaction has waited for another one.
    let page = loop {
        let (code, page) = server.ask("GET", "/metrics", "");
        assert_eq!(code, 200, "{page}");
        if is_there(&page, "katydid_wait_seconds_count") && is_there(&page, "katydid_commit_seconds_count") {
            break page;
        }
    };
    for name in ["katydid_commit_seconds", "katydid_wait_seconds", "katydid_open_seconds"] {
        assert!(page.contains(&format!("# TYPE {name} histogram\n")), "{page}");
        assert!(page.contains(&format!("# HELP {name} ")), "{page}");
        let start = format!("{name}_bucket{{le=\"");
        let buckets: Vec<f64> = page
            .lines()
            .filter_map(|line| line.strip_prefix(&start)?.split_once("\"} ")?.1.parse().ok())
            .collect();
        assert!(buckets.len() == 17 && buckets.is_sorted(), "{name}: {buckets:?}");
        assert_eq!(
            buckets.last().copied(),
            sample(&page, &format!("{name}_count")),
            "all are in the last one"
        );
        assert!(is_there(&page, &format!("{name}_sum")), "{page}");
    }
    assert!(is_there(&page, "katydid_log_bytes"), "{page}");
    assert!(sample(&page, "katydid_transactions_open").is_some_and(|open| open <= 4.0), "{page}");
}
