//! `replica`: the demonstration, one replica from configuration to shutdown, and the output of its
//! clients.

use crate::program::{Done, closed_pipe, collected, command, in_repository, run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Child;

#[test]
fn a_killed_leader_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let file = in_repository("docs/recovery.md");
    let words = "replica demo --json --clients 4 --dir";
    let group = dir.path().join("group");
    let out = run(words.split(' ').chain([group.to_str().unwrap(), file.to_str().unwrap()])).expect(0);
    let report: Value = serde_json::from_str(&out).unwrap();
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty()).count() as u64;
    assert_eq!(report["acknowledged"].as_u64(), Some(lines), "{report}");
    assert_eq!(report["missing"].as_u64(), Some(0), "{report}");
    assert!(report["acknowledged_at_kill"].as_u64().is_some_and(|count| count < lines), "{report}");
    assert!(report["killed"].is_u64() && report["leader"].is_u64(), "{report}");
    run(words.split(' ').chain([group.to_str().unwrap()])).expect_error(1, "exists already");
}

/// The process of a replica.
struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Running {
    fn start(config: &Path) -> Running {
        let mut child = command(["replica", "--config", config.to_str().unwrap()]).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let Some((_, address)) = line.trim_end().split_once(" listens at ") else {
            panic!("{line:?}, {:?}", collected(child.wait_with_output().unwrap()).err);
        };
        let address = address.to_owned();
        Running { child, out, address }
    }

    /// Sends a signal, and waits for the end of the process. Returns its last line.
    fn end(mut self, signal: rustix::process::Signal) -> String {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
        let mut last = String::new();
        self.out.read_line(&mut last).unwrap();
        assert!(self.child.wait().unwrap().success());
        last
    }
}

impl Drop for Running {
    /// Kills the process, so that a test that fails leaves no replica behind.
    fn drop(&mut self) {
        // Errors are ignored, because the test may be failing already.
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn configure(dir: &Path, listen: &str) -> PathBuf {
    let file = dir.join("replica.toml");
    let text = format!(
        "cluster = \"{:032x}\"\nid = 5\nfolder = \"replica-5\"\nlisten = \"{listen}\"\ncache = \"4MiB\"\n",
        77
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// Starts replica `id` in a folder of its own below `dir`. `more` is added to its configuration.
fn start_member(dir: &Path, id: u64, more: &str) -> Running {
    let folder = dir.join(id.to_string());
    std::fs::create_dir(&folder).unwrap();
    let config = configure(&folder, "127.0.0.1:0");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("id = 5", &format!("id = {id}")) + more).unwrap();
    Running::start(&config)
}

#[test]
fn a_replica_serves_clients_until_a_signal_and_again_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), "127.0.0.1:0");
    let replica = Running::start(&config);
    let address = replica.address.clone();
    let config = configure(dir.path(), &address);
    let at = |words: &str| run(words.split(' ').chain(["--config", config.to_str().unwrap()]));
    at("replica status").expect_error(1, "no leader answers");
    assert_eq!(at(&format!("replica init 5={address}")).expect(0), "the group has 1 members\n");
    at(&format!("replica init 5={address}")).expect_error(1, "the members could not be changed");

    let lines = dir.path().join("fruit.tsv");
    std::fs::write(&lines, "apple\tred\nbanana\tyellow\nplum\tblue\n").unwrap();
    let loaded = at(&format!("replica load fruit {} --batch 2 --acks", lines.display())).expect(0);
    assert!(loaded.starts_with("acknowledged 2 lines\nacknowledged 3 lines\n"), "{loaded}");
    at("replica put --all fruit cherry dark\\x20red").expect(0);
    at("replica delete fruit plum").expect(0);
    assert_eq!(at("replica get fruit cherry").expect(0), "cherry\tdark red\n");
    at("replica get fruit plum").expect_error(1, "is not in table");
    let scanned = "apple\tred\nbanana\tyellow\ncherry\tdark red\n";
    assert_eq!(at("replica scan fruit").expect(0), scanned);
    assert_eq!(at("replica scan fruit --from b --to c").expect(0), "banana\tyellow\n");
    at("replica put katydid.replica applied x").expect_error(1, "reserved");
    at("replica voters 5 6").expect_error(1, "the members could not be changed");
    at("replica transfer 9").expect_error(1, "replica 9 is no voter");

    let status: Value = serde_json::from_str(&at("replica status --json").expect(0)).unwrap();
    assert_eq!((&status["role"], &status["id"]), (&"leader".into(), &5.into()), "{status}");
    assert_eq!((&status["lag"], &status["committed"]), (&0.into(), &status["last_index"]), "{status}");

    let other = dir.path().join("other.toml");
    std::fs::write(&other, format!("cluster = \"{:032x}\"\n", 78)).unwrap();
    let stranger = ["replica", "scan", "fruit", "--at", &address, "--config", other.to_str().unwrap()];
    run(stranger).expect_error(1, "it belongs to another cluster");

    assert_eq!(replica.end(rustix::process::Signal::TERM), "replica 5 is closed\n");
    let again = Running::start(&config);
    assert_eq!(again.address, address);
    assert_eq!(at("replica scan fruit").expect(0), scanned);
    let table = at("replica status").expect(0);
    assert!(table.lines().nth(1).is_some_and(|line| line.starts_with("5        leader")), "{table}");
    assert_eq!(again.end(rustix::process::Signal::INT), "replica 5 is closed\n");
    // A replica with another id cannot open the folder.
    let text = std::fs::read_to_string(&config).unwrap().replace("id = 5", "id = 6");
    std::fs::write(&config, text).unwrap();
    run(["replica", "--config", config.to_str().unwrap()]).expect_error(1, "belongs to replica 5 of cluster");
}

#[test]
fn a_faulty_configuration_is_refused_with_its_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("replica.toml");
    let config = file.to_str().unwrap();
    run(["replica", "--config", config]).expect_error(2, "replica.toml: cannot be read");
    std::fs::write(&file, "id = 1\nelection = \"1h30m\"\n").unwrap();
    run(["replica", "--config", config]).expect_error(2, "replica.toml, key \"cluster\": is missing");
    std::fs::write(&file, "cluster = \"00\"\n").unwrap();
    let wrong = "replica.toml, line 1, key \"cluster\": must be 32 hexadecimal digits";
    run(["replica", "--config", config]).expect_error(2, wrong);
    run(["replica", "scan", "t", "--config", config]).expect_error(2, wrong);
    run(["replica"]).expect(2);
    run(["replica", "scan", "t"]).expect(2);
    run(["replica", "init", "--at", "127.0.0.1:1", "one=127.0.0.1:1"]).expect_error(2, "expected a number");
}

#[test]
#[cfg(feature = "tls")]
fn a_replica_with_certificates_serves_only_clients_with_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), "127.0.0.1:0");
    let certificates = in_repository("crates/replica/tests/main/certificates");
    let tls = |name: &str, authority: &str| {
        let file = |name: &str, ending: &str| certificates.join(format!("{name}.{ending}"));
        let (certificate, key) = (file(name, "pem"), file(name, "key"));
        let authority = file(authority, "pem");
        format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nauthority = {authority:?}\n")
    };
    let text = std::fs::read_to_string(&config).unwrap() + &tls("member", "authority");
    std::fs::write(&config, text).unwrap();
    let replica = Running::start(&config);
    let client = dir.path().join("client.toml");
    let ask = |text: &str| {
        std::fs::write(&client, text).unwrap();
        run(["replica", "status", "--json", "--at", &replica.address, "--config", client.to_str().unwrap()])
    };
    let known = ask(&tls("member", "authority"));
    assert!(known.out.contains("\"role\":\"learner\""), "{known:?}");
    assert!(ask("").out.contains("error"), "without TLS");
    assert!(ask(&tls("stranger", "authority")).out.contains("error"), "of another authority");
    ask(&tls("none", "authority")).expect_error(1, "none.pem");
    replica.end(rustix::process::Signal::TERM);
}

#[test]
fn ycsb_drives_a_group_and_counts_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let replica = Running::start(&configure(dir.path(), "127.0.0.1:0"));
    let address = replica.address.clone();
    run(["replica", "init", "--at", &address, &format!("5={address}")]).expect(0);
    let report = dir.path().join("report.json");
    let ycsb = |words: &str| {
        let group =
            ["bench", "ycsb", "--threads", "2", "--replicas", &address, "--json", report.to_str().unwrap()];
        run(group.into_iter().chain(words.split(' ')))
    };
    let read = || -> Value { serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap() };

    let out = ycsb("--records 300 --operations 400").expect(0);
    assert!(
        out.contains("loaded 300 records") && out.contains("300 keys, as many as were acknowledged"),
        "{out}"
    );
    let report = read();
    assert_eq!((&report["transactions"], &report["check"]["keys"]), (&400.into(), &300.into()), "{report}");
    let (reads, commits) = (&report["reads"]["count"], &report["commits"]["count"]);
    assert_eq!(
        reads.as_u64().zip(commits.as_u64()).map(|(reads, commits)| reads + commits),
        Some(400),
        "{report}"
    );
    let options = &report["options"];
    assert_eq!((&options["replicated"], &options["leader"]), (&"quorum".into(), &5.into()), "{report}");

    // The run uses the records again. All of its inserts, of which many were in flight at once, are
    // there afterwards.
    let mix = "-p readproportion=0 -p updateproportion=0 -p scanproportion=0.1 -p insertproportion=0.9";
    let out = ycsb(&format!("--records 300 --operations 500 --in-flight 16 --all {mix}")).expect(0);
    assert!(out.contains("loaded by an earlier run"), "{out}");
    let report = read();
    let inserts = report["commits"]["count"].as_u64().unwrap();
    assert!(inserts > 300, "{report}");
    assert_eq!(report["check"]["keys"].as_u64(), Some(300 + inserts), "{report}");
    assert_eq!(report["options"]["replicated"], "all", "{report}");
    run(["replica", "delete", "--at", &address, "usertable", &first_key(&address)]).expect(0);
    ycsb("--records 300 --operations 1 -p readproportion=0 -p updateproportion=0 -p insertproportion=1")
        .expect_error(1, "were acknowledged: this is a bug");

    ycsb("--records 200").expect_error(1, "was loaded for other records");
    let out = ycsb("--records 20 --operations 20 --fresh").expect(0);
    assert!(out.contains("loaded 20 records") && out.contains("20 keys, as many as"), "{out}");
    ycsb("--records 20 --dir elsewhere").expect_error(2, "cannot be used with");
    ycsb("--records 20 --engine memory").expect_error(2, "cannot be used with");
    run(["bench", "ycsb", "--all"]).expect_error(2, "--replicas");
    replica.end(rustix::process::Signal::TERM);
}

#[test]
fn a_write_to_all_names_the_voters_that_lack_it_and_a_load_also_the_lines() {
    let dir = tempfile::tempdir().unwrap();
    let replicas = [1, 2].map(|id| start_member(dir.path(), id, ""));
    let addresses = replicas.each_ref().map(|replica| replica.address.as_str());
    // The third voter never runs.
    let members = [format!("1={}", addresses[0]), format!("2={}", addresses[1]), "3=127.0.0.1:1".to_owned()];
    run(["replica", "init", "--at", addresses[0]].into_iter().chain(members.each_ref().map(|it| &**it)))
        .expect(0);
    let at = addresses.join(",");
    let lines = dir.path().join("fruit.tsv");
    std::fs::write(&lines, "apple\tred\nbanana\tyellow\nplum\tblue\n").unwrap();
    let load = format!("load fruit {} --batch 2", lines.display());
    // If the machine is too slow for a majority to confirm in this time, the outcome is unknown,
    // and the test tries a longer time.
    let write = |words: &str| {
        let run = |wait| run(format!("replica {words} --at {at} --all --wait {wait}").split(' '));
        let is_unknown = |done: &Done| done.err.contains("is unknown");
        ["2s", "10s", "60s"].into_iter().map(run).find(|done| !is_unknown(done)).unwrap()
    };
    let put = write("put fruit fig green");
    assert!(put.err.contains("replica 3 did not confirm it in time"), "{put:?}");
    put.expect(1);
    let loaded = write(&load);
    let expected = format!("{}: lines 1 to 2: the write has committed as entry ", lines.display());
    assert!(loaded.err.contains(&expected), "{loaded:?}");
    let expected = "but replica 3 did not confirm it in time; 0 lines were acknowledged before";
    assert!(loaded.err.contains(expected), "{loaded:?}");
    assert!(loaded.expect(1).starts_with("acknowledged 0 lines"));
    let scanned = run(["replica", "scan", "--at", &at, "fruit"]).expect(0);
    assert_eq!(scanned, "apple\tred\nbanana\tyellow\nfig\tgreen\n");
    for replica in replicas {
        replica.end(rustix::process::Signal::TERM);
    }
}

/// Runs the program. No program reads its standard output.
fn run_unread(words: &str) -> Done {
    let mut command = command(words.split(' '));
    collected(command.stdout(closed_pipe()).output().unwrap())
}

#[test]
fn a_command_that_ends_early_is_no_success_if_its_output_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let config = configure(dir.path(), "127.0.0.1:0");
    let serve = format!("replica --config {}", config.display());
    run_unread(&serve).expect_error(1, "no program reads standard output, to which it prints its address");
    // The failed command closed the replica, so the replica can be started again. No leader
    // answers, because the replica belongs to no group yet.
    let replica = Running::start(&config);
    let status = format!("replica status --at {}", replica.address);
    run_unread(&status).expect_error(1, "no leader answers");
    // `init` makes the group, although no program reads its output.
    run_unread(&format!("replica init --at {0} 5={0}", replica.address)).expect(0);
    run(["replica", "put", "--at", &replica.address, "fruit", "fig", "green"]).expect(0);
    run_unread(&status).expect(0);
    replica.end(rustix::process::Signal::TERM);
    let demo = format!("replica demo --dir {}", dir.path().join("demo").display());
    run_unread(&demo).expect_error(1, "the demonstration ended early");
}

/// Returns the first key of the records.
fn first_key(address: &str) -> String {
    let out = run(["replica", "scan", "--at", address, "usertable"]).expect(0);
    out.split('\t').next().unwrap().to_owned()
}

/// SIGSTOP pauses the leader, as the migration of a virtual machine does, and the others elect a
/// new leader. After SIGCONT a read at the old leader must return the writes that were acknowledged
/// during the pause.
#[test]
fn a_leader_that_was_paused_does_not_answer_from_its_old_state() {
    use rustix::process::{Pid, Signal, kill_process};
    let dir = tempfile::tempdir().unwrap();
    let replicas = [1, 2, 3].map(|id| start_member(dir.path(), id, "election = \"300ms\"\n"));
    let members = (1..).zip(&replicas).map(|(id, replica)| format!("{id}={}", replica.address));
    let init = ["replica", "init", "--at", &replicas[0].address].map(str::to_owned);
    run(init.into_iter().chain(members)).expect(0);
    let at = |command: &str, addresses: &str, rest: &[&str]| {
        run(["replica", command, "--at", addresses].iter().chain(rest)).expect(0)
    };
    let all = replicas.each_ref().map(|replica| replica.address.as_str()).join(",");
    at("put", &all, &["fruit", "apple", "red"]);
    let status = at("status", &all, &["--json"]);
    let members: Vec<Value> = status.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let leader = members.iter().position(|member| member["role"] == "leader").unwrap();
    let paused = Pid::from_child(&replicas[leader].child);

    kill_process(paused, Signal::STOP).unwrap();
    let others: Vec<&str> =
        (0..3).filter(|at| *at != leader).map(|at| replicas[at].address.as_str()).collect();
    at("put", &others.join(","), &["fruit", "apple", "green"]);
    kill_process(paused, Signal::CONT).unwrap();
    assert_eq!(at("get", &replicas[leader].address, &["fruit", "apple"]), "apple\tgreen\n");
    let status = at("status", &all, &["--json"]);
    let terms = |status: &str| {
        status.lines().next().map(|line| serde_json::from_str::<Value>(line).unwrap()["term"].as_u64())
    };
    assert!(terms(&status) > Some(members[0]["term"].as_u64()), "{status}");
    at("put", &replicas[leader].address, &["fruit", "apple", "yellow"]);
    assert_eq!(at("get", &others.join(","), &["fruit", "apple"]), "apple\tyellow\n");
    for replica in replicas {
        replica.end(Signal::TERM);
    }
}
