//! How many writes may be under way at once: found by trying, and judged by how long committers
//! wait.
//!
//! Pure. The measure is the mean time from a byte's reservation to its durability, by Little's law:
//! the bytes on their way, integrated over time, by the bytes that arrived. It counts callers that
//! block and callers that do not alike, and needs one look at the clock for each write.
//!
//! A depth is measured for a window of writes, then a neighbour is tried for a shorter one. A
//! greater depth is kept if committers wait less, twice in a row; a smaller one if they do not wait
//! longer. After a trial in vain, trials become rarer. A greater depth is tried only where writes
//! ended while whole blocks waited that could have been under way beside them.

/// Writes of a window.
const WINDOW: u64 = 64;
/// Writes of a window in which another depth is tried.
const TRIAL: u64 = 24;
/// Windows before the first trial.
const RESTS: u32 = 8;
/// Writes after a change that are not counted.
const SETTLING: u64 = 8;
/// By this factor must a greater depth be better.
const BETTER: f64 = 0.95;
/// By this factor may a smaller depth be worse: it costs less.
const NO_WORSE: f64 = 1.02;
/// Trials in a row that must say so.
const WINS: u32 = 2;
/// Where committers wait no longer than so many nanoseconds, a thread more costs them more than a
/// write more gains.
const SHORT: f64 = 1e6;
/// Most windows between two trials.
const RESTS_MAX: u32 = 256;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(super) struct Climb {
    least: u32,
    most: u32,
    /// Writes to go before the window begins, then before it ends.
    settling: u64,
    left: u64,
    /// Writes of this window that left whole blocks behind.
    held_up: u64,
    /// Sums at the begin of the window.
    begin: FlowTotals,
    /// The depth kept, and its last measure.
    kept: u32,
    measure: f64,
    /// Whether the other depth is being tried.
    trying: bool,
    /// Windows to the next trial, and to the one after it if the next is in vain.
    rest: u32,
    next_rest: u32,
    /// Whether the next trial, if both ways are open, goes up.
    up: bool,
    /// Trials won in a row.
    wins: u32,
}

/// Sums of what passed through the log: bytes that became durable, and byte nanoseconds that they
/// were on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct FlowTotals {
    pub(crate) bytes: u64,
    pub(crate) byte_ns: u64,
}

impl Climb {
    /// Depths from `least` to `most`, both at least 1.
    pub(super) fn new(least: u32, most: u32) -> Self {
        Climb {
            least,
            most,
            settling: SETTLING,
            left: WINDOW,
            held_up: 0,
            begin: FlowTotals::default(),
            kept: least,
            measure: f64::INFINITY,
            trying: false,
            rest: RESTS,
            next_rest: RESTS,
            up: true,
            wins: 0,
        }
    }

    /// The depth in use.
    pub(super) fn depth(&self) -> u32 {
        match (self.trying, self.up) {
            (false, _) => self.kept,
            (true, true) => self.kept + 1,
            (true, false) => self.kept - 1,
        }
    }

    /// A write has ended; the sums after it, and whether it left whole blocks behind that could
    /// have been under way beside it.
    pub(super) fn observe(&mut self, totals: FlowTotals, held_up: bool) {
        if self.least == self.most {
            return;
        }
        if self.settling > 0 {
            self.settling -= 1;
            if self.settling == 0 {
                self.begin = totals;
                self.held_up = 0;
            }
            return;
        }
        self.held_up += u64::from(held_up);
        self.left -= 1;
        if self.left == 0 {
            let wanted = std::mem::take(&mut self.held_up) >= WINDOW / 4;
            self.begin = self.end_window(totals, wanted);
        }
    }

    /// A window has ended; what the next begins with.
    fn end_window(&mut self, now: FlowTotals, wanted: bool) -> FlowTotals {
        let bytes = now.bytes.saturating_sub(self.begin.bytes).max(1);
        let measure = now.byte_ns.saturating_sub(self.begin.byte_ns) as f64 / bytes as f64;
        self.left = WINDOW;
        if self.trying {
            let depth = self.depth();
            self.trying = false;
            self.settling = SETTLING;
            if measure >= self.measure * if self.up { BETTER } else { NO_WORSE } {
                self.rest = self.next_rest;
                self.next_rest = (self.next_rest * 2).min(RESTS_MAX);
                self.wins = 0;
                self.up = !self.up;
            } else if self.wins + 1 < WINS {
                self.wins += 1;
            } else {
                (self.kept, self.measure) = (depth, measure);
                (self.rest, self.next_rest, self.wins) = (1, 1, 0);
            }
            return now;
        }
        self.measure = measure;
        if self.rest > 0 {
            self.rest -= 1;
            return now;
        }
        let can_rise = wanted && self.kept < self.most && measure > SHORT;
        let can_fall = self.kept > self.least;
        if can_rise || can_fall {
            self.up = if can_rise && can_fall { self.up } else { can_rise };
            self.trying = true;
            self.settling = SETTLING;
            self.left = TRIAL;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Climbs for so many windows over a device that has this measure at each depth; the depth
    /// kept, and the number of trials.
    fn climb(measure: impl Fn(u32) -> f64, wanted: bool, windows: u32) -> (u32, u32) {
        let mut climb = Climb::new(1, 16);
        let mut now = FlowTotals::default();
        let mut tries = 0;
        for _ in 0..windows {
            climb.begin = now;
            now = FlowTotals {
                bytes: now.bytes + 1000,
                byte_ns: now.byte_ns + (1000.0 * measure(climb.depth())) as u64,
            };
            climb.end_window(now, wanted);
            tries += u32::from(climb.trying);
        }
        (climb.kept, tries)
    }

    #[test]
    fn a_device_with_room_for_several_is_given_several() {
        assert_eq!(climb(|depth| 1e8 / f64::from(depth.min(8)), true, 200).0, 8);
    }

    #[test]
    fn a_device_without_is_asked_ever_more_rarely() {
        let (kept, tries) = climb(|_| 1e8, true, 2000);
        assert_eq!(kept, 1);
        assert!(tries <= 16, "{tries} trials in 2000 windows");
    }

    #[test]
    fn nothing_is_tried_where_nothing_is_held_up() {
        assert_eq!(climb(|depth| 1e8 / f64::from(depth), false, 200), (1, 0));
    }

    #[test]
    fn nothing_is_tried_where_committers_wait_briefly() {
        assert_eq!(climb(|depth| 5e5 / f64::from(depth), true, 200), (1, 0));
    }

    #[test]
    fn a_depth_that_does_not_pay_any_more_is_given_up() {
        let mut climb = Climb::new(1, 16);
        climb.kept = 6;
        let mut now = FlowTotals::default();
        for _ in 0..400 {
            climb.begin = now;
            now = FlowTotals { bytes: now.bytes + 1000, byte_ns: now.byte_ns + 1_000_000_000 };
            climb.end_window(now, false);
        }
        assert_eq!(climb.kept, 1);
    }
}
