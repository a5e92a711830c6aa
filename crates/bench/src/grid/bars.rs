//! Draws a chart of stacked bars as SVG.
//!
//! Pure functions. A bar is a row of the chart, and is divided into parts that sum to at most
//! 100 %. Bars of one group stand below the name of the group.

use super::chart::{COLOURS, NAME_CHARS, RIGHT, ROW, WIDTH, escaped, texts_above, whole, wrapped};

/// x position at which bars begin. All lengths and positions in this file are in pixels.
const LEFT: f64 = 90.0;
const THICKNESS: f64 = 12.0;
/// Percentages at which a grid line is drawn.
const TICKS: [f64; 5] = [0.0, 25.0, 50.0, 75.0, 100.0];
/// Width and height of the coloured square before the name of a part.
const SQUARE: f64 = 11.0;

/// A bar.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    pub group: String,
    pub name: String,
    /// Percentages, in the order of the parts' names.
    pub parts: Vec<f64>,
}

/// Contents of a chart of bars.
#[derive(Debug, Clone)]
pub struct Bars {
    pub title: String,
    pub subtitle: String,
    /// Quantity that the bars divide.
    pub of: String,
    /// Names of the parts.
    pub parts: Vec<String>,
    /// Bars, group by group.
    pub bars: Vec<Bar>,
}

/// Draws a chart of bars.
pub fn draw(chart: &Bars) -> String {
    let (top, mut svg) = texts_above(&chart.title, &chart.subtitle, &chart.of);
    let x = |percent: f64| LEFT + percent.clamp(0.0, 100.0) / 100.0 * (WIDTH - LEFT - RIGHT);
    let mut rows = String::new();
    let mut below = top;
    let mut group = None;
    for bar in &chart.bars {
        if group != Some(&bar.group) {
            group = Some(&bar.group);
            let middle = below + THICKNESS;
            rows += &format!("<text x=\"6\" y=\"{middle:.0}\">{}</text>\n", escaped(&bar.group));
            below += ROW;
        }
        rows += &format!(
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            below + SQUARE,
            escaped(&bar.name)
        );
        let mut before = 0.0;
        for (part, colour) in bar.parts.iter().zip(COLOURS[1..].iter().cycle()) {
            let (from, to) = (x(before), x(before + part));
            rows += &format!(
                "<rect x=\"{from:.1}\" y=\"{below:.0}\" width=\"{:.1}\" height=\"{THICKNESS}\" fill=\"{colour}\"/>",
                to - from
            );
            before += part;
        }
        rows.push('\n');
        below += ROW;
    }
    for at in TICKS {
        svg += &format!(
            "<path d=\"M{x:.1} {top}V{below}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{at}</text>\n",
            below + ROW,
            x = x(at)
        );
    }
    svg += &rows;
    let mut key = below + 3.0 * ROW;
    for (name, colour) in chart.parts.iter().zip(COLOURS[1..].iter().cycle()) {
        svg += &format!(
            "<rect x=\"10\" y=\"{:.0}\" width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"{colour}\"/>",
            key - SQUARE + 1.0
        );
        for row in wrapped(name, NAME_CHARS) {
            svg += &format!("<text x=\"30\" y=\"{key:.0}\">{}</text>\n", escaped(&row));
            key += ROW;
        }
    }
    whole(key, &svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left edges and widths of the parts of all bars.
    fn parts(svg: &str) -> Vec<(f64, f64)> {
        let bars = svg.lines().filter(|line| line.contains("text-anchor=\"end\""));
        let number = |part: &str, name: &str| -> f64 {
            let after = part.split(&format!(" {name}=\"")).nth(1).unwrap();
            after.split('"').next().unwrap().parse().unwrap()
        };
        bars.flat_map(|bar| bar.split("<rect").skip(1))
            .map(|part| (number(part, "x"), number(part, "width")))
            .collect()
    }

    #[test]
    fn parts_of_a_bar_lie_end_to_end_and_are_as_wide_as_their_shares() {
        let bar = |group: &str, parts: &[f64]| Bar {
            group: group.to_owned(),
            name: "8 <threads>".to_owned(),
            parts: parts.to_vec(),
        };
        let words = || "x & y".to_owned();
        let chart = Bars {
            title: words(),
            subtitle: words(),
            of: words(),
            parts: ["in programs", "idle"].map(str::to_owned).to_vec(),
            bars: vec![bar("one", &[25.0, 75.0]), bar("one", &[0.0, 60.0]), bar("two", &[90.0, 90.0])],
        };
        let svg = draw(&chart);
        assert!(!svg.contains("<threads>") && !svg.contains("& "), "{svg}");
        assert_eq!(svg.matches(">one<").count(), 1);
        let parts = parts(&svg);
        let whole = WIDTH - LEFT - RIGHT;
        let shares: Vec<f64> = parts.iter().map(|(_, width)| (width / whole * 100.0).round()).collect();
        assert_eq!(shares, [25.0, 75.0, 0.0, 60.0, 90.0, 10.0], "{svg}");
        for bar in parts.chunks(2) {
            assert!((bar[0].0 + bar[0].1 - bar[1].0).abs() < 0.11, "{svg}");
        }
    }
}
