//! The report: one HTML file that needs nothing else.
//!
//! Pure. No script and no network: charts lie in it as SVG. Colours follow what the reader's browser prefers; charts are as wide as they must be
//! to be read and scroll by themselves on a narrow screen, so that the page does not.

use super::experiment::{Experiment, Judged, Paper, SkippedFigure, Threads, Verdict};
use super::state::Done;

/// An experiment and what came of it.
#[derive(Debug)]
pub struct Chapter {
    pub experiment: Experiment,
    pub outcome: Outcome,
}

/// What came of an experiment.
#[derive(Debug)]
pub enum Outcome {
    Measured {
        done: Done,
        judged: Judged,
        charts: Vec<String>,
    },
    Failed(String),
    /// It was interrupted, or its turn has not come.
    NotYet,
}

/// What is the same for all of the report.
#[derive(Debug, Clone)]
pub struct Head {
    pub program: String,
    pub machine: String,
    pub quick: bool,
}

/// Text as HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn badge(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Measured { judged, .. } => match judged.verdict() {
            Verdict::Same => ("good", Verdict::Same.word()),
            Verdict::InPart => ("part", Verdict::InPart.word()),
            Verdict::Another => ("bad", Verdict::Another.word()),
        },
        Outcome::Failed(_) => ("bad", "failed"),
        Outcome::NotYet => ("none", "not measured yet"),
    }
}

/// The whole file.
pub fn html(head: &Head, chapters: &[Chapter], left: &[SkippedFigure]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Katydid: the papers' figures</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>The papers' figures, repeated</h1>\n"
    );
    let length = if head.quick { "Quick: short runs, one round each. " } else { "" };
    page += &format!(
        "<p>{} on {}. {length}Figures of one run can be compared with each other; between machines only their shapes can. \
         A verdict is computed from the criteria under each figure; how we stand against the paper's best is told beside it and decides nothing.</p>\n",
        escaped(&head.program),
        escaped(&head.machine)
    );
    page += &summary(chapters);
    for paper in Paper::ALL {
        let of_it: Vec<&Chapter> =
            chapters.iter().filter(|chapter| chapter.experiment.paper == paper).collect();
        if of_it.is_empty() {
            continue;
        }
        page += &format!("<h2>{}</h2>\n", escaped(paper.title()));
        of_it.iter().for_each(|it| page += &chapter(it));
        let left: Vec<&SkippedFigure> = left.iter().filter(|left| left.paper == paper).collect();
        if !left.is_empty() {
            page += "<h3>Not run</h3>\n<ul>\n";
            for left in left {
                page += &format!("<li>{}: {}</li>\n", escaped(left.figures), escaped(left.why));
            }
            page += "</ul>\n";
        }
    }
    page + "</main>\n</body>\n</html>\n"
}

fn summary(chapters: &[Chapter]) -> String {
    let mut table =
        "<div class=\"wide\"><table>\n<thead><tr><th>Figure</th><th>What it shows</th><th>Verdict</th>\
                     <th>Ours, and the paper's best</th></tr></thead>\n<tbody>\n"
            .to_owned();
    for Chapter { experiment, outcome } in chapters {
        let (class, word) = badge(outcome);
        let ours = match outcome {
            Outcome::Measured { judged, .. } => judged.ours.as_str(),
            Outcome::Failed(_) | Outcome::NotYet => "",
        };
        table += &format!(
            "<tr><td><a href=\"#{name}\">{} {}</a></td><td>{}</td><td><span class=\"badge {class}\">{word}</span></td><td>{}</td></tr>\n",
            experiment.paper.word(),
            experiment.figure,
            escaped(experiment.title),
            escaped(ours),
            name = experiment.name(),
        );
    }
    table + "</tbody>\n</table></div>\n"
}

fn chapter(chapter: &Chapter) -> String {
    let Chapter { experiment, outcome } = chapter;
    let (class, word) = badge(outcome);
    let mut text = format!(
        "<section id=\"{}\">\n<h3>Figure {}: {} <span class=\"badge {class}\">{word}</span></h3>\n<dl>\n",
        experiment.name(),
        experiment.figure,
        escaped(experiment.title)
    );
    let on = match experiment.threads {
        Threads::Real => "real threads",
        Threads::Virtual => "virtual threads, simulated",
    };
    for (name, what) in [
        ("The paper ran", experiment.ran),
        ("Here", &format!("{} ({on})", experiment.here)),
        ("The paper saw", experiment.headline),
    ] {
        text += &format!("<dt>{name}</dt><dd>{}</dd>\n", escaped(what));
    }
    match outcome {
        Outcome::Measured { done, judged, charts } => {
            text += &format!(
                "<dt>We see</dt><dd>{}</dd>\n</dl>\n<ul class=\"criteria\">\n",
                escaped(&judged.ours)
            );
            for finding in &judged.findings {
                let (class, word) = if finding.holds { ("good", "holds") } else { ("bad", "does not hold") };
                text += &format!(
                    "<li><span class=\"badge {class}\">{word}</span> {}: <b>{}</b></li>\n",
                    escaped(&finding.asks),
                    escaped(&finding.found)
                );
            }
            text += "</ul>\n";
            for chart in charts {
                text += &format!("<div class=\"wide chart\" tabindex=\"0\">{}</div>\n", inline(chart));
            }
            text += &format!(
                "<p class=\"how\"><code>katydid {}</code><br>{:.0} s, commit {}, {}</p>\n",
                escaped(&done.arguments.join(" ")),
                done.seconds,
                escaped(&done.commit),
                escaped(&done.machine)
            );
        }
        Outcome::Failed(why) => text += &format!("</dl>\n<p>It failed: {}</p>\n", escaped(why)),
        Outcome::NotYet => text += "</dl>\n<p>Not measured yet: run the same command again to go on.</p>\n",
    }
    text + "</section>\n"
}

/// A chart as part of a page: from its root element on.
fn inline(chart: &str) -> &str {
    chart.find("<svg").map_or("", |at| chart[at..].trim_end())
}

const STYLE: &str = "
:root{--page:#fff;--ink:#1a1a1a;--dim:#5a5a5a;--line:#d4d4d4;--card:#fff;--good:#0a6b3d;--part:#8a5a00;--bad:#a3261d;--none:#5a5a5a}
@media(prefers-color-scheme:dark){:root{--page:#15171a;--ink:#e8e8e8;--dim:#a8a8a8;--line:#3c4046;--card:#1d2024;--good:#5fd39a;--part:#e8b75c;
--bad:#ff8a80;--none:#a8a8a8}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;line-height:1.2}h2{font-size:1.25rem;margin-top:2.5rem;border-bottom:1px solid var(--line)}h3{font-size:1.05rem;margin-top:2rem}
a{color:inherit}
dl{display:grid;grid-template-columns:8rem 1fr;gap:.2rem .8rem}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}
.chart svg{display:block;min-width:40rem;width:100%;height:auto;background:var(--card);color:var(--ink)}
.chart svg rect[fill=white]{fill:var(--card)}
.chart svg text{fill:var(--ink)}
.chart svg [stroke='#ddd']{stroke:var(--line)}
.chart svg [stroke='#000000']{stroke:var(--ink)}
table{border-collapse:collapse;width:100%;min-width:40rem;font-size:.9rem}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);
vertical-align:top}
.badge{display:inline-block;padding:0 .5em;border:1px solid currentColor;border-radius:1em;font-size:.8rem;font-weight:600;white-space:nowrap}
.good{color:var(--good)}.part{color:var(--part)}.bad{color:var(--bad)}.none{color:var(--none)}
.criteria{list-style:none;padding:0}.criteria li{margin:.3rem 0}
.how{color:var(--dim);font-size:.85rem;overflow-wrap:anywhere}
@media(max-width:40rem){dl{grid-template-columns:1fr}dt{margin-top:.4rem}}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;

    #[test]
    fn a_report_has_every_chapter_and_escapes_what_it_shows() {
        let chapters: Vec<Chapter> = papers::experiments()
            .into_iter()
            .map(|experiment| Chapter { experiment, outcome: Outcome::Failed("<broken & gone>".to_owned()) })
            .collect();
        let head = Head { program: "katydid 1".to_owned(), machine: "a <machine>".to_owned(), quick: true };
        let page = html(&head, &chapters, &papers::not_run());
        assert!(
            !page.contains("<broken")
                && page.contains("&lt;broken &amp; gone&gt;")
                && !page.contains("<script")
        );
        for chapter in &chapters {
            let id = format!("id=\"{}\"", chapter.experiment.name());
            assert_eq!(page.matches(&id).count(), 1, "{id}");
        }
    }
}
