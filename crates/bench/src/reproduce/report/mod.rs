//! The report: one self-contained HTML file.
//!
//! Pure functions. The file has no scripts and needs no network; it contains its charts as SVG.
//! Colours follow the preference of the reader's browser. On a narrow screen the rows of a table
//! become lists and charts shrink, so that nothing scrolls sideways.

use super::criterion::{Answer, Finding, Verdict};
use super::experiment::{Experiment, Judged, Paper, SkippedFigure, Threads};
use super::interval::ROUNDS_MIN;
use super::state::Done;

/// An experiment with its outcome.
#[derive(Debug)]
pub struct Chapter {
    pub experiment: Experiment,
    pub outcome: Outcome,
}

/// Result of an experiment.
#[derive(Debug)]
pub enum Outcome {
    Measured {
        done: Done,
        judged: Judged,
        charts: Vec<String>,
    },
    Failed(String),
    /// The experiment was interrupted or has not started.
    NotYet,
}

/// Facts that hold for the whole report.
#[derive(Debug, Clone)]
pub struct Head {
    pub program: String,
    pub machine: String,
    pub quick: bool,
}

/// Escapes a text for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Prose as HTML. Text between backticks becomes code.
fn prose(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate();
    parts
        .map(|(at, part)| if at % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

fn badge(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Measured { judged, .. } => match judged.verdict() {
            Verdict::Same => ("good", Verdict::Same.word()),
            Verdict::InPart => ("part", Verdict::InPart.word()),
            Verdict::Another => ("bad", Verdict::Another.word()),
            verdict @ (Verdict::WithinError | Verdict::NotDecided) => ("none", verdict.word()),
        },
        Outcome::Failed(_) => ("bad", "failed"),
        Outcome::NotYet => ("none", "not measured yet"),
    }
}

fn badge_of(answer: Answer) -> String {
    let class = match answer {
        Answer::Holds => "good",
        Answer::Fails => "bad",
        Answer::WithinError | Answer::NotDecided(_) => "none",
    };
    format!("<span class=\"badge {class}\">{}</span>", answer.words())
}

/// The HTML of the whole report.
pub fn html(head: &Head, chapters: &[Chapter], left: &[SkippedFigure]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Katydid: the papers' figures</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>The papers' figures, repeated</h1>\n"
    );
    let length = if head.quick { "This is a quick run: its rounds are short. " } else { "" };
    page += &format!(
        "<p>{} on {}. {length}Numbers of one run can be compared with each other; between machines only their shapes can.</p>\n\
         <p>Under each figure stand the claims of the paper's text, each with the paper's own value and the median and interval of our rounds. \
         A claim holds if all of the interval lies between two bounds, and fails if none of it does. It is not decided with fewer than {ROUNDS_MIN} \
         rounds, without the rows that it is about, or if the interval crosses a bound. Claims about simulated threads are within error unless \
         they hold or fail for every machine within the simulator's error. How we stand against the paper's best decides nothing.</p>\n",
        escaped(&head.program),
        escaped(&head.machine)
    );
    page += &contents(chapters);
    page += &summary(chapters);
    for paper in Paper::ALL {
        let of_it: Vec<&Chapter> =
            chapters.iter().filter(|chapter| chapter.experiment.paper == paper).collect();
        if of_it.is_empty() {
            continue;
        }
        page += &format!("<h2 id=\"{}\">{}</h2>\n", paper.word(), escaped(paper.title()));
        of_it.iter().for_each(|it| page += &chapter(it));
        let left: Vec<&SkippedFigure> = left.iter().filter(|left| left.paper == paper).collect();
        if !left.is_empty() {
            page += "<h3>Not run</h3>\n<ul>\n";
            for left in left {
                page += &format!("<li>{}: {}</li>\n", escaped(left.figures), prose(left.why));
            }
            page += "</ul>\n";
        }
    }
    page + "</main>\n</body>\n</html>\n"
}

fn contents(chapters: &[Chapter]) -> String {
    let mut list =
        "<nav id=\"contents\" aria-label=\"Contents\">\n<h2>Contents</h2>\n<ul>\n<li><a href=\"#summary\">All verdicts</a></li>\n".to_owned();
    for paper in Paper::ALL {
        let of_it: Vec<&Chapter> =
            chapters.iter().filter(|chapter| chapter.experiment.paper == paper).collect();
        if of_it.is_empty() {
            continue;
        }
        list += &format!("<li><a href=\"#{}\">{}</a>\n<ul>\n", paper.word(), escaped(paper.title()));
        for Chapter { experiment, .. } in of_it {
            list += &format!(
                "<li><a href=\"#{}\">{}: {}</a></li>\n",
                experiment.name(),
                experiment.label(),
                prose(experiment.title)
            );
        }
        list += "</ul></li>\n";
    }
    list + "</ul>\n</nav>\n"
}

/// A table's head and rows. Each cell except the first of a row also names its column, for screens
/// that are too narrow for columns.
fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let names: String = columns.iter().map(|name| format!("<th>{name}</th>")).collect();
    let mut table = format!("<table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n");
    for row in rows {
        table += "<tr>";
        for (at, (name, field)) in columns.iter().zip(&row).enumerate() {
            let name = if at == 0 { String::new() } else { format!(" data-name=\"{name}\"") };
            table += &format!("<td{name}>{field}</td>");
        }
        table += "</tr>\n";
    }
    table + "</tbody>\n</table>\n"
}

fn summary(chapters: &[Chapter]) -> String {
    let row = |Chapter { experiment, outcome }: &Chapter| {
        let (class, word) = badge(outcome);
        let ours = match outcome {
            Outcome::Measured { judged, .. } => judged.ours.as_str(),
            Outcome::Failed(_) | Outcome::NotYet => "",
        };
        vec![
            format!(
                "<a href=\"#{}\">{}, {}</a>",
                experiment.name(),
                experiment.paper.short(),
                experiment.label()
            ),
            prose(experiment.title),
            format!("<span class=\"badge {class}\">{word}</span>"),
            prose(ours),
        ]
    };
    let columns = ["Figure", "What it shows", "Verdict", "Ours, and the paper's best"];
    format!("<h2 id=\"summary\">All verdicts</h2>\n{}", table(&columns, chapters.iter().map(row)))
}

fn chapter(chapter: &Chapter) -> String {
    let Chapter { experiment, outcome } = chapter;
    let (class, word) = badge(outcome);
    let mut text = format!(
        "<section id=\"{}\">\n<h3>{}: {} <span class=\"badge {class}\">{word}</span></h3>\n<dl>\n",
        experiment.name(),
        experiment.label(),
        prose(experiment.title)
    );
    let on = match experiment.threads {
        Threads::Real => "real threads",
        Threads::Virtual => "virtual threads, simulated",
    };
    for (name, what) in [
        ("The paper ran", experiment.ran),
        ("Here", &format!("{} ({on})", experiment.here)),
        ("The paper saw", experiment.headline),
        ("The set-up differs", experiment.differs),
    ] {
        if !what.is_empty() {
            text += &format!("<dt>{name}</dt><dd>{}</dd>\n", prose(what));
        }
    }
    match outcome {
        Outcome::Measured { done, judged, charts } => {
            text += &format!("<dt>Ours</dt><dd>{}</dd>\n</dl>\n", prose(&judged.ours));
            let row = |finding: &Finding| {
                let small = |text: String| format!(" <span class=\"section\">{text}</span>");
                let rejects = small(format!("rejects {}", prose(&finding.rejects)));
                let section = small(format!("({})", escaped(&finding.section)));
                vec![
                    format!("{}{section}", prose(&finding.claim)),
                    format!("{}{rejects}", escaped(&finding.asked)),
                    escaped(&finding.paper),
                    escaped(&finding.ours),
                    badge_of(finding.answer),
                ]
            };
            let columns = ["The paper claims", "Asked", "The paper", "Ours", "Answer"];
            text += &table(&columns, judged.findings.iter().map(row));
            text += "<div class=\"charts\">\n";
            for chart in charts {
                text += &format!("<div class=\"chart\">{}</div>\n", inline(chart));
            }
            text += &format!(
                "</div>\n<p class=\"how\"><code>katydid {}</code><br>{:.0} s, commit {}, {}</p>\n",
                escaped(&done.arguments.join(" ")),
                done.seconds,
                escaped(&done.commit),
                escaped(&done.machine)
            );
        }
        Outcome::Failed(why) => text += &format!("</dl>\n<p>It failed: {}</p>\n", prose(why)),
        Outcome::NotYet => text += "</dl>\n<p>Not measured yet: run the same command again to go on.</p>\n",
    }
    text + "<p class=\"back\"><a href=\"#contents\">Contents</a> <a href=\"#summary\">All verdicts</a></p>\n</section>\n"
}

/// A chart as part of a page: its text from the root element on.
fn inline(chart: &str) -> &str {
    chart.find("<svg").map_or("", |at| chart[at..].trim_end())
}

/// All results as CSV, with one line for each criterion of each measured figure.
pub fn csv(chapters: &[Chapter]) -> String {
    let names = [
        "paper",
        "figure",
        "verdict",
        "claim",
        "section",
        "asked",
        "rejects",
        "paper_value",
        "ours",
        "answer",
        "set_up_differs",
        "commit",
        "machine",
    ];
    let mut lines = vec![names.map(str::to_owned).to_vec()];
    for Chapter { experiment, outcome } in chapters {
        let Outcome::Measured { done, judged, .. } = outcome else { continue };
        lines.extend(judged.findings.iter().map(|finding| {
            vec![
                experiment.paper.word().to_owned(),
                experiment.figure.to_owned(),
                judged.verdict().word().to_owned(),
                finding.claim.clone(),
                finding.section.clone(),
                finding.asked.clone(),
                finding.rejects.clone(),
                finding.paper.clone(),
                finding.ours.clone(),
                finding.answer.words(),
                experiment.differs.to_owned(),
                done.commit.clone(),
                done.machine.clone(),
            ]
        }));
    }
    katydid_command::table::csv(&lines)
}

const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::papers;
    use crate::reproduce::rows::Rows;

    fn done() -> Done {
        Done {
            arguments: vec!["lab".to_owned()],
            commit: "0123".to_owned(),
            machine: "a machine".to_owned(),
            seconds: 1.0,
            at: 0,
        }
    }

    fn head() -> Head {
        Head { program: "katydid 1".to_owned(), machine: "a <machine>".to_owned(), quick: true }
    }

    #[test]
    fn a_report_has_every_chapter_and_escapes_what_it_shows() {
        let chapters: Vec<Chapter> = papers::experiments()
            .into_iter()
            .map(|experiment| Chapter { experiment, outcome: Outcome::Failed("<broken & gone>".to_owned()) })
            .collect();
        let page = html(&head(), &chapters, &papers::not_run());
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

    #[test]
    fn every_link_of_a_report_leads_somewhere_and_no_backtick_is_left() {
        let chapters: Vec<Chapter> = papers::experiments()
            .into_iter()
            .map(|experiment| {
                let judged = experiment.judged(&Rows::default(), &[]);
                Chapter {
                    experiment,
                    outcome: Outcome::Measured { done: done(), judged, charts: Vec::new() },
                }
            })
            .collect();
        let page = html(&head(), &chapters, &papers::not_run());
        let links: Vec<&str> =
            page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(links.len() > 3 * chapters.len(), "contents, verdicts and ways back: {links:?}");
        for link in links {
            assert_eq!(page.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
        }
        assert!(!page.contains('`'));
        let lines = csv(&chapters);
        let read = Rows::parse(&lines);
        let findings =
            papers::experiments().iter().map(|experiment| experiment.criteria.len()).sum::<usize>();
        assert_eq!(read.len(), findings, "every line has every field");
        assert!(read.all().words("answer").iter().all(|answer| answer.starts_with("not decided")), "{lines}");
        for experiment in papers::experiments() {
            let begins = format!("{},{},", experiment.paper.word(), experiment.figure);
            assert!(lines.lines().any(|line| line.starts_with(&begins)), "{begins}");
        }
    }
}
