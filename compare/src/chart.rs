//! All rows of a run as one chart: the speed of each store relative to Katydid, on a logarithmic
//! scale. Pure functions.

use crate::stores::Row;

/// A line of the chart: the name of the case, and each store's rate divided by Katydid's.
pub struct Line {
    pub title: String,
    pub stores: Vec<(&'static str, f64)>,
}

impl Line {
    /// Makes the line of a case; `None` if Katydid has no result.
    pub fn of(part: &str, case: &[Row]) -> Option<Line> {
        let ours = case.iter().find(|row| row.store.name == "katydid" && !row.rounds.is_empty())?;
        let all = case.iter().filter(|row| !row.rounds.is_empty());
        let stores = all.map(|row| (row.store.name, 1.0 / ours.times(row).max(1e-9))).collect();
        Some(Line { title: format!("{part}, {}", ours.case), stores })
    }
}

const COLOURS: [(&str, &str); 11] = [
    ("katydid", "#0a7d32"),
    ("katydid-memory", "#7bc46b"),
    ("surrealkv", "#c2185b"),
    ("rocksdb", "#1f77b4"),
    ("rocksdb-optimistic", "#8ab8e0"),
    ("fjall", "#e07b00"),
    ("fjall-optimistic", "#f3bd77"),
    ("lmdb", "#6a4fb3"),
    ("redb", "#b3261e"),
    ("sqlite", "#4d4d4d"),
    ("wiredtiger", "#00868b"),
];

const LEFT: f64 = 190.0;
const WIDTH: f64 = 620.0;
const TOP: f64 = 74.0;
const STEP: f64 = 19.0;
/// Ends of the scale.
const LEAST: f64 = 0.01;
const MOST: f64 = 4.0;

fn x(ratio: f64) -> f64 {
    let part = (ratio.clamp(LEAST, MOST) / LEAST).ln() / (MOST / LEAST).ln();
    LEFT + part * WIDTH
}

pub fn svg(lines: &[Line]) -> String {
    let (right, bottom) = (LEFT + WIDTH + 20.0, TOP + STEP * lines.len() as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right} {0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\">Transactions a second beside Katydid's, in one run (further right is faster)</text>\n",
        bottom + 34.0
    );
    let used = COLOURS
        .iter()
        .filter(|(name, _)| lines.iter().any(|line| line.stores.iter().any(|(store, _)| store == name)));
    for (number, (name, colour)) in used.enumerate() {
        let (x, y) = (18.0 + 134.0 * (number % 6) as f64, 38.0 + 16.0 * (number / 6) as f64);
        svg += &format!(
            "<circle cx=\"{x}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"/><text x=\"{}\" y=\"{}\">{name}</text>\n",
            x + 9.0,
            y + 4.0
        );
    }
    for (ratio, label) in
        [(0.01, "1/100"), (0.03, ""), (0.1, "1/10"), (0.3, ""), (0.5, "1/2"), (1.0, "1"), (2.0, "2")]
    {
        svg += &format!(
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{bottom}\" stroke=\"#ddd\"/><text x=\"{0:.1}\" y=\"{2}\" text-anchor=\"middle\">{label}</text>\n",
            x(ratio),
            TOP - 8.0,
            bottom + 18.0
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let y = TOP + STEP * number as f64 + 4.0;
        svg += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 8.0,
            y + 4.0,
            line.title
        );
        // Katydid's dot is drawn last, on top.
        for (name, ratio) in line.stores.iter().rev() {
            let colour = COLOURS.iter().find(|(store, _)| store == name).map_or("#000", |(_, colour)| colour);
            svg += &format!(
                "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"{colour}\"><title>{name}: {ratio:.2}</title></circle>\n",
                x(*ratio)
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faster_store_lies_further_right_and_every_store_has_a_dot() {
        let line = |first, second| Line {
            title: "insert, 8".into(),
            stores: vec![("katydid", first), ("redb", second)],
        };
        let text = svg(&[line(1.0, 0.05), line(1.0, 1.5)]);
        assert_eq!(text.matches("<circle").count(), 2 + 4, "a legend of two, and four dots");
        assert!(x(0.05) < x(1.0) && x(1.0) < x(1.5));
        assert!(text.contains("redb: 1.50") && text.contains("insert, 8"));
    }
}
