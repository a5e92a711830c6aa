//! Backups: what is in them, what a failure leaves, and what is refused. Both engines.
//!
//! | file | what |
//! |---|---|
//! | `model` | transactions that remember what they did, and the check of a copy against that |
//! | `beside` | backups beside transactions, checkpoints and eviction, by one thread in the order of a seed, and by several threads |
//! | `compact` | a database that is rewritten without its free pages |
//! | `crash` | the machine of the copy, or of its source, ends at each call of a backup; full and failing devices |
//! | `increments` | changes since a backup, and chains of increments |
//! | `repair` | losers of a crash that is repaired, and a crash at each call of a repair |
//! | `torn` | pages that are read while they are written |
//! | `refused` | folders that are no backups, and copies that meet each other |

#[macro_use]
#[path = "../common/mod.rs"]
mod common;

mod beside;
mod compact;
mod crash;
mod increments;
mod model;
mod refused;
mod repair;
mod torn;
