//! Tests of each rule of the policy: events, and the decision after them.

use super::super::heuristics::{Heuristic, Heuristics};
use super::*;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

/// Returns a policy for two processors that has seen `rounds` rounds, 1 ms apart. Each round took
/// `took_ns` and had `committers` committers.
fn after(uses: Heuristics, rounds: u64, took_ns: u64, committers: u64) -> Policy {
    let mut policy = Policy::new(uses, 2);
    for round in 1..=rounds {
        policy.observe(Event::Round { now_ns: round * MILLISECOND, took_ns, released: committers, left: 0 });
    }
    policy
}

#[test]
fn a_delay_is_for_the_committers_of_the_last_round_and_at_most_half_of_it() {
    for (took_ns, committers, ns_max) in [
        (100 * MICROSECOND, 8, 50 * MICROSECOND),
        (900 * MICROSECOND, 8, 450 * MICROSECOND),
        (10 * MILLISECOND, 8, 500 * MICROSECOND),
        (100 * MICROSECOND, 39, 50 * MICROSECOND),
    ] {
        let delay = after(Heuristics::ALL, 1, took_ns, committers).decide().delay;
        assert_eq!(delay, Delay { enough: committers, ns_max: Some(ns_max) }, "{took_ns} ns, {committers}");
    }
    let without = after(Heuristics::ALL.without(Heuristic::Delay), 1, 100 * MICROSECOND, 8);
    assert_eq!(without.decide().delay.enough, 0);
}

#[test]
fn a_serving_delay_is_for_most_of_the_bytes_of_the_last_round_and_at_most_a_quarter_of_it() {
    for (bytes, enough) in [(8_000, 7_000), (128 << 10, 112 << 10), ((128 << 10) + 1, 0)] {
        let mut policy = after(Heuristics::ALL, 1, 100 * MICROSECOND, 0);
        let decision = policy.observe(Event::Served { bytes });
        assert_eq!(decision.serving_delay, Delay { enough, ns_max: Some(25 * MICROSECOND) }, "{bytes} bytes");
    }
    let mut without = after(Heuristics::ALL.without(Heuristic::ServingDelay), 1, 100 * MICROSECOND, 0);
    assert_eq!(without.observe(Event::Served { bytes: 8_000 }).serving_delay.enough, 0);
}

#[test]
fn delays_in_vain_become_rare_until_one_pays() {
    let mut policy = after(Heuristics::ALL, 1, 100 * MICROSECOND, 8);
    for skips in [1, 2, 4, 8, 16, 32, 64, 128, 256, 256] {
        let mut decision = policy.observe(Event::Delayed { in_vain: true });
        for skipped in 0..skips {
            assert_eq!(decision.delay.ns_max, None, "{skipped} of {skips}");
            decision = policy.observe(Event::Skipped);
        }
        assert!(decision.delay.ns_max.is_some(), "after {skips}");
    }
    policy.observe(Event::Delayed { in_vain: false });
    policy.observe(Event::Delayed { in_vain: true });
    assert!(policy.observe(Event::Skipped).delay.ns_max.is_some(), "one was skipped");
    let mut without = after(Heuristics::ALL.without(Heuristic::Backoff), 1, 100 * MICROSECOND, 8);
    assert!(without.observe(Event::Delayed { in_vain: true }).delay.ns_max.is_some());
}

#[test]
fn a_waiter_yields_where_committers_outnumber_processors_and_rounds_are_short() {
    for (committers, took_ns, yields) in [
        (2, 100 * MICROSECOND, 0),
        (3, 100 * MICROSECOND, YIELDS),
        (3, MILLISECOND, YIELDS),
        (3, MILLISECOND + 1, 0),
    ] {
        let decision = after(Heuristics::ALL, 1, took_ns, committers).decide();
        assert_eq!(decision.yields, yields, "{committers} committers, {took_ns} ns");
    }
    let without = after(Heuristics::ALL.without(Heuristic::Yield), 1, 100 * MICROSECOND, 8);
    assert_eq!(without.decide().yields, 0);
}

#[test]
fn the_syncer_leads_very_many_committers_and_does_not_delay() {
    for (committers, leads) in [(39, false), (40, true), (1_000, true)] {
        let decision = after(Heuristics::ALL, 1, 100 * MICROSECOND, committers).decide();
        assert_eq!(decision.syncer_leads, leads, "{committers} committers");
        assert_eq!(decision.delay.enough, if leads { 0 } else { committers });
    }
    let without = after(Heuristics::ALL.without(Heuristic::ManyCommitters), 1, 100 * MICROSECOND, 1_000);
    assert!(!without.decide().syncer_leads);
}

#[test]
fn one_small_round_does_not_end_the_lead_of_the_syncer() {
    let mut policy = after(Heuristics::ALL, 1, 100 * MICROSECOND, 60);
    let small = |policy: &mut Policy| policy.observe(Event::PassedOn { active: 1 }).syncer_leads;
    assert!(small(&mut policy), "56 are remembered");
    let rounds = (0..100).take_while(|_| small(&mut policy)).count();
    assert!((1..20).contains(&rounds), "{rounds} more rounds");
}

#[test]
fn the_syncer_leads_for_a_while_after_slow_hand_overs() {
    let slow = Event::HandedOver { took_ns: 10 * MILLISECOND };
    let mut policy = after(Heuristics::ALL, 100, 100 * MICROSECOND, 8);
    assert!(policy.observe(slow).syncer_leads);
    let round = |policy: &mut Policy, number: u64, released| {
        let now_ns = (100 + number) * MILLISECOND;
        policy.observe(Event::Round { now_ns, took_ns: 100 * MICROSECOND, released, left: 0 }).syncer_leads
    };
    let mut other = policy.clone();
    let led = (1..).take_while(|number| round(&mut policy, *number, 8)).count() as u64;
    assert_eq!(led, SYNCER_LED_ROUNDS - 1, "the last round is the last led by the syncer");
    // If the rounds have at most two committers for a while, the syncer stops leading before
    // `SYNCER_LED_ROUNDS` rounds are over.
    let led = (1..).take_while(|number| round(&mut other, *number, 1)).count();
    assert!(led < 20, "{led} rounds");

    let quick = Event::HandedOver { took_ns: 10 * MICROSECOND };
    let mut policy = after(Heuristics::ALL, 100, 100 * MICROSECOND, 8);
    assert!((0..1_000).all(|_| !policy.observe(quick).syncer_leads));
    let mut few = after(Heuristics::ALL, 100, 100 * MICROSECOND, 2);
    assert!(!few.observe(slow).syncer_leads, "two committers have a processor each");
    let mut without = after(Heuristics::ALL.without(Heuristic::SlowHandOver), 100, 100 * MICROSECOND, 8);
    assert!(!without.observe(slow).syncer_leads);
}
