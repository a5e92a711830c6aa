//! The measuring grid runs cases in rounds, and shows their rows as a table, as CSV and as charts.
//! All measurements that consist of cases use it.
//!
//! 1. A **case** consists of the settings that a run needs. A **round** is one run of each case. A
//!    **row** is a case with its rounds.
//! 2. Cases that are measured together belong to one value of a type that implements [`Grid`]: a
//!    sweep of inserters, or a figure about commits. The type declares columns and axes as tables
//!    of functions; this module turns rows into text, CSV and charts.
//! 3. Every case has run once before any case runs again, so that a slow moment of the machine
//!    affects all cases alike.
//!
//! All modules except `results` and `turns` are pure.

pub mod axis;
pub mod bars;
pub mod chart;
pub mod columns;
pub mod flags;
pub mod results;
pub mod row;
pub mod turns;
