//! The measuring grid: cases run in rounds, and their rows as a table, as CSV and as charts. There
//! is one, for everything that is measured case by case.
//!
//! 1. A **case** is what varies: everything that a run needs. A **round** is one run of each case.
//!    A **row** is a case and its rounds.
//! 2. What is measured together is one value of a type that implements [`Grid`]: a sweep of
//!    inserters, or a figure about commits. The type declares columns and axes as tables of
//!    functions; how rows become lines of text, CSV and pictures is here, once.
//! 3. Rounds are interleaved: every case has run once before any runs again, so that a slow moment
//!    of the machine hits all alike.
//!
//! All but `results` and `turns` is pure.

pub mod axis;
pub mod chart;
pub mod columns;
pub mod flags;
pub mod results;
pub mod row;
pub mod turns;
