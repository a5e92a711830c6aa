//! Completions and manual pages of every command. The programs that read them accept them.

use crate::program::run;
use std::fs;
use std::process::Command;

/// Returns the words of every command in the help, the program itself first.
fn commands() -> Vec<Vec<String>> {
    let mut found = vec![vec![]];
    let mut next = 0;
    while let Some(words) = found.get(next).cloned() {
        next += 1;
        let help = run(words.iter().map(String::as_str).chain(["--help"])).expect(0);
        let listed =
            help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = listed
            .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
        for name in names.filter(|name| *name != "help") {
            found.push(words.iter().cloned().chain([name.to_owned()]).collect());
        }
    }
    assert!(found.len() > 30, "{found:?}");
    found
}

#[test]
fn every_command_has_a_page_and_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    run(["man", "--out", folder.path().to_str().unwrap()]).expect(0);
    let shells = ["bash", "zsh", "fish", "elvish", "powershell"];
    let scripts = shells.map(|shell| run(["completions", shell]).expect(0));
    for words in commands() {
        let name = ["katydid".to_owned()].iter().chain(&words).cloned().collect::<Vec<_>>().join("-");
        let written = fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(&name);
        let printed = run(["man".to_owned()].iter().chain(&words)).expect(0);
        for page in [&written, &printed] {
            let escaped = name.replace('-', "\\-");
            assert!(page.contains(".TH ") && page.contains(&escaped), "{name}:\n{page}");
        }
        for (shell, script) in shells.iter().zip(&scripts) {
            assert!(words.iter().all(|word| script.contains(word)), "{name} in {shell}");
        }
    }
    run(["man", "lab", "nothing"]).expect_error(2, "katydid lab has no command \"nothing\"");
    run(["man", "--out", "/nowhere/at/all"]).expect_error(1, "/nowhere/at/all");
    run(["completions", "cmd"]).expect(2);
}

#[test]
fn bash_completes_commands_and_flags() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("katydid");
    fs::write(&script, run(["completions", "bash"]).expect(0)).unwrap();
    for (typed, expected) in [("ver", "verify"), ("lab repro", "reproduce"), ("scan --rev", "--reverse")] {
        let (words, last) = (typed.split(' ').count(), typed.split(' ').next_back().unwrap());
        let program = format!(
            "source {}; COMP_WORDS=(katydid {typed}); COMP_CWORD={words}; _katydid katydid {last} katydid; echo ${{COMPREPLY[*]}}",
            script.display()
        );
        let done = Command::new("bash").args(["--norc", "-c", &program]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), expected, "{typed}: {done:?}");
    }
}

#[test]
fn research_commands_stand_under_lab_and_answer_to_their_old_names() {
    let help = run(["--help"]).expect(0);
    let shown = |name: &str| help.lines().any(|line| line.starts_with(&format!("  {name} ")));
    assert!(shown("lab") && shown("bench") && !shown("manycore") && !shown("reproduce"), "{help}");
    let help = run(["bench", "--help"]).expect(0);
    assert!(
        help.contains("  ycsb ") && !help.contains("  commit ") && !help.contains("  log-insert "),
        "{help}"
    );
    let run_once = "manycore run --machine aether --inserter mutex --threads 2 --millis 0.1";
    let new = run("lab ".split(' ').filter(|word| !word.is_empty()).chain(run_once.split(' '))).expect(0);
    assert_eq!(new, run(run_once.split(' ')).expect(0));
    assert_eq!(run(["lab", "reproduce", "--list"]).expect(0), run(["reproduce", "--list"]).expect(0));
    for name in ["commit", "cicada", "nvram", "log-commit", "log-insert"] {
        let flags = |group: &str| {
            let help = run([group, name, "--help"]).expect(0);
            help.lines().filter(|line| !line.starts_with("Usage:")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(flags("lab"), flags("bench"));
    }
}
