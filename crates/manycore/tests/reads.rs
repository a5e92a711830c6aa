//! Point reads on the simulated machine.

use katydid_manycore::{
    KeyChoice, Machine, READ_DESIGNS, ReadDesign, ReadEngine, ReadOutcome, ReadPlan, RunError, run_reads,
};

fn machine() -> Machine {
    Machine::parse(Machine::built_in("modern").unwrap()).unwrap()
}

fn design(name: &str) -> ReadDesign {
    *READ_DESIGNS.iter().find(|design| design.name == name).unwrap()
}

fn plan(design: ReadDesign, threads: usize) -> ReadPlan {
    ReadPlan {
        design,
        threads,
        keys: KeyChoice::Uniform,
        rows: 100_000,
        rows_per_leaf: 50,
        value_bytes: 100,
        reads: 1,
        begin_ns: 50.0,
        work_ns: if design.engine() == ReadEngine::Paged { 1000.0 } else { 400.0 },
        millis: 0.3,
        seed: 3,
    }
}

fn go(plan: &ReadPlan) -> ReadOutcome {
    run_reads(&machine(), plan).unwrap()
}

/// Returns the rate of 64 threads, each on a core of its own, divided by the rate of one.
fn growth(name: &str, change: impl Fn(ReadPlan) -> ReadPlan) -> f64 {
    let rate = |threads: usize| go(&change(plan(design(name), threads))).per_second;
    let growth = rate(64) / rate(1);
    println!("{name}: {growth:.2}");
    growth
}

#[test]
fn every_design_reads_at_every_number_of_threads() {
    for design in READ_DESIGNS {
        // The last number of threads is greater than the number of cores.
        for threads in [1, 5, 64, 200] {
            for reads in [1, 20] {
                let outcome = go(&ReadPlan { reads, keys: KeyChoice::Zipfian, ..plan(design, threads) });
                let rate = outcome.reads as f64 / 0.3e-3;
                assert!(outcome.reads > 100, "{} {threads}: {outcome:?}", design.name);
                assert_eq!(outcome.reads % reads as u64, 0);
                // The last transactions end after the end of the run. They end much later if many
                // threads contend, or share a core.
                let least = if threads > 5 { 0.0 } else { rate * 0.7 };
                let is_the_rate = (least..=rate * 1.01).contains(&outcome.per_second);
                assert!(is_the_rate, "{} {threads} {reads}: {outcome:?}", design.name);
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome_wherever_memory_lies() {
    for design in READ_DESIGNS {
        let first = go(&plan(design, 16));
        let litter: Vec<Vec<u8>> = (0..100).map(|index| vec![0; 24 + index * 8]).collect();
        assert_eq!(go(&plan(design, 16)), first, "{}", design.name);
        drop(litter);
        let other = go(&ReadPlan { seed: 4, ..plan(design, 16) });
        assert_ne!(other, first, "{}: the seed changes nothing", design.name);
    }
}

#[test]
fn views_that_all_threads_register_bound_the_reads() {
    for name in ["paged-root", "paged-registry"] {
        assert!(growth(name, |plan| plan) < 5.0);
    }
    assert!(growth("paged", |plan| plan) > 40.0);
    // Locks are in shards, so they bound less than one registry does.
    let locked = growth("paged-locked", |plan| plan);
    assert!(locked > 8.0 && locked < 40.0, "{locked}");
}

#[test]
fn the_latch_of_the_root_bounds_descents_and_shortcuts_pass_it_by() {
    let many = |plan| ReadPlan { reads: 100, ..plan };
    assert!(growth("paged-root", many) < 8.0);
    assert!(growth("paged", many) > 30.0);
}

#[test]
fn slots_that_all_views_read_bound_the_views_that_write_them() {
    assert!(growth("memory", |plan| plan) < 15.0);
    assert!(growth("memory-slots", |plan| plan) > 30.0);
    // A transaction that may write reads no other slot when it begins.
    assert!(growth("memory-validated", |plan| plan) > 30.0);
}

#[test]
fn a_few_popular_rows_bound_readers_that_write_their_lines() {
    let zipfian = |plan| ReadPlan { reads: 100, keys: KeyChoice::Zipfian, millis: 0.5, ..plan };
    for (shared, own) in [("paged-tables", "paged-latches"), ("memory-points", "memory-epochs")] {
        let (shared, own) = (growth(shared, zipfian), growth(own, zipfian));
        assert!(shared < 40.0 && own > 60.0, "{shared} {own}");
    }
}

#[test]
fn one_leaf_bounds_all_readers_that_write_its_latch() {
    let one_leaf = |plan| ReadPlan { rows: 10, reads: 20, ..plan };
    assert!(growth("paged-tables", one_leaf) < 10.0);
    assert!(growth("paged-latches", one_leaf) > 50.0);
}

#[test]
fn what_cannot_be_run_is_refused() {
    let good = plan(READ_DESIGNS[0], 1);
    for (field, wrong) in [
        ("threads", ReadPlan { threads: 0, ..good.clone() }),
        ("threads", ReadPlan { threads: 1025, ..good.clone() }),
        ("rows", ReadPlan { rows: 0, ..good.clone() }),
        ("rows", ReadPlan { rows: 10_000_001, ..good.clone() }),
        ("rows of a leaf", ReadPlan { rows_per_leaf: 9, ..good.clone() }),
        ("value", ReadPlan { value_bytes: 65_537, ..good.clone() }),
        ("reads", ReadPlan { reads: 0, ..good.clone() }),
        ("begin", ReadPlan { begin_ns: -1.0, ..good.clone() }),
        ("work", ReadPlan { work_ns: f64::NAN, ..good.clone() }),
        ("millis", ReadPlan { millis: 0.0, ..good.clone() }),
    ] {
        match run_reads(&machine(), &wrong) {
            Err(RunError::Range { field: found, .. }) => assert_eq!(found, field, "{wrong:?}"),
            other => panic!("{wrong:?}: {other:?}"),
        }
    }
    go(&ReadPlan { rows: 1, rows_per_leaf: 10, value_bytes: 0, keys: KeyChoice::Zipfian, ..good });
}
