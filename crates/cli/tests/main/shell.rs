//! `shell` with standard input: transactions of several commands, and errors.

use crate::program::{run_in, run_unread, run_with_input};

#[test]
fn several_commands_are_one_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let input = b"put fruit apple red\nbegin\nput fruit pear \"light green\"\nget fruit pear\nput fruit apple \\xff\nrollback\n\
        get fruit apple\nbegin\nput fruit pear green\ndelete fruit apple\nput fruit fig \"\"\ncommit\nscan fruit\ncount fruit p\ntables\nquit\nput fruit late x\n";
    let out = run_with_input(dir.path(), "shell --segment 4MiB", input).expect(0);
    assert_eq!(out, "light green\nred\nfig\t\npear\tgreen\n1\nfruit\n");
    assert_eq!(run_in(dir.path(), "scan fruit").expect(0), "fig\t\npear\tgreen\n");
    // A transaction that is open at the end is rolled back.
    let done = run_with_input(dir.path(), "shell", b"begin\nput fruit fig blue\n");
    assert!(done.err.contains("the open transaction was rolled back"), "{}", done.err);
    done.expect(0);
    assert_eq!(run_in(dir.path(), "get fruit fig").expect(0), "fig\t\n");
}

#[test]
fn a_failed_line_is_reported_and_the_other_lines_run() {
    let dir = tempfile::tempdir().unwrap();
    let input = b"put t k v\nget t none\nget u k\nfrob\nput t k\nput t \"open\ncommit\nbegin\nbegin\ncommit x\ncommit\nget t k\nstat\nexit now\nhelp\n";
    let done = run_with_input(dir.path(), "shell --segment 4MiB", input);
    let expected = [
        "key \"none\" is not in table \"t\"",
        "there is no table \"u\"; there are: t",
        "there is no command \"frob\"",
        "put takes the arguments TABLE KEY VALUE; the line has 2",
        "a quote is left open",
        "no transaction is open",
        "a transaction is open already",
        "commit takes no arguments",
        "exit takes no arguments",
    ];
    let lines: Vec<&str> = done.err.lines().filter(|line| line.starts_with("katydid: ")).collect();
    assert_eq!(lines.len(), expected.len(), "{}", done.err);
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.contains(expected), "{line}");
    }
    assert!(
        done.out.starts_with("v\ntables              1\n")
            && done.out.contains("commit                     commit the open transaction\n"),
        "{}",
        done.out
    );
    done.expect(1);
}

/// The engines create tables in transactions of their own, so a rollback could not undo a creation.
#[test]
fn a_transaction_creates_no_table() {
    for engine in ["paged", "memory"] {
        let dir = tempfile::tempdir().unwrap();
        let input = b"begin\nput fruit apple red\ntables\ncreate fruit\nput fruit apple green\nrollback\ncount fruit\n\
            begin\nput fruit apple blue\ncommit\ncreate fruit\nput nuts hazel brown\nscan fruit\ntables\n";
        let done = run_with_input(dir.path(), &format!("shell --segment 4MiB --engine {engine}"), input);
        let lines: Vec<&str> = done.err.lines().filter(|line| line.starts_with("katydid: ")).collect();
        let refused = "katydid: there is no table \"fruit\", and put creates no table in a transaction; first run: create \"fruit\"";
        assert_eq!(lines, [refused]);
        assert_eq!(done.expect(1), "0\napple\tblue\nfruit\nnuts\n");
    }
}

/// The reader of the output may end before the shell has run all commands.
#[test]
fn commands_that_are_not_run_because_no_program_reads_are_no_success() {
    let dir = tempfile::tempdir().unwrap();
    run_in(dir.path(), "put t a 1").expect(0);
    run_unread(dir.path(), "shell", b"put t b 2\nget t a\nput t c 3\n")
        .expect_error(1, "no program reads the output; the shell ended at line 2 of its input");
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "a\t1\nb\t2\n");
    // A shell whose commands print nothing needs no reader.
    run_unread(dir.path(), "shell", b"put t c 3\n").expect(0);
}

#[test]
fn the_lines_of_a_shell_are_bytes_of_bounded_number() {
    let dir = tempfile::tempdir().unwrap();
    let done = run_with_input(dir.path(), "shell --segment 4MiB", b"put t \xff 1\nput t b \xe9\n");
    done.expect(0);
    assert_eq!(run_in(dir.path(), "scan t").expect(0), "b\t\\xe9\n\\xff\t1\n");
    // This line is longer than any command.
    let mut input = b"put t c 2\nput t d ".to_vec();
    input.resize(input.len() + (97 << 20), b'v');
    run_with_input(dir.path(), "shell", &input).expect_error(1, "standard input: line 2: it is longer than");
    assert_eq!(run_in(dir.path(), "count t").expect(0), "3\n");
}
