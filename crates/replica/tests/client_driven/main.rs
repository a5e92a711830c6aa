//! The paper's replication, with servers in this process and real sockets.

mod proxy;

use katydid::{Database, Directory, EngineOptions, MemoryDirectory, MemoryOptions, PagedOptions, SyncKind};
use katydid_replica::client_driven::frame::{self, FrameError};
use katydid_replica::client_driven::{
    Action, AnswerTable, ClientId, Cluster, ClusterOptions, Error, Operation, Outcome, Refusal,
    ReplicaAnswer, Reply, Request, Server, ServerOptions, TransactionId, compare, paper_options,
};
use proxy::{Mode, Proxy};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

fn paged() -> EngineOptions {
    PagedOptions::default().into()
}

fn engines() -> [EngineOptions; 2] {
    [paged(), MemoryOptions { streams: 1, ..MemoryOptions::default() }.into()]
}

fn open(directory: &Arc<dyn Directory>, engine: EngineOptions) -> Database {
    Database::open_in(Arc::clone(directory), paper_options(engine, SyncKind::Slotted)).unwrap()
}

fn serve(database: Database, options: ServerOptions) -> Server {
    Server::start(database, TcpListener::bind("127.0.0.1:0").unwrap(), options).unwrap()
}

fn replica(engine: EngineOptions) -> Server {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    serve(open(&directory, engine), ServerOptions::default())
}

fn cluster(replicas: &[SocketAddr]) -> Cluster {
    Cluster::new(ClusterOptions::new(replicas.to_vec())).unwrap()
}

fn operation(key: &[u8], action: Action) -> Operation {
    Operation { table: "rows".to_owned(), key: key.to_vec(), action }
}

fn put(key: &str, value: &str) -> Vec<Operation> {
    vec![operation(key.as_bytes(), Action::Put(value.as_bytes().to_vec()))]
}

fn insert(key: &str, value: &str) -> Vec<Operation> {
    vec![operation(key.as_bytes(), Action::Insert(value.as_bytes().to_vec()))]
}

/// Sessions of one cluster write to a few shared keys, several in each transaction. Afterwards all
/// replicas are equal, although requests arrive in different orders.
#[test]
fn sessions_of_one_cluster_leave_equal_replicas() {
    const SESSIONS: u64 = 6;
    const EACH: u64 = 40;
    for engine in engines() {
        let replicas = [replica(engine), replica(engine), replica(engine)];
        let cluster = cluster(&replicas.each_ref().map(Server::address));
        std::thread::scope(|scope| {
            for number in 0..SESSIONS {
                let cluster = &cluster;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(number);
                    let mut session = cluster.session().unwrap();
                    for count in 0..EACH {
                        let mut operations: Vec<Operation> = (0..3)
                            .map(|_| {
                                let value = format!("{number} {count}").into_bytes();
                                operation(&[rng.u8(..4)], Action::Put(value))
                            })
                            .collect();
                        operations.push(operation(&[4 + number as u8], Action::Put(vec![count as u8])));
                        session.transact(operations).unwrap();
                    }
                    session.end().unwrap();
                });
            }
        });
        let mut session = cluster.session().unwrap();
        let equal = compare(&mut session).unwrap();
        assert_eq!(equal.len(), 1);
        assert_eq!(equal[0].rows, 4 + SESSIONS);
        assert_eq!(cluster.times().committed, SESSIONS * EACH);
        for (number, replica) in replicas.into_iter().enumerate() {
            let stat = session.stat(number).unwrap();
            assert_eq!((stat.committed, stat.refused, stat.repeated), (SESSIONS * EACH, 0, 0));
            assert!(
                stat.syncs > 0 && stat.locks > 0 && stat.slot_threads >= stat.slots && stat.server_ns > 0
            );
            replica.stop().unwrap();
        }
    }
}

/// One replica commits, and its answer is lost with the connection. The outcome is unknown: the
/// transaction's keys stay locked, and the session sends no other transaction. The replica answers
/// the retry with the same id from its table.
#[test]
fn a_lost_answer_leaves_the_outcome_unknown_and_a_retry_applies_once() {
    let replicas = [replica(paged()), replica(paged())];
    let proxy = Proxy::before(replicas[1].address());
    let cluster = cluster(&[replicas[0].address(), proxy.address]);
    let (mut session, mut other) = (cluster.session().unwrap(), cluster.session().unwrap());
    session.transact(put("a", "0")).unwrap();
    proxy.set(Mode::CutAnswers);
    let error = session.transact(insert("k", "1")).unwrap_err();
    let Error::Unknown { id, answers } = error else { panic!("{error}") };
    assert!(matches!(answers[..], [ReplicaAnswer::Committed { .. }, ReplicaAnswer::Missing(_)]));
    assert_eq!((id.client, id.sequence, session.unresolved()), (session.id(), 2, Some(id)));
    assert!(matches!(session.transact(put("b", "2")), Err(Error::Unresolved { id: of }) if of == id));
    assert!(matches!(session.resolve(), Err(Error::Unknown { .. })));
    proxy.set(Mode::Pass);
    assert!(matches!(other.transact(put("k", "3")), Err(Error::KeyUnknown { id: of }) if of == id));
    let committed = session.resolve().unwrap().unwrap();
    assert_eq!((committed.id, session.unresolved()), (id, None));
    other.transact(put("k", "3")).unwrap();
    compare(&mut session).unwrap();
    // A second run of the insert would have been refused.
    for replica in &replicas {
        let stat = replica.stat().unwrap();
        assert_eq!((stat.committed, stat.refused), (3, 0));
        assert!(stat.repeated >= 1);
    }
}

/// A replica stops after its answer was lost, and restarts from its log. It answers the retry and
/// does not run the transaction again.
#[test]
fn a_replica_that_restarts_answers_a_retry_from_its_durable_table() {
    for engine in engines() {
        let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
        let staying = replica(engine);
        let server = serve(open(&directory, engine), ServerOptions::default());
        let listener_of = |server: &Server| Proxy::before(server.address());
        let proxy = listener_of(&server);
        let address = server.address();
        let cluster = cluster(&[staying.address(), address]);
        let through = Cluster::new(ClusterOptions::new(vec![staying.address(), proxy.address])).unwrap();
        let mut session = through.session().unwrap();
        let mut operations = insert("k", "1");
        operations.push(operation(b"k", Action::Read));
        session.transact(put("a", "0")).unwrap();
        proxy.set(Mode::CutAnswers);
        assert!(matches!(session.transact(operations), Err(Error::Unknown { .. })));
        server.stop().unwrap();
        assert!(matches!(session.resolve(), Err(Error::Unknown { .. })));
        let server = Server::start(
            open(&directory, engine),
            TcpListener::bind(address).unwrap(),
            ServerOptions::default(),
        )
        .unwrap();
        proxy.set(Mode::Pass);
        let committed = session.resolve().unwrap().unwrap();
        assert_eq!(committed.found, [Some(b"1".to_vec())]);
        assert_eq!((server.stat().unwrap().committed, server.stat().unwrap().repeated), (0, 1));
        session.transact(put("b", "2")).unwrap();
        compare(&mut cluster.session().unwrap()).unwrap();
    }
}

#[test]
fn a_replica_that_lost_its_answers_is_refused() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let volatile = || ServerOptions { answers: AnswerTable::Volatile, ..ServerOptions::default() };
    let server = serve(open(&directory, paged()), volatile());
    let address = server.address();
    let cluster = cluster(&[address]);
    let mut session = cluster.session().unwrap();
    session.transact(put("k", "1")).unwrap();
    server.stop().unwrap();
    let error = session.transact(put("k", "2")).unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    let listener = TcpListener::bind(address).unwrap();
    let _server = Server::start(open(&directory, paged()), listener, volatile()).unwrap();
    let error = session.resolve().unwrap_err();
    assert!(matches!(error, Error::ReplicaBehind { replica: 0, sequence: 1, last: None, .. }), "{error}");
    // The outcome is still unknown, because nothing was sent.
    assert_eq!(session.unresolved().unwrap().sequence, 2);
}

/// Requests of two client processes for one key reach the replicas in different orders, because no
/// lock orders them. The comparison names the key.
#[test]
fn conflicting_writers_of_two_clusters_diverge_and_are_found() {
    let replicas = [replica(paged()), replica(paged())];
    let addresses = replicas.each_ref().map(Server::address);
    let proxy = Proxy::before(addresses[1]);
    let (one, two) = (cluster(&addresses), cluster(&[addresses[0], proxy.address]));
    let mut session = one.session().unwrap();
    session.transact(put("a", "equal")).unwrap();
    session.transact(put("z", "equal")).unwrap();
    let mut slow = two.session().unwrap();
    proxy.set(Mode::HoldRequests);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| slow.transact(put("k", "slow")).unwrap());
        while session.rows(0, "rows", Some(b"a".to_vec()), Some(b"l".to_vec()), 1).unwrap().is_empty() {
            std::thread::yield_now();
        }
        session.transact(put("k", "fast")).unwrap();
        proxy.set(Mode::Pass);
        held.join().unwrap();
    });
    let error = compare(&mut session).unwrap_err();
    let Error::Different(difference) = error else { panic!("{error}") };
    assert_eq!((difference.table.as_str(), &difference.key[..]), ("rows", &b"k"[..]));
    assert_eq!(difference.values, [Some(b"fast".to_vec()), Some(b"slow".to_vec())]);
    assert!(difference.to_string().contains("first at key \"k\""), "{difference}");
}

/// In one cluster the second writer does not get the key while the first writer's request is in
/// flight.
#[test]
fn conflicting_writers_of_one_cluster_are_ordered() {
    let replicas = [replica(paged()), replica(paged())];
    let proxy = Proxy::before(replicas[1].address());
    let cluster = cluster(&[replicas[0].address(), proxy.address]);
    let (mut first, mut second) = (cluster.session().unwrap(), cluster.session().unwrap());
    let mut looking = cluster.session().unwrap();
    proxy.set(Mode::HoldRequests);
    std::thread::scope(|scope| {
        let held = scope.spawn(|| first.transact(put("k", "first")).unwrap());
        while looking.rows(0, "rows", None, None, 1).unwrap().is_empty() {
            std::thread::yield_now();
        }
        let mut draft = second.begin().unwrap();
        draft.lock("rows", b"l").unwrap();
        // The key is below one that the draft holds, so the lock is refused at once.
        let error = draft.lock("rows", b"k").unwrap_err();
        assert!(matches!(error, Error::KeyBusy) && error.is_retryable());
        drop(draft);
        proxy.set(Mode::Pass);
        held.join().unwrap();
    });
    second.transact(put("k", "second")).unwrap();
    compare(&mut second).unwrap();
}

#[test]
fn a_transaction_that_all_refuse_leaves_nothing_and_one_that_some_refuse_diverges() {
    let replicas = [replica(paged()), replica(paged())];
    let addresses = replicas.each_ref().map(Server::address);
    let both = cluster(&addresses);
    let mut session = both.session().unwrap();
    session.transact(insert("k", "1")).unwrap();
    let mut operations = put("other", "x");
    operations.extend(insert("k", "2"));
    let error = session.transact(operations).unwrap_err();
    assert!(matches!(error, Error::Refused { refusal: Refusal::KeyExists { operation: 1 }, .. }), "{error}");
    let error = session.transact(vec![operation(b"none", Action::Delete)]).unwrap_err();
    assert!(matches!(error, Error::Refused { refusal: Refusal::NoSuchKey { operation: 0 }, .. }), "{error}");
    let long = operation(&[7; katydid::KEY_BYTES_MAX + 1], Action::Put(vec![]));
    let error = session.transact(vec![long]).unwrap_err();
    assert!(matches!(error, Error::Refused { refusal: Refusal::NotAllowed(_), .. }), "{error}");
    let equal = compare(&mut session).unwrap();
    assert_eq!((equal[0].rows, session.read("rows", b"other").unwrap()), (1, None));
    let mut alone = cluster(&addresses[1..]).session().unwrap();
    alone.transact(insert("only", "1")).unwrap();
    let error = session.transact(insert("only", "2")).unwrap_err();
    let Error::Diverged { answers, .. } = error else { panic!("{error}") };
    assert!(matches!(answers[..], [ReplicaAnswer::Committed { .. }, ReplicaAnswer::Refused(_)]));
    assert!(matches!(compare(&mut session), Err(Error::Different(_))));
}

/// A replica cannot start if its table of answers has a row that the replica has not written.
#[test]
fn a_transaction_does_not_write_the_table_of_answers() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let server = serve(open(&directory, paged()), ServerOptions::default());
    let mut session = cluster(&[server.address()]).session().unwrap();
    let write = |key: &[u8], action| {
        vec![Operation { table: "katydid client-driven answers".to_owned(), key: key.to_vec(), action }]
    };
    let own = session.id().0.to_be_bytes();
    for operations in [write(b"key", Action::Put(b"value".to_vec())), write(&own, Action::Delete)] {
        let error = session.transact(operations).unwrap_err();
        assert!(matches!(error, Error::Refused { refusal: Refusal::NotAllowed(_), .. }), "{error}");
    }
    session.transact(put("k", "1")).unwrap();
    server.stop().unwrap();
    serve(open(&directory, paged()), ServerOptions::default()).stop().unwrap();
}

fn call(socket: &mut TcpStream, request: &Request) -> Result<Reply, FrameError> {
    frame::write(socket, request)?;
    frame::read(socket)
}

#[test]
fn a_damaged_frame_ends_the_connection_and_is_not_run() {
    let server = replica(paged());
    let client = ClientId(7);
    let id = TransactionId { client, sequence: 1 };
    let transact = Request::Transact { id, operations: put("k", "value") };
    let good = frame::encode(&transact).unwrap();
    for at in 0..good.len() {
        let mut socket = TcpStream::connect(server.address()).unwrap();
        call(&mut socket, &Request::Hello { client }).unwrap();
        let mut damaged = good.clone();
        damaged[at] ^= 4;
        socket.write_all(&damaged).unwrap();
        // If the length is damaged, the replica waits for more bytes, so the client ends the
        // stream.
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(frame::read::<Reply>(&mut socket).is_err(), "byte {at}");
    }
    assert_eq!(server.stat().unwrap().committed, 0);
    let mut socket = TcpStream::connect(server.address()).unwrap();
    call(&mut socket, &Request::Hello { client }).unwrap();
    let Reply::Answered(answer) = call(&mut socket, &transact).unwrap() else { panic!("no answer") };
    assert_eq!((answer.id, answer.outcome), (id, Outcome::Committed { found: vec![] }));
}

/// Once a session has a newer connection, a request on the old connection is not run. A request
/// with a number below the last answered one is not run either.
#[test]
fn only_the_newest_connection_of_a_session_runs_transactions() {
    let server = replica(paged());
    let client = ClientId(9);
    let transact = |sequence, value| Request::Transact {
        id: TransactionId { client, sequence },
        operations: put("k", value),
    };
    let mut sockets = [0, 1].map(|_| TcpStream::connect(server.address()).unwrap());
    for socket in &mut sockets {
        assert_eq!(call(socket, &Request::Hello { client }).unwrap(), Reply::Welcome { last: None });
    }
    let mut outcome = |socket: usize, sequence| match call(&mut sockets[socket], &transact(sequence, "x")) {
        Ok(Reply::Answered(answer)) => answer.outcome,
        other => panic!("{other:?}"),
    };
    assert!(matches!(outcome(0, 1), Outcome::InDoubt(_)));
    assert_eq!(outcome(1, 2), Outcome::Committed { found: vec![] });
    assert!(matches!(outcome(1, 1), Outcome::InDoubt(_)));
    assert_eq!(server.stat().unwrap().committed, 1);
    let mut stranger = TcpStream::connect(server.address()).unwrap();
    let Reply::Answered(answer) = call(&mut stranger, &transact(3, "x")).unwrap() else { panic!() };
    assert!(matches!(answer.outcome, Outcome::Refused(Refusal::NotAllowed(_))));
}

#[test]
fn sessions_have_places_that_they_give_back_and_a_stopped_replica_is_named() {
    let directory: Arc<dyn Directory> = Arc::new(MemoryDirectory::new());
    let options = ServerOptions { sessions_max: 1, ..ServerOptions::default() };
    let server = serve(open(&directory, paged()), options.clone());
    let cluster = cluster(&[server.address()]);
    let mut session = cluster.session().unwrap();
    session.transact(put("k", "1")).unwrap();
    assert!(matches!(cluster.session(), Err(Error::Replica { replica: 0, .. })));
    session.end().unwrap();
    let mut next = cluster.session().unwrap();
    next.transact(put("k", "2")).unwrap();
    server.stop().unwrap();
    drop(next);
    assert!(matches!(cluster.session(), Err(Error::Replica { replica: 0, .. })));
    // The ended session left no row. The session that was only dropped keeps its row, which takes
    // the only place for a session.
    let server = serve(open(&directory, paged()), options);
    let reopened = Cluster::new(ClusterOptions::new(vec![server.address()])).unwrap();
    assert!(matches!(reopened.session(), Err(Error::Replica { replica: 0, .. })));
    assert!(matches!(Cluster::new(ClusterOptions::new(vec![])), Err(Error::NoReplicas)));
}
