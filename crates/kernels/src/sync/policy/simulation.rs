//! Tests of the policy with arrival patterns in simulated time. Clients work on processors, think,
//! and commit to a device.
//!
//! The model: when a client's commit was written, the client waits for a processor, works, thinks
//! without a processor, and commits again. A leader first delays its write as the policy decides.
//! Then the leader takes all commits that have arrived, and the device is busy for one write. A
//! waiter that was appointed as the next leader waits for a processor; the syncer does not. The
//! costs of waking and yielding are not modelled; only a real machine shows them.

use super::super::heuristics::{Heuristic, Heuristics};
use super::*;

const MICROSECOND: u64 = 1_000;
const SECOND: f64 = 1e9;

/// An arrival pattern, and the machine on which it runs.
#[derive(Debug, Clone, Copy)]
struct Load {
    clients: usize,
    cores: usize,
    /// Processor time of a transaction.
    work_ns: u64,
    /// Maximum think time. Think times are uniform from 0 to this value.
    think_ns: u64,
    /// Duration of one write.
    device_ns: u64,
}

/// Result of a simulation.
#[derive(Debug)]
struct Outcome {
    commits_per_second: f64,
    commits_per_round: f64,
    /// The longest delay before a write.
    longest_delay_ns: u64,
    /// The share of the rounds that the syncer led.
    syncer_led: f64,
}

impl Load {
    fn run(self, uses: Heuristics) -> Outcome {
        const ROUNDS: u64 = 1_500;
        let mut random = fastrand::Rng::with_seed(18);
        let mut policy = Policy::new(uses, self.cores as u64);
        let mut cores = vec![0_u64; self.cores];
        let mut arrivals: Vec<u64> = (0..self.clients).map(|_| random.u64(0..=self.device_ns)).collect();
        let (mut now, mut commits, mut longest_delay_ns, mut syncer_led) = (0, 0, 0, 0);
        for _ in 0..ROUNDS {
            arrivals.sort_unstable();
            now = arrivals[0].max(now);
            let arrived = |now: u64| arrivals.partition_point(|arrival| *arrival <= now);
            let delay = policy.decide().delay;
            if (arrived(now) as u64) < delay.enough {
                let event = match delay.ns_max {
                    None => Event::Skipped,
                    Some(ns_max) => {
                        let full = arrivals.get(delay.enough as usize - 1).copied().unwrap_or(u64::MAX);
                        let in_vain = full > now + ns_max;
                        let end = full.min(now + ns_max);
                        longest_delay_ns = longest_delay_ns.max(end - now);
                        now = end;
                        Event::Delayed { in_vain }
                    }
                };
                policy.observe(event);
            }
            let covered = arrived(now);
            now += self.device_ns;
            let (released, left) = (covered as u64, (arrived(now) - covered) as u64);
            commits += released;
            let decision =
                policy.observe(Event::Round { now_ns: now, took_ns: self.device_ns, released, left });
            if decision.syncer_leads {
                syncer_led += 1;
            } else if left > 0 {
                let took_ns = cores.iter().min().map_or(0, |free| free.saturating_sub(now));
                now += took_ns;
                policy.observe(Event::HandedOver { took_ns });
            }
            for arrival in &mut arrivals[..covered] {
                let core = cores.iter_mut().min().expect("there is a processor");
                *core = now.max(*core) + self.work_ns;
                *arrival = *core + random.u64(0..=self.think_ns);
            }
        }
        Outcome {
            commits_per_second: commits as f64 / (now as f64 / SECOND),
            commits_per_round: commits as f64 / ROUNDS as f64,
            longest_delay_ns,
            syncer_led: f64::from(syncer_led) / ROUNDS as f64,
        }
    }

    /// Returns the commit rate with all heuristics divided by the rate without `heuristic`.
    fn gain(self, heuristic: Heuristic) -> f64 {
        let with = self.run(Heuristics::ALL).commits_per_second;
        with / self.run(Heuristics::ALL.without(heuristic)).commits_per_second
    }
}

const DEVICES: [u64; 3] = [100 * MICROSECOND, 1_000 * MICROSECOND, 10_000 * MICROSECOND];

#[test]
fn committers_that_only_commit_are_written_together() {
    for device_ns in DEVICES {
        for cores in [2, 64] {
            for clients in [2, 16] {
                let load = Load { clients, cores, work_ns: 2 * MICROSECOND, think_ns: 0, device_ns };
                let together = load.run(Heuristics::ALL);
                assert!(together.commits_per_round > 0.95 * clients as f64, "{load:?}: {together:?}");
                let apart = load.run(Heuristics::ALL.without(Heuristic::Delay));
                assert!(apart.commits_per_round < 0.6 * clients as f64, "{load:?}: {apart:?}");
            }
        }
    }
}

#[test]
fn a_lone_committer_is_never_delayed() {
    for device_ns in DEVICES {
        for think_ns in [0, device_ns, 10 * device_ns] {
            let load = Load { clients: 1, cores: 2, work_ns: 2 * MICROSECOND, think_ns, device_ns };
            assert_eq!(load.run(Heuristics::ALL).longest_delay_ns, 0, "{load:?}");
        }
    }
}

#[test]
fn delays_cost_little_where_committers_think_at_random() {
    for device_ns in DEVICES {
        for clients in [2, 8, 64] {
            for think in [1, 16] {
                let load = Load {
                    clients,
                    cores: 64,
                    work_ns: 2 * MICROSECOND,
                    think_ns: think * device_ns,
                    device_ns,
                };
                let gain = load.gain(Heuristic::Delay);
                assert!(gain > 0.95, "{load:?}: {gain}");
            }
        }
    }
}

#[test]
fn no_delay_is_longer_than_half_a_millisecond() {
    for clients in [2, 32, 1_000] {
        for cores in [1, 2, 64] {
            let device_ns = 10_000 * MICROSECOND;
            let load = Load { clients, cores, work_ns: 50 * MICROSECOND, think_ns: device_ns, device_ns };
            let longest = load.run(Heuristics::ALL).longest_delay_ns;
            assert!(longest <= DELAY_NS_MAX, "{load:?}: {longest}");
        }
    }
}

#[test]
fn the_syncer_leads_a_thousand_committers_on_two_processors_and_not_on_sixty_four() {
    for (cores, share) in [(2, 0.99..=1.0), (64, 0.0..=0.01)] {
        let load = Load {
            clients: 1_000,
            cores,
            work_ns: 2 * MICROSECOND,
            think_ns: 0,
            device_ns: 100 * MICROSECOND,
        };
        let outcome = load.run(Heuristics::ALL);
        assert!(share.contains(&outcome.syncer_led), "{load:?}: {outcome:?}");
    }
}

#[test]
fn the_syncer_leads_where_transactions_keep_the_processors() {
    let load =
        Load { clients: 32, cores: 2, work_ns: 40 * MICROSECOND, think_ns: 0, device_ns: 300 * MICROSECOND };
    let outcome = load.run(Heuristics::ALL);
    assert!(outcome.syncer_led > 0.9, "{outcome:?}");
    let gain = load.gain(Heuristic::SlowHandOver);
    assert!(gain > 1.05, "{gain}");
}

#[test]
fn delays_in_vain_are_given_up() {
    for clients in [4, 8, 16, 32] {
        let (work_ns, think_ns, device_ns) = (10 * MICROSECOND, 100 * MICROSECOND, 100 * MICROSECOND);
        let gain = Load { clients, cores: 2, work_ns, think_ns, device_ns }.gain(Heuristic::Backoff);
        assert!(gain > 1.05, "{clients} clients: {gain}");
    }
}
