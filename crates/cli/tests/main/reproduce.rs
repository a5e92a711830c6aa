//! `reproduce`: its report, continuing after an interruption, and the arguments that it refuses.

use crate::program::{self, command, contents, run};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};

fn reproduce(out: &Path, words: &str) -> program::Done {
    let mut arguments: Vec<String> = format!("reproduce {words}").split(' ').map(str::to_owned).collect();
    arguments.extend(["--out".to_owned(), out.display().to_string()]);
    run(arguments)
}

#[test]
fn a_report_has_the_plot_the_verdict_and_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let out = reproduce(dir.path(), "aether --figure 7 --quick").expect(0);
    assert!(out.contains("aether-7") && out.contains("report.html"), "{out}");
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    for part in
        ["<svg", "The paper claims", "katydid lab manycore txn", "35 %", "viewBox", "href=\"#contents\""]
    {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    assert!(!page.contains("<script") && !page.contains("NaN"), "{page}");
    assert!(fs::read_to_string(dir.path().join("aether-7/rows.csv")).unwrap().lines().count() > 2);
    let rounds = fs::read_to_string(dir.path().join("aether-7/rounds.csv")).unwrap();
    assert!(rounds.starts_with("round,") && rounds.lines().any(|line| line.starts_with("5,64,")), "{rounds}");
    let claims = fs::read_to_string(dir.path().join("report.csv")).unwrap();
    assert!(claims.lines().any(|line| line.starts_with("aether,7,") && line.contains("35 %")), "{claims}");
    assert!(!dir.path().join("work").exists());
}

#[test]
fn what_is_measured_is_kept_and_what_was_cut_is_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    reproduce(dir.path(), "aether --figure 7 --quick").expect(0);
    let (done, rows) = (dir.path().join("aether-7/done.json"), dir.path().join("aether-7/rows.csv"));
    // No run leaves such rows. They meet one criterion, so the report shows whether it was made
    // from these rows.
    fs::write(&rows, "threads,parallel-counter,serial,central-counter\n1,10,9.5,10\n64,100,1,99\n").unwrap();
    let before = contents(dir.path());
    let out = reproduce(dir.path(), "aether --figure 7 --quick").expect(0);
    assert!(out.contains("`marks` loses 1 %"), "{out}");
    assert_eq!(contents(&dir.path().join("aether-7")).len(), before.len() - 2);
    let said = fs::read(&done).unwrap();
    fs::write(&done, &said[..said.len() - 10]).unwrap();
    let out = reproduce(dir.path(), "aether --figure 7 --quick").expect(0);
    assert!(!out.contains("`marks` loses 1 %"), "{out}");
    // Rows of a run with other arguments are not used.
    fs::write(&rows, "threads,parallel-counter,serial,central-counter\n1,10,9.5,10\n64,100,1,99\n").unwrap();
    let out = reproduce(dir.path(), "aether --figure 7").expect(0);
    assert!(!out.contains("`marks` loses 1 %"), "{out}");
}

fn signal(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn an_interrupted_run_leaves_a_report_that_says_how_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(["reproduce", "cicada", "--figure", "6,4", "--quick", "--out"]);
    let mut child = command.arg(dir.path()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    // After this line the first experiment is running.
    lines.find(|line| line.starts_with("reproduce:")).expect("it shows progress");
    signal(&child);
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{rest:?}");
    assert!(rest.iter().any(|line| line.contains("the same command goes on")), "{rest:?}");
    let page = fs::read_to_string(dir.path().join("report.html")).unwrap();
    assert!(page.contains("Not measured yet") && !page.contains("It failed"), "{page}");
    assert!(!dir.path().join("work").exists());
}

#[test]
fn what_there_is_is_listed_and_what_there_is_not_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let out = reproduce(dir.path(), "--list").expect(0);
    for name in [
        "aether-3",
        "aether-9-cores",
        "eleda-8-9",
        "eleda-18",
        "flushing-6",
        "flushing-table-1",
        "cicada-5",
        "Not run:",
    ] {
        assert!(out.contains(name), "{out}");
    }
    reproduce(dir.path(), "spanner").expect_error(2, "there are aether, eleda, flushing");
    reproduce(dir.path(), "aether --figure 99").expect_error(2, "there are 2, 3, 4, 5");
    reproduce(dir.path(), "--figure 3").expect_error(2, "PAPER");
    assert_eq!(contents(dir.path()).len(), 0);
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    reproduce(&file, "aether --figure 7 --quick").expect_error(1, "cannot create");
}
