//! Work of a single client, and the states that a crash may leave.
//!
//! The client runs one transaction after the other, so the log holds them in that order and a crash
//! cuts the log somewhere. The recovered store must equal the state after the first n units, for
//! some n, and these n units must include all acknowledged ones.

use std::collections::BTreeMap;

pub type Model = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

/// A change that happens whole or not at all.
#[derive(Debug, Clone)]
pub enum Unit {
    Create(String),
    Drop(String),
    Commit(Vec<(String, Vec<u8>, Option<Vec<u8>>)>),
}

#[derive(Debug, Clone, Default)]
pub struct History {
    generation: u64,
    base: Model,
    units: Vec<Unit>,
    acknowledged: usize,
}

pub fn apply(model: &mut Model, unit: &Unit) {
    match unit {
        Unit::Create(name) => {
            model.entry(name.clone()).or_default();
        }
        Unit::Drop(name) => {
            model.remove(name);
        }
        Unit::Commit(writes) => {
            for (table, key, value) in writes {
                let rows = model.get_mut(table).expect("a table that was created");
                match value {
                    Some(value) => rows.insert(key.clone(), value.clone()),
                    None => rows.remove(key),
                };
            }
        }
    }
}

impl History {
    /// Records a unit that is about to be committed. Returns its number.
    pub fn attempt(&mut self, unit: Unit) -> usize {
        self.units.push(unit);
        self.units.len()
    }

    /// Returns a number that no unit before has had.
    pub fn next(&self) -> u64 {
        self.generation << 32 | self.units.len() as u64
    }

    /// Notes that everything up to unit number `count` was acknowledged as durable.
    pub fn acknowledge(&mut self, count: usize) {
        self.acknowledged = self.acknowledged.max(count);
    }

    /// Returns the state after all units.
    pub fn state(&self) -> Model {
        let mut model = self.base.clone();
        for unit in &self.units {
            apply(&mut model, unit);
        }
        model
    }

    /// Returns the number of units that `found` contains. Panics if `found` is no state that a
    /// crash may leave.
    pub fn survivors(&self, found: &Model) -> usize {
        let mut model = self.base.clone();
        for (nth, unit) in self.units.iter().enumerate() {
            if nth >= self.acknowledged && model == *found {
                return nth;
            }
            apply(&mut model, unit);
        }
        if model == *found {
            return self.units.len();
        }
        self.explain(found);
        panic!("no state after {} to {} units is what recovery left", self.acknowledged, self.units.len());
    }

    /// Starts anew from the state that survived.
    pub fn settle(&mut self, found: Model) {
        *self = History { base: found, generation: self.generation + 1, ..History::default() };
    }

    fn explain(&self, found: &Model) {
        let mut model = self.base.clone();
        for unit in &self.units[..self.acknowledged] {
            apply(&mut model, unit);
        }
        println!("tables found: {:?}", found.keys().collect::<Vec<_>>());
        println!("tables acknowledged: {:?}", model.keys().collect::<Vec<_>>());
        for (name, rows) in &model {
            let empty = BTreeMap::new();
            let other = found.get(name).unwrap_or(&empty);
            for (key, value) in rows {
                let text = String::from_utf8_lossy(key);
                match other.get(key) {
                    None => println!("{name}: {text} is missing"),
                    Some(found) if found != value => println!(
                        "{name}: {text} has {} bytes {:?}, acknowledged {} bytes {:?}",
                        found.len(),
                        &found[..found.len().min(8)],
                        value.len(),
                        &value[..value.len().min(8)]
                    ),
                    Some(_) => {}
                }
            }
            for key in other.keys().filter(|key| !rows.contains_key(*key)) {
                println!("{name}: {} is there, acknowledged absent", String::from_utf8_lossy(key));
            }
        }
        // If `found` is the state after fewer units, the last acknowledged units were lost. If
        // `found` is no such state, a unit in the middle was lost, or a part of a unit.
        let mut near = self.base.clone();
        for (nth, unit) in self.units.iter().enumerate() {
            if near == *found {
                println!("it is the state after {nth} units");
            }
            apply(&mut near, unit);
        }
        for (nth, unit) in self.units.iter().enumerate().rev().take(12) {
            println!("unit {}: {}", nth + 1, short(unit));
        }
        println!(
            "not acknowledged: {:?}",
            self.units[self.acknowledged..].iter().map(short).collect::<Vec<_>>()
        );
    }
}

fn short(unit: &Unit) -> String {
    match unit {
        Unit::Create(name) => format!("create {name}"),
        Unit::Drop(name) => format!("drop {name}"),
        Unit::Commit(writes) => {
            let one = |(table, key, value): &(String, Vec<u8>, Option<Vec<u8>>)| {
                let value = value.as_ref().map(|value| (value.len(), value.first().copied()));
                format!("{table}/{}={value:?}", String::from_utf8_lossy(key))
            };
            writes.iter().map(one).collect::<Vec<_>>().join(" ")
        }
    }
}
