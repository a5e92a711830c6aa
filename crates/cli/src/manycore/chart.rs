//! A chart of rows as SVG: megabytes a second over what varies, a line for each design.
//!
//! Pure. Both axes are logarithmic: straight lines are what scales.

use super::run::Row;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 460.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Told apart by most people (Okabe and Ito), and one more.
const COLOURS: [&str; 9] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#c8b400", "#0072b2", "#d55e00", "#cc79a7", "#777777"];

type Field = fn(&Row) -> Option<usize>;

/// What a row is drawn over, and what else tells lines apart.
const AXES: [(&str, Field); 4] = [
    ("threads", |row| Some(row.plan.threads)),
    ("bytes of the outlier", |row| row.sizes().1),
    ("bytes of a record", |row| Some(row.sizes().0)),
    ("slots", |row| Some(row.plan.slots)),
];

fn varies(rows: &[Row], of: Field) -> bool {
    rows.iter().any(|row| of(row) != of(&rows[0]))
}

/// The chart.
pub fn draw(title: &str, rows: &[Row]) -> String {
    let varying: Vec<_> = AXES.iter().filter(|(_, of)| varies(rows, *of)).collect();
    let &(over, x_of) = varying.first().copied().unwrap_or(&AXES[0]);
    let x_of = |row: &Row| x_of(row).unwrap_or(0).max(1) as f64;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for row in rows {
        let mut name = row.plan.inserter.clone();
        for (what, of) in varying.iter().skip(1) {
            name += &format!(", {} {what}", of(row).unwrap_or(0));
        }
        let point = (x_of(row), row.outcome.megabytes_per_second.max(0.1));
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    let points = || lines.iter().flat_map(|line| &line.1);
    let span = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) =
            points().map(of).fold((f64::MAX, 0.0_f64), |(low, high), at| (low.min(at), high.max(at)));
        if low < high { (low, high) } else { (low / 2.0, high * 2.0) }
    };
    let ((x_low, x_high), (y_low, y_high)) = (span(|point| point.0), span(|point| point.1));
    let x = |at: f64| LEFT + (at / x_low).ln() / (x_high / x_low).ln() * (WIDTH - LEFT - RIGHT);
    let y = |at: f64| HEIGHT - BOTTOM - (at / y_low).ln() / (y_high / y_low).ln() * (HEIGHT - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}, simulated</text>\n\
         <text x=\"{LEFT}\" y=\"{:.0}\">{over}</text>\n<text x=\"6\" y=\"{:.0}\">MB/s</text>\n",
        escaped(title),
        HEIGHT - 12.0,
        TOP - 4.0
    );
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    for at in ticks {
        let (x, bottom) = (x(at), HEIGHT - BOTTOM);
        svg += &format!(
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{at}</text>\n",
            bottom + 16.0
        );
    }
    for at in (-1..12).flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power))) {
        if (y_low..=y_high).contains(&at) {
            let (y, right) = (y(at), WIDTH - RIGHT);
            svg += &format!(
                "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>\n",
                LEFT - 6.0,
                y + 4.0
            );
        }
    }
    for (number, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> = points.iter().map(|&(px, py)| format!("{:.1},{:.1}", x(px), y(py))).collect();
        let key = TOP + 16.0 * number as f64;
        svg += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{}</text>\n",
            path.join(" "),
            WIDTH - RIGHT + 10.0,
            key + 10.0,
            escaped(name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
