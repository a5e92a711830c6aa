//! The socket of an open database, used by clients: good ones, hostile ones, and ones that
//! disconnect.

use katydid::{AdvancedOptions, Database, EngineKind, LogOptions, Options, Table};
use katydid_observe::{
    AskError, Bytes, ChangesBegin, Client, Committed, CommittedChange, ConnectError, ConsumerName, OpenError,
    Refusal, Reply, Request, SOCKET_NAME, Socket,
};
use std::fs;
use std::io::Write;
use std::num::NonZeroU64;
use std::ops::Bound;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc;
use tempfile::TempDir;

const ENGINES: [EngineKind; 2] = [EngineKind::Paged, EngineKind::Memory];
/// Number of rows, more than fit into one reply.
const ROWS: u64 = 2500;

fn options(engine: EngineKind) -> Options {
    let log = LogOptions {
        medium: katydid::FileOptions { segment_bytes: 1 << 20, ..katydid::FileOptions::default() }.into(),
        reserve_bytes: 64 << 10,
        ..LogOptions::default()
    };
    Options {
        engine: engine.into(),
        advanced: AdvancedOptions { log, ..AdvancedOptions::default() },
        ..Options::default()
    }
}

fn filled(engine: EngineKind, path: &Path) -> (Database, Table) {
    let database = Database::open_with(path, options(engine)).unwrap();
    let table = database.table("t").unwrap();
    database
        .transact(|txn| (0..ROWS).try_for_each(|number| txn.put(&table, key(number), number.to_string())))
        .unwrap();
    (database, table)
}

fn key(number: u64) -> String {
    format!("{number:06}")
}

fn opened(path: &Path) -> (Database, Socket) {
    let (database, _) = filled(EngineKind::Paged, path);
    let socket = Socket::open(&database, path).unwrap();
    (database, socket)
}

const ALL: (Bound<Bytes>, Bound<Bytes>) = (Bound::Unbounded, Bound::Unbounded);

fn scan(keys: (Bound<Bytes>, Bound<Bytes>), reverse: bool, limit: u64) -> Request {
    Request::Scan { table: "t".into(), keys, reverse, limit }
}

fn rows(reply: Reply) -> (Vec<(Bytes, Bytes)>, bool) {
    match reply {
        Reply::Rows { rows, more } => (rows, more),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_running_database_is_read_while_it_is_written() {
    for engine in ENGINES {
        let folder = TempDir::new().unwrap();
        let (database, table) = filled(engine, folder.path());
        let socket = Socket::open(&database, folder.path()).unwrap();
        let mut client = Client::connect(folder.path()).unwrap();
        assert_eq!(client.ask(&Request::Tables).unwrap(), Reply::Tables(vec!["t".into()]));
        let get = |key: &str| Request::Get { table: "t".into(), key: key.into() };
        assert_eq!(client.ask(&get("000007")).unwrap(), Reply::Value(Some("7".into())));
        database.put(&table, "000007", b"\xff\x00").unwrap();
        assert_eq!(client.ask(&get("000007")).unwrap(), Reply::Value(Some(b"\xff\x00".to_vec().into())));
        assert_eq!(client.ask(&get("none")).unwrap(), Reply::Value(None));

        let (mut all, mut keys) = (Vec::new(), ALL);
        loop {
            let (rows, more) = rows(client.ask(&scan(keys.clone(), false, u64::MAX)).unwrap());
            all.extend(rows);
            if !more {
                break;
            }
            keys.0 = Bound::Excluded(all.last().unwrap().0.clone());
        }
        let found: Vec<_> = all.iter().map(|(key, _)| String::from_utf8(key.0.clone()).unwrap()).collect();
        assert_eq!(found, (0..ROWS).map(key).collect::<Vec<_>>());
        let (last, more) = rows(client.ask(&scan(ALL, true, 2)).unwrap());
        assert_eq!((last[0].0.clone(), last.len(), more), (key(ROWS - 1).into(), 2, true));
        let count =
            Request::Count { table: "t".into(), keys: (Bound::Unbounded, Bound::Excluded("000100".into())) };
        assert_eq!(client.ask(&count).unwrap(), Reply::Count { count: 100, last: None });
        let Reply::Stat(stat) = client.ask(&Request::Stat).unwrap() else { panic!("no stat") };
        assert_eq!((&stat["engine"], &stat["tables"]), (&engine.to_string().into(), &1.into()));
        assert!(stat["commits"].as_u64().unwrap() >= 2, "{stat}");
        let missing = client.ask(&Request::Get { table: "u".into(), key: "k".into() });
        assert!(matches!(missing, Err(AskError::Refused(Refusal::NoTable(name))) if name == "u"));
        drop((client, socket));
        database.close().unwrap();
    }
}

#[test]
fn no_request_breaks_anything() {
    for engine in ENGINES {
        let folder = TempDir::new().unwrap();
        let (database, _table) = filled(engine, folder.path());
        let _socket = Socket::open(&database, folder.path()).unwrap();
        let mut client = Client::connect(folder.path()).unwrap();
        let bounds = [
            Bound::Unbounded,
            Bound::Included("000005".into()),
            Bound::Excluded("000005".into()),
            Bound::Included("000002".into()),
            Bound::Excluded(Bytes(vec![0xff; 5000])),
        ];
        for low in &bounds {
            for high in &bounds {
                for reverse in [false, true] {
                    let keys = (low.clone(), high.clone());
                    // The request may be refused, but the connection must not end.
                    match client.ask(&scan(keys.clone(), reverse, 3)) {
                        Ok(_) | Err(AskError::Refused(_)) => {}
                        Err(error) => panic!("{keys:?}: {error}"),
                    }
                    match client.ask(&Request::Count { table: "t".into(), keys }) {
                        Ok(_) | Err(AskError::Refused(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
        let (none, more) = rows(client.ask(&scan(ALL, false, 0)).unwrap());
        assert_eq!((none.len(), more), (0, true));
        let long = Request::Get { table: "t".into(), key: vec![0; 3000].into() };
        assert!(matches!(client.ask(&long), Err(AskError::Refused(Refusal::Failed(_)))));
        // The request is longer than allowed: its connection ends, and no other.
        let endless = Request::Get { table: "t".into(), key: vec![0; 100_000].into() };
        assert!(matches!(client.ask(&endless), Err(AskError::Io(_) | AskError::Ended)));
        Client::connect(folder.path()).unwrap().ask(&Request::Tables).unwrap();
    }
}

#[test]
fn hostile_clients_hold_nobody_up() {
    let folder = TempDir::new().unwrap();
    let (database, socket) = opened(folder.path());
    let table = database.table("t").unwrap();
    database.put(&table, "large", vec![7; 4 << 20]).unwrap();
    let raw = || UnixStream::connect(folder.path().join(SOCKET_NAME)).unwrap();
    // One client sends nothing, one only begins a frame, several send nonsense, and one does not
    // read its reply.
    let silent = raw();
    let mut begun = raw();
    begun.write_all(&[9, 0]).unwrap();
    for nonsense in [&b"\xff\xff\xff\xff"[..], b"GET / HTTP/1.1\r\n\r\n", b"\x02\x00\x00\x00[]", b"\0\0\0\0"]
    {
        raw().write_all(nonsense).unwrap();
    }
    let mut deaf = raw();
    let request = br#"{"protocol":1,"body":{"get":{"table":"t","key":"6c61726765"}}}"#;
    for _ in 0..4 {
        deaf.write_all(&(request.len() as u32).to_le_bytes()).unwrap();
        deaf.write_all(request).unwrap();
    }
    database.put(&table, "large", "small").unwrap();
    let mut client = connected(folder.path());
    assert_eq!(client.ask(&Request::Tables).unwrap(), Reply::Tables(vec!["t".into()]));
    // These clients are still connected, but do not delay closing the socket and the database.
    drop(socket);
    database.close().unwrap();
    drop((silent, begun, deaf));
}

/// Connects until a client is served. Threads of disconnected clients may still be ending.
fn connected(path: &Path) -> Client {
    loop {
        let mut client = Client::connect(path).unwrap();
        match client.ask(&Request::Tables) {
            Ok(_) => return client,
            Err(AskError::Refused(Refusal::Busy(_))) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn too_many_clients_are_refused() {
    let folder = TempDir::new().unwrap();
    let (_database, _socket) = opened(folder.path());
    let mut served: Vec<Client> = (0..8).map(|_| connected(folder.path())).collect();
    let refused = Client::connect(folder.path()).unwrap().ask(&Request::Tables);
    assert!(matches!(refused, Err(AskError::Refused(Refusal::Busy(8)))), "{refused:?}");
    served[0].ask(&Request::Stat).unwrap();
    served.pop();
    connected(folder.path());
}

#[test]
fn another_protocol_is_refused_with_its_number() {
    let folder = TempDir::new().unwrap();
    let (_database, _socket) = opened(folder.path());
    let mut stream = UnixStream::connect(folder.path().join(SOCKET_NAME)).unwrap();
    let request = br#"{"protocol":7,"question":"?"}"#;
    stream.write_all(&(request.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(request).unwrap();
    let mut reply = vec![0; 200];
    let count = std::io::Read::read(&mut stream, &mut reply).unwrap();
    let reply = String::from_utf8_lossy(&reply[4..count]).into_owned();
    assert_eq!(reply, r#"{"protocol":1,"body":{"refused":{"protocol":7}}}"#);
}

#[test]
fn the_file_is_the_owners_and_goes_with_the_socket() {
    let folder = TempDir::new().unwrap();
    let (database, socket) = opened(folder.path());
    let path = folder.path().join(SOCKET_NAME);
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let second = Socket::open(&database, folder.path());
    assert!(matches!(second, Err(OpenError::InUse(_))), "{second:?}");
    Client::connect(folder.path()).unwrap().ask(&Request::Tables).unwrap();
    drop(socket);
    assert!(!path.exists());
    assert!(matches!(Client::connect(folder.path()), Err(ConnectError::NoSocket)));
    // The socket has no handle any more, so dropping the last handle closes the database.
    drop(database);
    Database::open_with(folder.path(), options(EngineKind::Paged)).unwrap().close().unwrap();
}

#[test]
fn a_socket_that_a_crash_has_left_is_replaced() {
    let folder = TempDir::new().unwrap();
    drop(UnixListener::bind(folder.path().join("left")).unwrap());
    let (database, socket) = opened(folder.path());
    drop(socket);
    fs::rename(folder.path().join("left"), folder.path().join(SOCKET_NAME)).unwrap();
    assert!(matches!(Client::connect(folder.path()), Err(ConnectError::NoSocket)));
    let socket = Socket::open(&database, folder.path()).unwrap();
    Client::connect(folder.path()).unwrap().ask(&Request::Stat).unwrap();
    // A socket that has replaced this one belongs to another opening, and stays.
    let path = folder.path().join(SOCKET_NAME);
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(socket);
    assert!(path.exists());
    drop(other);
}

#[test]
fn a_path_may_be_longer_than_the_name_of_a_socket() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&path).unwrap();
    let (_database, _socket) = opened(&path);
    assert!(path.join(SOCKET_NAME).exists());
    Client::connect(&path).unwrap().ask(&Request::Tables).unwrap();
}

#[test]
fn a_request_holds_no_lock_after_its_reply() {
    let folder = TempDir::new().unwrap();
    let (database, socket) = opened(folder.path());
    let table = database.table("t").unwrap();
    let mut client = Client::connect(folder.path()).unwrap();
    client.ask(&scan(ALL, false, u64::MAX)).unwrap();
    // The idle client has no open transaction, so this commit does not wait for it.
    let txn = database.begin().unwrap();
    (0..ROWS).for_each(|number| txn.put(&table, key(number), "new").unwrap());
    txn.commit().unwrap();
    // A request that waits for a lock is answered when the lock is released.
    let txn = database.begin().unwrap();
    txn.put(&table, key(3), "newer").unwrap();
    let (sender, asked) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        sender.send(()).unwrap();
        client.ask(&Request::Get { table: "t".into(), key: key(3).into() }).unwrap()
    });
    asked.recv().unwrap();
    txn.commit().unwrap();
    let seen = reader.join().unwrap();
    assert!(
        seen == Reply::Value(Some("newer".into())) || seen == Reply::Value(Some("new".into())),
        "{seen:?}"
    );
    drop(socket);
}

#[test]
fn stat_tells_what_a_transaction_waits_for() {
    let folder = TempDir::new().unwrap();
    let (database, socket) = opened(folder.path());
    let table = database.table("t").unwrap();
    let mut client = Client::connect(folder.path()).unwrap();
    let mut stat = || match client.ask(&Request::Stat).unwrap() {
        Reply::Stat(stat) => stat,
        other => panic!("{other:?}"),
    };
    let (holder, waiter) = (database.begin().unwrap(), database.begin().unwrap());
    holder.put(&table, key(1), "one").unwrap();
    let (held, waits) = (holder.id().get(), waiter.id().get());
    std::thread::scope(|scope| {
        let table = &table;
        let waiting = scope.spawn(move || waiter.put(table, key(1), "other").unwrap());
        let seen = loop {
            let seen = stat();
            if seen["transactions_waiting"] == 1 {
                break seen;
            }
        };
        let wait = &seen["waits"][0];
        assert_eq!((&wait["txn"], &wait["blockers"][0]), (&waits.into(), &held.into()), "{seen}");
        assert_eq!(wait["wanted"], "key \"000001\" of table \"t\"");
        assert!(wait["blocker_age_us"].is_u64(), "{seen}");
        let open = seen["oldest_transactions"].as_array().unwrap();
        let waits_for = |txn: u64| &open.iter().find(|open| open["txn"] == txn).unwrap()["waits_for"];
        assert_eq!((waits_for(waits), waits_for(held)), (&wait["wanted"], &serde_json::Value::Null));
        holder.commit().unwrap();
        waiting.join().unwrap();
    });
    let seen = stat();
    assert_eq!((&seen["transactions_waiting"], &seen["wait_time_us"]["count"]), (&0.into(), &1.into()));
    drop(socket);
}

fn begin(from: &str, consumer: Option<&str>) -> Option<ChangesBegin> {
    let consumer = consumer.map(|name| ConsumerName { name: name.to_owned(), keep: 1 << 30 });
    Some(ChangesBegin { from: from.to_owned(), consumer, old: false })
}

fn next(begin: Option<ChangesBegin>, acknowledge: bool, wait: bool) -> Request {
    Request::Changes { begin, acknowledge, wait, limit: u64::MAX }
}

fn changes(client: &mut Client, request: &Request) -> Vec<Committed> {
    match client.ask(request).unwrap() {
        Reply::Changes(changes) => changes,
        other => panic!("{other:?}"),
    }
}

fn keys_of(changes: &[Committed]) -> Vec<String> {
    let rows = changes.iter().flat_map(|transaction| &transaction.changes);
    let keys = rows.filter_map(|change| match change {
        CommittedChange::Row { key, .. } => Some(String::from_utf8(key.0.clone()).unwrap()),
        _ => None,
    });
    keys.collect()
}

#[test]
fn changes_are_returned_as_they_are_committed() {
    for engine in ENGINES {
        let folder = TempDir::new().unwrap();
        let (database, table) = filled(engine, folder.path());
        let socket = Socket::open(&database, folder.path()).unwrap();
        let mut client = Client::connect(folder.path()).unwrap();
        let none = client.ask(&next(None, false, false));
        assert!(matches!(none, Err(AskError::Refused(Refusal::Request(_)))), "{none:?}");
        assert_eq!(changes(&mut client, &next(begin("now", None), false, false)), []);
        let waiting = std::thread::spawn(move || {
            let seen = changes(&mut client, &next(None, false, true));
            (client, seen)
        });
        database.put(&table, "first", "1").unwrap();
        let (mut client, seen) = waiting.join().unwrap();
        assert_eq!((keys_of(&seen), seen[0].more), (vec!["first".to_owned()], false), "{engine}");
        database.put(&table, "second", "2").unwrap();
        assert_eq!(keys_of(&changes(&mut client, &next(None, false, false))), ["second"]);
        // Another connection continues at a position.
        let mut other = Client::connect(folder.path()).unwrap();
        let position = begin(&seen[0].position, None);
        assert_eq!(keys_of(&changes(&mut other, &next(position, false, false))), ["second"]);
        let bad = client.ask(&next(begin("nowhere", None), false, false));
        assert!(matches!(bad, Err(AskError::Refused(Refusal::Failed(_)))), "{bad:?}");
        drop((client, other, socket));
        database.close().unwrap();
    }
}

#[test]
fn a_consumer_goes_on_after_what_a_client_has_acknowledged() {
    let folder = TempDir::new().unwrap();
    let (database, table) = filled(EngineKind::Paged, folder.path());
    let socket = Socket::open(&database, folder.path()).unwrap();
    let connected = || Client::connect(folder.path()).unwrap();
    let mut client = connected();
    assert_eq!(changes(&mut client, &next(begin("now", Some("outbox")), false, false)), []);
    database.put(&table, "first", "1").unwrap();
    assert_eq!(keys_of(&changes(&mut client, &next(None, false, false))), ["first"]);
    // The client disconnects without an acknowledgement.
    let mut client = connected();
    let outbox = || begin("oldest", Some("outbox"));
    assert_eq!(keys_of(&changes(&mut client, &next(outbox(), false, false))), ["first"]);
    database.put(&table, "second", "2").unwrap();
    assert_eq!(keys_of(&changes(&mut client, &next(None, true, false))), ["second"]);
    let mut client = connected();
    assert_eq!(keys_of(&changes(&mut client, &next(outbox(), false, false))), ["second"]);
    drop((client, socket));
    database.close().unwrap();
}

#[test]
fn a_transaction_too_large_for_a_reply_comes_in_parts_and_is_acknowledged_as_a_whole() {
    let folder = TempDir::new().unwrap();
    let (database, table) = filled(EngineKind::Paged, folder.path());
    let socket = Socket::open(&database, folder.path()).unwrap();
    let mut client = Client::connect(folder.path()).unwrap();
    changes(&mut client, &next(begin("now", Some("outbox")), false, false));
    let value = vec![b'v'; 100_000];
    database.transact(|txn| (0..40).try_for_each(|number| txn.put(&table, key(number), &value))).unwrap();
    let first = changes(&mut client, &next(None, false, false));
    assert!(first.len() == 1 && first[0].more && first[0].changes.len() < 40, "{}", first[0].changes.len());
    let early = client.ask(&next(None, true, false));
    assert!(matches!(early, Err(AskError::Refused(Refusal::Request(_)))), "{early:?}");
    let mut keys = keys_of(&first);
    loop {
        let parts = changes(&mut client, &next(None, false, true));
        keys.extend(keys_of(&parts));
        if !parts.last().unwrap().more {
            break;
        }
    }
    assert_eq!(keys, (0..40).map(key).collect::<Vec<_>>());
    assert_eq!(changes(&mut client, &next(None, true, false)), []);
    drop((client, socket));
    database.close().unwrap();
}

#[test]
fn a_client_that_waits_for_changes_keeps_neither_the_socket_nor_the_database_open() {
    for closes_socket in [true, false] {
        let folder = TempDir::new().unwrap();
        let (database, socket) = opened(folder.path());
        let mut client = Client::connect(folder.path()).unwrap();
        changes(&mut client, &next(begin("now", None), false, false));
        let waiting = std::thread::spawn(move || client.ask(&next(None, false, true)));
        if closes_socket {
            drop(socket);
            database.close().unwrap();
            let ended = waiting.join().unwrap();
            assert!(matches!(ended, Err(AskError::Ended)), "{ended:?}");
        } else {
            database.close().unwrap();
            let closed = waiting.join().unwrap();
            assert!(matches!(closed, Err(AskError::Refused(Refusal::Closed))), "{closed:?}");
            drop(socket);
        }
    }
}

#[test]
fn the_owner_copies_its_database_for_a_client() {
    for engine in ENGINES {
        let (folder, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (database, _) = filled(engine, folder.path());
        let socket = Socket::open(&database, folder.path()).unwrap();
        let mut client = Client::connect(folder.path()).unwrap();
        let path = |name: &str| copies.path().join(name).to_str().unwrap().as_bytes().to_vec();
        let copy = |to: Vec<u8>, rate: u64| Request::Backup {
            to: to.into(),
            base: None,
            bytes_per_second: NonZeroU64::new(rate),
        };
        let relative = client.ask(&copy(b"copy".to_vec(), 0));
        assert!(matches!(relative, Err(AskError::Refused(Refusal::Request(_)))), "{relative:?}");
        let Reply::Copied { bytes, .. } = client.ask(&copy(path("whole"), 0)).unwrap() else {
            panic!("not copied")
        };
        assert!(bytes > 0);
        assert!(Database::verify_path(copies.path().join("whole"), None).unwrap().is_sound());
        // At this rate the copy takes very long. The client gets progress messages, and stops the
        // copy.
        let (stopper, mut messages) = (client.stopper().unwrap(), 0);
        let stopped = client.ask_with_progress(&copy(path("stopped"), 1), |done, of| {
            assert!(done <= of, "{done} of {of}");
            messages += 1;
            stopper.stop();
        });
        assert!(matches!(stopped, Err(AskError::Refused(Refusal::Failed(_)))), "{stopped:?}");
        assert!(messages >= 1, "{messages}");
        let incomplete = Database::open_read_only(copies.path().join("stopped"));
        assert!(matches!(incomplete, Err(katydid::Error::Copy { .. })), "{incomplete:?}");
        // Closing the socket also stops a copy.
        let mut gone = Client::connect(folder.path()).unwrap();
        let (begun, begins) = mpsc::channel();
        let request = copy(path("ended"), 1);
        let waiting = std::thread::spawn(move || {
            gone.ask_with_progress(&request, |_, _| {
                let _only_once = begun.send(());
            })
        });
        begins.recv().unwrap();
        drop(socket);
        assert!(waiting.join().unwrap().is_err());
        database.close().unwrap();
    }
}
