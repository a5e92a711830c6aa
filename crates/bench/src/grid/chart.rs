//! Draws a chart as SVG.
//!
//! Pure functions. A chart is narrow enough to be readable on the screen of a telephone. The names
//! of lines stand below the plot, in as many rows of text as they need. Markers are drawn as
//! outlines. Lines take the shapes and sizes of markers in turn, so up to 21 lines can be
//! distinguished where they lie on each other. Module [`super::bars`] draws charts of bars.

use super::bars::{self, Bars};

pub(super) const WIDTH: f64 = 480.0;
/// Height of the plot in pixels. All lengths and positions in this file are in pixels.
const PLOT: f64 = 300.0;
const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 14.0;
/// Height between the plot and the first name of a line. The numbers and the name of the x axis
/// stand in this space.
const AXIS: f64 = 56.0;
/// Height of a row of text.
pub(super) const ROW: f64 = 16.0;
/// x position at which names of lines begin.
const NAMES: f64 = 50.0;
/// Maximum characters in a row of a title. The widest titles take 7 pixels a character, all other
/// texts 6.
const TITLE_CHARS: usize = 60;
const TEXT_CHARS: usize = 68;
pub(super) const NAME_CHARS: usize = 62;
/// Width of a digit below the plot.
const DIGIT: f64 = 7.0;
/// Maximum number of points on the x axis that each get a number. With more points, round numbers
/// are shown.
const TICKS_MAX: usize = 20;
/// Colours that most people can distinguish (Okabe and Ito), and one more.
pub(super) const COLOURS: [&str; 9] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#c8b400", "#0072b2", "#d55e00", "#cc79a7", "#777777"];
/// Dashes of lines, used in turn when the colours repeat.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "10 3 2 3"];
/// Shapes of markers, as paths of corners relative to the marked point, in units of a marker's
/// radius. The number of shapes has no common factor with the number of colours, so 63 lines differ
/// in colour or shape.
const MARKERS: [&[(f64, f64)]; 7] = [
    &[(1.0, 1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (1.0, 1.0)],
    &[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0), (0.0, -1.3)],
    &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8), (0.0, -1.2)],
    &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8), (0.0, 1.2)],
    &[(1.2, 0.0), (0.5, 1.0), (-0.5, 1.0), (-1.2, 0.0), (-0.5, -1.0), (0.5, -1.0), (1.2, 0.0)],
    &[(-1.1, -1.1), (1.1, 1.1), (0.0, 0.0), (1.1, -1.1), (-1.1, 1.1)],
    &[(0.0, -1.4), (0.0, 1.4), (0.0, 0.0), (-1.4, 0.0), (1.4, 0.0)],
];
/// Radii of markers, used in turn, so that equal shapes at one point differ in size.
const RADII: [f64; 3] = [3.2, 4.4, 5.6];

/// Scale by which values become lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// A scale of logarithms, for values above 0.
    Logarithmic,
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.ln(),
        }
    }

    /// The least and the greatest drawn value. The span is never empty.
    fn span(self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), at| (f64::min(low, at), f64::max(high, at)));
        match self {
            _ if low > high => (1.0, 2.0),
            Scale::Logarithmic if low == high => (low / 2.0, high * 2.0),
            Scale::Linear if low == high => (low - 1.0, high + 1.0),
            _ => (low, high),
        }
    }

    /// Values at which a grid line is drawn.
    fn ticks(self, (low, high): (f64, f64)) -> Vec<f64> {
        match self {
            Scale::Logarithmic => (-3..12)
                .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10_f64.powi(power)))
                .filter(|at| (low..=high).contains(at))
                .collect(),
            Scale::Linear => {
                let step = 10_f64.powf((high - low).log10().floor()) / 2.0;
                (0..=20)
                    .map(|number| ((low / step).ceil() + f64::from(number)) * step)
                    .filter(|at| *at <= high)
                    .collect()
            }
        }
    }
}

/// A line with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Contents of a chart.
#[derive(Debug, Clone)]
pub struct Picture {
    pub title: String,
    pub subtitle: String,
    pub x_name: String,
    pub y_name: String,
    pub x_scale: Scale,
    pub y_scale: Scale,
    pub lines: Vec<Line>,
}

/// Contents of a chart of either kind.
#[derive(Debug, Clone)]
pub enum Drawing {
    Lines(Picture),
    Bars(Bars),
}

impl Drawing {
    /// Draws the chart.
    pub fn svg(&self) -> String {
        match self {
            Drawing::Lines(picture) => draw(picture),
            Drawing::Bars(bars) => bars::draw(bars),
        }
    }
}

/// Draws a chart of lines.
pub fn draw(picture: &Picture) -> String {
    let Picture { x_scale, y_scale, lines, .. } = picture;
    let points = || lines.iter().flat_map(|line| &line.points);
    let x_span = x_scale.span(points().map(|point| point.0));
    let y_span = y_scale.span(points().map(|point| point.1));
    let names: Vec<Vec<String>> = lines.iter().map(|line| wrapped(&line.name, NAME_CHARS)).collect();
    let (top, mut svg) = texts_above(&picture.title, &picture.subtitle, &picture.y_name);
    let bottom = top + PLOT;
    let height = bottom + AXIS + ROW * names.iter().map(Vec::len).sum::<usize>() as f64;
    let part = |scale: &Scale, (low, high): (f64, f64), at: f64| {
        (scale.of(at) - scale.of(low)) / (scale.of(high) - scale.of(low))
    };
    let x = |at: f64| LEFT + part(x_scale, x_span, at) * (WIDTH - LEFT - RIGHT);
    let y = |at: f64| bottom - part(y_scale, y_span, at) * PLOT;
    svg += &format!(
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n",
        WIDTH - RIGHT,
        bottom + 34.0,
        escaped(&picture.x_name)
    );
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    if ticks.len() > TICKS_MAX {
        ticks = x_scale.ticks(x_span);
    }
    let mut free = 0.0;
    for at in ticks {
        let (x, text) = (x(at), short(at));
        let half = text.len() as f64 * DIGIT / 2.0;
        svg += &format!("<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>");
        // Leave out a number that would overlap the number before it, or cross the edge.
        if x - half >= free && x + half <= WIDTH {
            svg += &format!(
                "<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{text}</text>",
                bottom + 16.0
            );
            free = x + half + DIGIT;
        }
        svg.push('\n');
    }
    for at in y_scale.ticks(y_span) {
        let (y, right) = (y(at), WIDTH - RIGHT);
        svg += &format!(
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
            LEFT - 6.0,
            y + 4.0,
            short(at)
        );
    }
    let mut key = bottom + AXIS;
    for (number, (line, names)) in lines.iter().zip(&names).enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dashes = DASHES[number / COLOURS.len() % DASHES.len()];
        let drawn: Vec<(f64, f64)> = line.points.iter().map(|&(px, py)| (x(px), y(py))).collect();
        let path: Vec<String> = drawn.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let markers: String =
            drawn.iter().chain([&(27.0, key - 4.0)]).map(|point| marker(*point, number)).collect();
        svg += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\n\
             <path d=\"M10 {:.0}h34\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\
             <path d=\"{markers}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n",
            path.join(" "),
            key - 4.0,
        );
        for name in names {
            svg += &format!("<text x=\"{NAMES}\" y=\"{key:.0}\">{}</text>\n", escaped(name));
            key += ROW;
        }
    }
    whole(height, &svg)
}

/// Texts above a plot, and the height at which the plot begins.
pub(super) fn texts_above(title: &str, subtitle: &str, y_name: &str) -> (f64, String) {
    let title = wrapped(title, TITLE_CHARS);
    let subtitle = wrapped(subtitle, TEXT_CHARS);
    let top = 14.0 + ROW * (title.len() + subtitle.len()) as f64 + ROW + 6.0;
    let mut svg = String::new();
    let mut row = 14.0;
    for (size, text) in title.iter().map(|text| (13, text)).chain(subtitle.iter().map(|text| (12, text))) {
        svg += &format!("<text x=\"6\" y=\"{row}\" font-size=\"{size}\">{}</text>\n", escaped(text));
        row += ROW;
    }
    svg += &format!("<text x=\"6\" y=\"{:.0}\">{}</text>\n", top - 8.0, escaped(y_name));
    (top, svg)
}

/// Returns the SVG text of a picture of this height, with these contents.
pub(super) fn whole(height: f64, contents: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{contents}</svg>\n"
    )
}

/// A line's marker around a point, as a path.
fn marker((x, y): (f64, f64), number: usize) -> String {
    let radius = RADII[number % RADII.len()];
    let corners = MARKERS[number % MARKERS.len()].iter().enumerate();
    let corner = |(at, (right, down)): (usize, &(f64, f64))| {
        let word = if at == 0 { 'M' } else { 'L' };
        format!("{word}{:.1} {:.1}", x + right * radius, y + down * radius)
    };
    corners.map(corner).collect()
}

/// Splits a text into rows of at most `chars_max` characters. Returns at least one row. A word that
/// is longer than a row continues in the next row.
pub(super) fn wrapped(text: &str, chars_max: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split_whitespace() {
        for part in word.chars().collect::<Vec<_>>().chunks(chars_max) {
            let part: String = part.iter().collect();
            let last = rows.len() - 1;
            let length = rows[last].chars().count();
            if length == 0 {
                rows[last] = part;
            } else if length + 1 + part.chars().count() <= chars_max {
                rows[last] += &format!(" {part}");
            } else {
                rows.push(part);
            }
        }
    }
    rows
}

/// A number in few enough digits for the space on the left.
fn short(at: f64) -> String {
    match at {
        _ if at >= 1e6 => format!("{}M", at / 1e6),
        _ if at >= 1e4 => format!("{}k", at / 1e3),
        _ => format!("{}", (at * 1000.0).round() / 1000.0),
    }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_and_markers_differ_where_lines_lie_on_each_other() {
        let rows = wrapped("a line's name of several words, and anunbrokenwordthatislongerthanarow", 20);
        assert!(rows.iter().all(|row| row.chars().count() <= 20), "{rows:?}");
        assert_eq!(
            rows.concat().replace(' ', ""),
            "aline'snameofseveralwords,andanunbrokenwordthatislongerthanarow"
        );
        assert_eq!(wrapped("", 20), [""]);
        let at = |number| marker((100.0, 100.0), number);
        for number in 0..MARKERS.len() * RADII.len() {
            assert!((0..number).all(|other| at(other) != at(number)), "{number}");
        }
    }

    #[test]
    fn whatever_is_drawn_lies_within_the_picture() {
        let line = |points: &[(f64, f64)]| Line { name: "a <b>".to_owned(), points: points.to_vec() };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            for lines in [
                vec![],
                vec![line(&[(1.0, 5.0)])],
                vec![line(&[(1.0, 0.1), (2.0, 1e9)]), line(&[(64.0, 3.0)])],
                vec![line(&[(1.0, 1.0), (10.0, 1.0)]); 60],
            ] {
                let words = || "x & y".to_owned();
                let picture = Picture {
                    title: words(),
                    subtitle: words(),
                    x_name: words(),
                    y_name: words(),
                    x_scale: scale,
                    y_scale: scale,
                    lines,
                };
                let svg = draw(&picture);
                assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(!svg.contains("<b>") && !svg.contains("& "), "{svg}");
                let height: f64 = svg
                    .split("height=\"")
                    .nth(1)
                    .and_then(|rest| rest.split('"').next())
                    .unwrap()
                    .parse()
                    .unwrap();
                let drawn = svg
                    .split("points=\"")
                    .skip(1)
                    .flat_map(|rest| rest.split('"').next().unwrap().split(' '));
                for point in drawn {
                    let (x, y) = point.split_once(',').unwrap();
                    let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                    assert!((0.0..=WIDTH).contains(&x) && (0.0..=height).contains(&y), "{point}");
                }
            }
        }
    }
}
