//! The real inserters on the simulated machine.

use katydid_manycore::{Machine, Plan, RunError, Sizes, TXN_DESIGNS, TxnPlan, designs, run, run_txns};

fn machine() -> Machine {
    Machine::parse(Machine::built_in("modern").unwrap()).unwrap()
}

fn plan(inserter: &str, threads: usize) -> Plan {
    Plan {
        inserter: inserter.to_owned(),
        threads,
        sizes: Sizes::Fixed(120),
        slots: 4,
        hop_bytes: 4 << 20,
        chunk_bytes: 16 << 10,
        ring_bytes: 1 << 20,
        millis: 0.2,
        work_ns: 0.0,
        seed: 42,
    }
}

#[test]
fn every_design_inserts_at_every_number_of_threads() {
    for inserter in designs() {
        // The last number of threads is greater than the number of cores.
        for threads in [1, 2, 7, 64, 200] {
            let outcome = run(&machine(), &plan(&inserter, threads)).unwrap();
            println!("{inserter} {threads}: {outcome:?}");
            assert!(outcome.records > 100, "{inserter} {threads}: {outcome:?}");
            assert_eq!(outcome.bytes, outcome.records * 120);
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_wherever_memory_lies() {
    for inserter in designs() {
        let first = run(&machine(), &plan(&inserter, 16)).unwrap();
        let litter: Vec<Vec<u8>> = (0..100).map(|index| vec![0; 24 + index * 8]).collect();
        assert_eq!(run(&machine(), &plan(&inserter, 16)).unwrap(), first, "{inserter}");
        drop(litter);
        let other = run(&machine(), &Plan { seed: 43, ..plan(&inserter, 16) }).unwrap();
        assert_ne!(other, first, "{inserter}: the seed changes nothing");
    }
}

#[test]
fn large_records_travel_too() {
    let sizes = Sizes::Bimodal { small: 48, times: 5, large: 256 << 10 };
    for inserter in designs() {
        let outcome =
            run(&machine(), &Plan { sizes, millis: 1.0, ring_bytes: 8 << 20, ..plan(&inserter, 8) }).unwrap();
        assert!(outcome.bytes > outcome.records * 10_000, "{inserter}: {outcome:?}");
    }
}

#[test]
fn what_cannot_be_run_is_refused() {
    let error = run(&machine(), &plan("marx", 1)).unwrap_err();
    assert!(matches!(error, RunError::Design { .. }));
    assert!(error.to_string().contains("marks"), "{error}");
    for wrong in [
        plan("marks", 0),
        Plan { sizes: Sizes::Fixed(47), ..plan("marks", 1) },
        Plan { ring_bytes: 1000, ..plan("marks", 1) },
        Plan { slots: 0, ..plan("marks", 1) },
        Plan { hop_bytes: 5000, ..plan("marks", 1) },
        Plan { chunk_bytes: 10, ..plan("marks", 1) },
        Plan { millis: f64::NAN, ..plan("marks", 1) },
    ] {
        assert!(matches!(run(&machine(), &wrong), Err(RunError::Range { .. })), "{wrong:?}");
    }
}

#[test]
fn transactions_repeat_to_the_byte_and_a_shared_word_bounds_them() {
    let go = |name: &str, threads: usize, seed: u64| {
        let design = *TXN_DESIGNS.iter().find(|design| design.name == name).unwrap();
        let plan = TxnPlan { design, threads, record: 400, work_ns: 200.0, millis: 0.3, seed };
        run_txns(&machine(), &plan).unwrap()
    };
    for design in TXN_DESIGNS {
        for threads in [1, 5, 64, 200] {
            let first = go(design.name, threads, 3);
            assert!(first.transactions > 100, "{} {threads}: {first:?}", design.name);
            assert_eq!(go(design.name, threads, 3), first);
        }
    }
    let grows = |name: &str| go(name, 64, 1).per_second / go(name, 1, 1).per_second;
    // Threads of this design share no memory, so its throughput grows with them.
    assert!(grows("parallel") > 50.0, "{}", grows("parallel"));
    assert!(grows("serial") < 10.0, "{}", grows("serial"));
    let plan = TxnPlan { design: TXN_DESIGNS[0], threads: 0, record: 1, work_ns: 0.0, millis: 1.0, seed: 1 };
    assert!(matches!(run_txns(&machine(), &plan), Err(RunError::Range { field: "threads", .. })));
}
