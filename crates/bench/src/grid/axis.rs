//! What a case has that can vary, as a word and as a number; and lines of charts over it.
//!
//! Pure. Lines are told apart by everything that varies but what they are drawn over.

use super::chart::{Line, Scale};
use super::row::Row;

/// Something of a case.
#[derive(Debug)]
pub struct Axis<C> {
    /// Its name below a chart.
    pub name: &'static str,
    /// How it tells a line apart; nothing to say is empty.
    pub word: fn(&C) -> String,
    /// Where a case lies on it, if it is a number.
    pub number: fn(&C) -> Option<f64>,
    pub scale: Scale,
}

impl<C> Axis<C> {
    /// An axis with numbers on it.
    pub const fn of_numbers(
        name: &'static str,
        scale: Scale,
        word: fn(&C) -> String,
        number: fn(&C) -> Option<f64>,
    ) -> Axis<C> {
        Axis { name, word, number, scale }
    }

    /// An axis that only tells lines apart.
    pub const fn of_words(name: &'static str, word: fn(&C) -> String) -> Axis<C> {
        Axis { name, word, number: |_| None, scale: Scale::Logarithmic }
    }

    /// Whether these cases differ in it.
    pub fn varies<'c>(&self, cases: impl Iterator<Item = &'c C>) -> bool
    where
        C: 'c,
    {
        let mut words = cases.map(|case| (self.word)(case));
        let first = words.next();
        words.any(|word| Some(&word) != first.as_ref())
    }

    /// How charts over it are scaled: logarithms need values above zero.
    pub fn scale_of(&self, lines: &[Line]) -> Scale {
        let zero = lines.iter().flat_map(|line| &line.points).any(|(x, _)| *x <= 0.0);
        if zero { Scale::Linear } else { self.scale }
    }
}

/// What tells a case's line apart: the words of these axes.
pub fn name_of_line<C>(case: &C, apart: &[&Axis<C>]) -> String {
    let words = apart.iter().map(|axis| (axis.word)(case)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(", ")
}

/// Lines of `height` over an axis; `apart` tells them apart.
pub fn lines<C, R>(
    rows: &[Row<C, R>],
    over: &Axis<C>,
    apart: &[&Axis<C>],
    height: impl Fn(&Row<C, R>) -> Option<f64>,
) -> Vec<Line> {
    let apart: Vec<&Axis<C>> = apart.iter().copied().filter(|axis| axis.name != over.name).collect();
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let (Some(x), Some(y)) = ((over.number)(&row.case), height(row)) else { continue };
        let name = name_of_line(&row.case, &apart);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push((x, y)),
            None => lines.push(Line { name, points: vec![(x, y)] }),
        }
    }
    lines
}
