//! The heuristics of protocol `adaptive`. Each can be switched off, to measure its effect.
//!
//! Pure functions. The head of `sync/policy` explains each one.

use crate::words;

/// One heuristic of protocol `adaptive`; `pipelined` uses some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heuristic {
    /// A leader delays its write until the blocking committers of the last round wait again.
    Delay,
    /// A leader that serves callbacks and futures delays its write until nearly as many bytes wait
    /// as in the last round.
    ServingDelay,
    /// After a delay in vain, leaders skip a growing number of delays.
    Backoff,
    /// With more committers than processors, a waiter yields before it parks.
    Yield,
    /// With very many committers the syncer leads every round, without a delay for blocking
    /// committers.
    ManyCommitters,
    /// After slow hand-overs to appointed waiters, the syncer leads for a number of rounds.
    SlowHandOver,
}

words!(
    Heuristic,
    "delay, serving-delay, backoff, yield, many-committers, slow-hand-over",
    Delay = "delay",
    ServingDelay = "serving-delay",
    Backoff = "backoff",
    Yield = "yield",
    ManyCommitters = "many-committers",
    SlowHandOver = "slow-hand-over"
);

impl Heuristic {
    /// Every heuristic.
    pub const ALL: [Heuristic; 6] = [
        Heuristic::Delay,
        Heuristic::ServingDelay,
        Heuristic::Backoff,
        Heuristic::Yield,
        Heuristic::ManyCommitters,
        Heuristic::SlowHandOver,
    ];
}

/// The heuristics in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Heuristics {
    bits: u8,
}

impl Heuristics {
    /// All heuristics: the default.
    pub const ALL: Heuristics = Heuristics { bits: u8::MAX };

    /// Returns these heuristics without the given one.
    #[must_use]
    pub const fn without(self, heuristic: Heuristic) -> Self {
        Heuristics { bits: self.bits & !(1 << heuristic as u8) }
    }

    /// Returns whether a heuristic is in use.
    pub const fn has(self, heuristic: Heuristic) -> bool {
        self.bits & (1 << heuristic as u8) != 0
    }
}

impl std::fmt::Debug for Heuristics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(Heuristic::ALL.into_iter().filter(|one| self.has(*one))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_can_be_switched_off_alone() {
        for off in Heuristic::ALL {
            let rest = Heuristics::ALL.without(off);
            for other in Heuristic::ALL {
                assert_eq!(rest.has(other), other != off, "{other} without {off}");
            }
            assert_eq!(off.to_string().parse(), Ok(off));
        }
    }
}
