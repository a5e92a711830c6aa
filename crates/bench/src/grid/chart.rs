//! A chart as SVG.
//!
//! Pure. On logarithmic axes straight lines are what scales.

const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 50.0;
/// From one line's name to the next one's.
const KEY: f64 = 16.0;
/// As many points to the right are each named below; more are not.
const TICKS_MAX: usize = 20;
/// Told apart by most people (Okabe and Ito), and one more.
const COLOURS: [&str; 9] =
    ["#000000", "#e69f00", "#56b4e9", "#009e73", "#c8b400", "#0072b2", "#d55e00", "#cc79a7", "#777777"];
/// When the colours are used up, they come again with these.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "10 3 2 3"];

/// How values become lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Of values above zero.
    Logarithmic,
}

impl Scale {
    fn of(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.ln(),
        }
    }

    /// From the least to the greatest value that is drawn; never an empty span.
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

    /// Values with a line across.
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

/// One line and its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What is drawn.
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

/// Draws it.
pub fn draw(picture: &Picture) -> String {
    let Picture { x_scale, y_scale, lines, .. } = picture;
    let points = || lines.iter().flat_map(|line| &line.points);
    let x_span = x_scale.span(points().map(|point| point.0));
    let y_span = y_scale.span(points().map(|point| point.1));
    let height = HEIGHT.max(TOP + BOTTOM + KEY * lines.len() as f64);
    let part = |scale: &Scale, (low, high): (f64, f64), at: f64| {
        (scale.of(at) - scale.of(low)) / (scale.of(high) - scale.of(low))
    };
    let x = |at: f64| LEFT + part(x_scale, x_span, at) * (WIDTH - LEFT - RIGHT);
    let y = |at: f64| height - BOTTOM - part(y_scale, y_span, at) * (height - TOP - BOTTOM);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{}</text>\n<text x=\"{LEFT}\" y=\"38\">{}</text>\n\
         <text x=\"{LEFT}\" y=\"{:.0}\">{}</text>\n<text x=\"6\" y=\"{:.0}\">{}</text>\n",
        escaped(&picture.title),
        escaped(&picture.subtitle),
        height - 12.0,
        escaped(&picture.x_name),
        TOP - 8.0,
        escaped(&picture.y_name)
    );
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    if ticks.len() > TICKS_MAX {
        ticks = x_scale.ticks(x_span);
    }
    for at in ticks {
        let (x, bottom) = (x(at), height - BOTTOM);
        svg += &format!(
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{at}</text>\n",
            bottom + 16.0
        );
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
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dashes = DASHES[number / COLOURS.len() % DASHES.len()];
        let path: Vec<String> =
            line.points.iter().map(|&(px, py)| format!("{:.1},{:.1}", x(px), y(py))).collect();
        let key = TOP + KEY * number as f64;
        svg += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\n\
             <path d=\"M{:.0} {:.0}h18\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{}</text>\n",
            path.join(" "),
            WIDTH - RIGHT + 10.0,
            key + 6.0,
            WIDTH - RIGHT + 33.0,
            key + 10.0,
            escaped(&line.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Few enough digits for the room at the left.
fn short(at: f64) -> String {
    match at {
        _ if at >= 1e6 => format!("{}M", at / 1e6),
        _ if at >= 1e4 => format!("{}k", at / 1e3),
        _ => format!("{}", (at * 1000.0).round() / 1000.0),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

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
