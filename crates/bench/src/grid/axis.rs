//! Axes are properties of a case that can vary. An axis gives each case a word, and a number if the
//! property has one. This file also makes the lines of charts over axes.
//!
//! Pure functions. All axes that vary, except the x axis, distinguish lines.

use super::chart::{Line, Scale};
use super::row::{Round, Row};

/// A property of a case.
#[derive(Debug)]
pub struct Axis<C> {
    /// Name of the axis below a chart.
    pub name: &'static str,
    /// Word that distinguishes a line; empty if the axis does not apply.
    pub word: fn(&C) -> String,
    /// Position of a case on the axis, if the axis has numbers.
    pub number: fn(&C) -> Option<f64>,
    pub scale: Scale,
}

impl<C> Axis<C> {
    /// An axis with numbers.
    pub const fn of_numbers(
        name: &'static str,
        scale: Scale,
        word: fn(&C) -> String,
        number: fn(&C) -> Option<f64>,
    ) -> Axis<C> {
        Axis { name, word, number, scale }
    }

    /// An axis that only distinguishes lines.
    pub const fn of_words(name: &'static str, word: fn(&C) -> String) -> Axis<C> {
        Axis { name, word, number: |_| None, scale: Scale::Logarithmic }
    }

    /// Returns whether these cases differ on the axis.
    pub fn varies<'c>(&self, cases: impl Iterator<Item = &'c C>) -> bool
    where
        C: 'c,
    {
        let mut words = cases.map(|case| (self.word)(case));
        let first = words.next();
        words.any(|word| Some(&word) != first.as_ref())
    }

    /// Scale of a chart over the axis. It is linear if a value is not above 0, which a logarithmic
    /// scale cannot show.
    pub fn scale_of(&self, lines: &[Line]) -> Scale {
        let zero = lines.iter().flat_map(|line| &line.points).any(|(x, _)| *x <= 0.0);
        if zero { Scale::Linear } else { self.scale }
    }
}

/// Name of a case's line: the case's words on the axes of `apart`.
pub fn name_of_line<C>(case: &C, apart: &[&Axis<C>]) -> String {
    let words = apart.iter().map(|axis| (axis.word)(case)).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(", ")
}

/// Makes a line for each row: the distribution of the row's times, as the percentage of times that
/// are at most x microseconds long. The axes of `apart` name the lines.
pub fn distributions<C, R: Round>(rows: &[Row<C, R>], apart: &[&Axis<C>]) -> Vec<Line> {
    const SHARES: [f64; 15] =
        [0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999];
    let line = |row: &Row<C, R>| {
        let times = row.times().filter(|times| !times.is_empty())?;
        let at = |share: f64| (times.value_at_quantile(share) as f64 / 1e3, share * 100.0);
        Some(Line { name: name_of_line(&row.case, apart), points: SHARES.map(at).to_vec() })
    };
    rows.iter().filter_map(line).collect()
}

/// Makes lines of `height` over an axis. The axes of `apart` name the lines.
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
