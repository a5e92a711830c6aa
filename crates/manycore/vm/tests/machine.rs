//! Tests of the simulated machine: time, cache lines, waits, and determinism.

use katydid_virtual_machine::sync_shim::{AtomicBool, AtomicU64, Mutex, Ordering};
use katydid_virtual_machine::sync_shim::{Thread, current, park, pause, yield_now};
use katydid_virtual_machine::vm::{Body, Report, SimulationError, now, simulate, work};
use katydid_virtual_machine::{Machine, MachineError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

const NS: u64 = 1000;

/// Makes a machine of four cores in two sockets, with costs that are easy to distinguish.
fn small() -> Machine {
    let mut machine = Machine::parse(Machine::built_in("modern").unwrap()).unwrap();
    (machine.cores, machine.sockets) = (4, 2);
    let n = &mut machine.nanos;
    (n.load, n.store, n.modify, n.serve) = (1.0, 2.0, 10.0, 5.0);
    (n.share, n.share_far, n.own, n.own_far) = (30.0, 300.0, 50.0, 500.0);
    (n.pause, n.yield_now, n.switch, n.quantum) = (4.0, 20.0, 100.0, 10_000.0);
    (n.sleep, n.wake, n.woken) = (700.0, 600.0, 9_000.0);
    machine
}

/// A value on a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Alone<T>(T);

fn spawn(body: impl FnOnce() + 'static) -> Body {
    Box::new(body)
}

/// Runs `act` as one thread. Returns the nanoseconds that it took.
fn time_of(machine: &Machine, act: impl FnOnce() + 'static) -> u64 {
    let time = Rc::new(RefCell::new(0));
    let out = Rc::clone(&time);
    let body = spawn(move || {
        let since = now();
        act();
        *out.borrow_mut() = now() - since;
    });
    simulate(machine, 0, vec![body]).unwrap();
    let time = *time.borrow();
    time / NS
}

#[test]
fn each_access_costs_what_the_state_of_its_line_says() {
    let machine = small();
    let word = Alone(AtomicU64::new(0));
    assert_eq!(
        time_of(&machine, move || {
            word.0.load(Ordering::Relaxed);
        }),
        30,
        "from memory"
    );
    let word = Alone(AtomicU64::new(0));
    let twice = move || {
        word.0.load(Ordering::Relaxed);
        word.0.load(Ordering::Relaxed);
    };
    assert_eq!(time_of(&machine, twice), 30 + 1, "then from the cache");
    let word = Alone(AtomicU64::new(0));
    let add = move || {
        word.0.fetch_add(1, Ordering::Relaxed);
        word.0.fetch_add(1, Ordering::Relaxed);
    };
    assert_eq!(time_of(&machine, add), 50 + 10 + 10, "fetched once");
    let word = Alone(AtomicU64::new(0));
    let store = move || word.0.store(1, Ordering::Release);
    assert_eq!(time_of(&machine, store), 2, "a store is buffered");
    let words = (Alone(AtomicU64::new(0)), Alone(AtomicU64::new(0)));
    let buffered = move || {
        // This makes the closure capture the pair as a whole. Words that are captured one by one
        // would share a line.
        let words = &words;
        words.0.0.store(1, Ordering::Release);
        words.1.0.swap(1, Ordering::Relaxed);
    };
    assert_eq!(
        time_of(&machine, buffered),
        50 + 2 + 50 + 10,
        "a read-modify-write waits for the stores before it"
    );
}

#[test]
fn the_distance_decides_what_a_line_costs() {
    for (reader, expected) in [(1, 30), (2, 300)] {
        let word = Arc::new(Alone(AtomicU64::new(0)));
        let time = Rc::new(RefCell::new(0));
        let bodies = (0..=reader).map(|index| {
            let (word, time) = (Arc::clone(&word), Rc::clone(&time));
            spawn(move || {
                if index == 0 {
                    word.0.fetch_add(1, Ordering::Relaxed);
                } else if index == reader {
                    work(1_000_000);
                    let since = now();
                    word.0.load(Ordering::Relaxed);
                    *time.borrow_mut() = now() - since;
                }
            })
        });
        simulate(&small(), 1, bodies.collect()).unwrap();
        assert_eq!(*time.borrow() / NS, expected, "thread {reader}");
    }
}

#[test]
fn a_contended_read_modify_write_waits_its_turn() {
    const TIMES: u64 = 1000;
    let machine = small();
    let run = |threads: u64| {
        let word = Arc::new(Alone(AtomicU64::new(0)));
        let bodies = (0..threads).map(|_| {
            let word = Arc::clone(&word);
            spawn(move || {
                for _ in 0..TIMES {
                    word.0.fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let report = simulate(&machine, 3, bodies.collect()).unwrap();
        assert_eq!(word.0.load(Ordering::Relaxed), threads * TIMES);
        report.picoseconds / NS
    };
    let alone = run(1);
    assert!((10 * TIMES..11 * TIMES + 1000).contains(&alone), "{alone}");
    // Two threads of one socket pass the line to and fro.
    let two = run(2);
    assert!((110 * TIMES..=121 * TIMES).contains(&two), "{two}");
    // Two of the four threads run in each socket, so the line comes from the other socket about
    // every second time.
    let four = run(4);
    assert!(four > 4 * 200 * TIMES && four <= 4 * 510 * TIMES + 1000, "{four}");
}

#[test]
fn a_spinning_thread_sees_the_change_soon() {
    let flag = Arc::new(Alone(AtomicBool::new(false)));
    let seen = Rc::new(RefCell::new(0));
    let bodies = [0, 1].map(|index| {
        let (flag, seen) = (Arc::clone(&flag), Rc::clone(&seen));
        spawn(move || {
            if index == 0 {
                work(50_000 * NS);
                flag.0.store(true, Ordering::Release);
            } else {
                let mut step = 0;
                while !flag.0.load(Ordering::Acquire) {
                    pause(step);
                    step += 1;
                }
                *seen.borrow_mut() = now() / NS;
            }
        })
    });
    let mut machine = small();
    // The yield is long, so that the thread does not nap.
    machine.nanos.yield_now = 10_000.0;
    let report = simulate(&machine, 1, bodies.into()).unwrap();
    let seen = *seen.borrow();
    assert!((50_000..51_300).contains(&seen), "{seen}");
    assert!(report.events < 50, "{report:?}");
}

#[test]
fn a_parked_thread_wakes_and_a_token_is_kept() {
    let sleeper: Rc<RefCell<Option<Thread>>> = Rc::default();
    let woke = Rc::new(RefCell::new(0));
    let (one, two, out) = (Rc::clone(&sleeper), Rc::clone(&sleeper), Rc::clone(&woke));
    let bodies = vec![
        spawn(move || {
            *one.borrow_mut() = Some(current());
            park();
            *out.borrow_mut() = now() / NS;
            current().unpark();
            // This park returns at once.
            park();
        }),
        spawn(move || {
            work(5_000 * NS);
            // Only accesses and waits keep threads in the order of time, so the thread yields.
            yield_now();
            two.borrow().as_ref().unwrap().unpark();
        }),
    ];
    simulate(&small(), 1, bodies).unwrap();
    let woke = *woke.borrow();
    assert!((5_020 + 600 + 9_000..5_020 + 600 + 9_000 + 1_100).contains(&woke), "{woke}");
}

#[test]
fn a_mutex_lets_one_in_at_a_time_and_loses_nobody() {
    let mut machine = small();
    for (threads, spins) in [(2, 100), (4, 0), (13, 0), (13, 100)] {
        machine.mutex_spins = spins;
        let mutex = Arc::new(Mutex::new(0));
        let bodies = (0..threads).map(|_| {
            let mutex = Arc::clone(&mutex);
            spawn(move || {
                for _ in 0..100 {
                    let mut held = mutex.lock().unwrap();
                    let before = *held;
                    work(300 * NS);
                    yield_now();
                    *held = before + 1;
                }
            })
        });
        let report = simulate(&machine, 7, bodies.collect()).unwrap();
        assert_eq!(*mutex.lock().unwrap(), threads * 100);
        assert!(report.picoseconds >= threads * 100 * 300 * NS);
    }
}

#[test]
fn threads_beyond_the_cores_take_turns() {
    let mut machine = small();
    (machine.cores, machine.sockets) = (1, 1);
    let order: Rc<RefCell<Vec<usize>>> = Rc::default();
    let bodies = (0..2).map(|index| {
        let order = Rc::clone(&order);
        spawn(move || {
            let word = Alone(AtomicU64::new(0));
            for _ in 0..30 {
                work(1_000 * NS);
                word.0.fetch_add(1, Ordering::Relaxed);
                order.borrow_mut().push(index);
            }
        })
    });
    let report = simulate(&machine, 1, bodies.collect()).unwrap();
    assert!(report.picoseconds > 2 * 30 * 1_000 * NS, "{report:?}");
    let order = order.borrow();
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    // A quantum is ten steps long, so in 60 steps the two threads change about six times.
    assert!((5..=7).contains(&changes), "{order:?}");
}

#[test]
fn a_wait_that_cannot_end_is_reported() {
    let forever = simulate(&small(), 1, vec![spawn(park)]);
    assert!(matches!(forever, Err(SimulationError::Deadlock(_))), "{forever:?}");
    let spin = spawn(|| {
        let word = AtomicBool::new(false);
        let mut step = 0;
        while !word.load(Ordering::Acquire) {
            pause(step);
            step += 1;
        }
    });
    let error = simulate(&small(), 1, vec![spin]).unwrap_err();
    assert!(error.to_string().contains("thread 0"), "{error}");
    let mutex = Arc::new(Mutex::new(()));
    let twice = spawn(move || {
        let _first = mutex.lock().unwrap();
        drop(mutex.lock());
    });
    assert!(matches!(simulate(&small(), 1, vec![twice]), Err(SimulationError::Deadlock(_))));
    // State that a failed simulation leaves behind does not disturb the next one.
    simulate(&small(), 1, vec![spawn(|| work(1))]).unwrap();
}

#[test]
fn a_panic_of_a_thread_is_the_callers() {
    let outcome =
        std::panic::catch_unwind(|| simulate(&small(), 1, vec![spawn(|| panic!("it fell")), spawn(park)]));
    assert!(outcome.is_err());
    simulate(&small(), 1, vec![spawn(|| work(1))]).unwrap();
}

#[test]
fn a_seed_decides_everything() {
    let run = |seed: u64, litter: usize| -> (Report, Vec<u64>) {
        // Other addresses must not change the result.
        let litter: Vec<Vec<u8>> = (0..litter).map(|index| vec![0; 40 + index * 24]).collect();
        let words: Arc<Vec<Alone<AtomicU64>>> = Arc::new((0..3).map(|_| Alone::default()).collect());
        let ends: Rc<RefCell<Vec<u64>>> = Rc::default();
        let bodies = (0..6).map(|index: usize| {
            let (words, ends) = (Arc::clone(&words), Rc::clone(&ends));
            spawn(move || {
                for step in 0..500 {
                    words[(step * (index + 1)) % 3].0.fetch_add(1, Ordering::Relaxed);
                }
                ends.borrow_mut().push(now());
            })
        });
        let report = simulate(&small(), seed, bodies.collect()).unwrap();
        drop(litter);
        let ends = ends.borrow().clone();
        (report, ends)
    };
    assert_eq!(run(1, 0), run(1, 11));
    assert_ne!(run(1, 0), run(2, 0));
}

#[test]
fn a_description_is_checked() {
    for name in Machine::names() {
        Machine::parse(Machine::built_in(name).unwrap()).unwrap();
    }
    let modern = Machine::built_in("modern").unwrap();
    let wrong = Machine::parse(&modern.replace("cores = 128", "cores = 0")).unwrap_err();
    assert!(matches!(wrong, MachineError::Range { field: "cores", .. }), "{wrong}");
    let wrong = Machine::parse(&modern.replace("load = 1.0", "load = nan")).unwrap_err();
    assert!(matches!(wrong, MachineError::Range { field: "nanos.load", .. }), "{wrong}");
    let wrong = Machine::parse(&modern.replace("serve =", "swerve =")).unwrap_err();
    assert!(wrong.to_string().contains("swerve"), "{wrong}");
}
