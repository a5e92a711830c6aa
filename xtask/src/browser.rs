//! Checks a report in a browser as a reader sees it: wide and narrow, light and dark.
//!
//! A copy of the report gets a script that measures the page as the browser laid it out, and writes
//! the results into the page. The browser then prints the page. The report itself has no script.

use crate::run::{Outcome, cargo, root, run, target};
use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Names under which a browser may be installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Arguments of the program that make figures of one or two seconds each. The figures run on
/// virtual threads, so they are equal on every machine.
const FIGURES: [&str; 6] = ["reproduce", "aether", "--figure", "7,8-left", "--quick", "--again"];

/// The program `katydid`, built by cargo.
pub fn built() -> Command {
    cargo(["run", "--quiet", "-p", "katydid-cli", "--"])
}

/// The program that the workspace's tests have built. If cargo builds the program alone, it selects
/// other features of dependencies and therefore builds all of them again.
pub fn left_by_tests() -> Command {
    let mut program = Command::new(target().join("debug").join("katydid"));
    program.current_dir(root());
    program
}

/// Makes a small report with this program, and checks the report in a browser.
pub fn look(mut program: Command) -> Outcome {
    let browser = browser()?;
    let folder = std::path::absolute(target())?.join("report-in-a-browser");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    program.args(FIGURES).arg("--out").arg(&folder);
    run("a report of two figures", &mut program)?;
    let report = folder.join("report.html");
    let page = fs::read_to_string(&report)?;
    if page.contains("<script") || page.contains("src=") || page.contains("@import") {
        return Err("the report loads or runs something".into());
    }
    let copy = folder.join("looked-at.html");
    fs::write(&copy, page.replace("</body>", &format!("<script>{MEASURE}</script></body>")))?;
    let mut faults = Vec::new();
    for width in [1280, 390] {
        for dark in [false, true] {
            let seen = see(browser, &copy, width, dark)?;
            let light = if dark { "dark" } else { "light" };
            println!("== {width} pixels, {light}: {seen}");
            faults.extend(
                judge(&seen, width, dark)
                    .into_iter()
                    .map(|fault| format!("{width} pixels, {light}: {fault}")),
            );
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n").into()) }
}

fn browser() -> Result<&'static str, Box<dyn Error>> {
    let works =
        |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let found = BROWSERS.iter().find(works);
    Ok(found.ok_or_else(|| format!("no browser: install one of {}", BROWSERS.join(", ")))?)
}

/// Runs the script in the browser. Returns the script's results.
fn see(browser: &str, page: &Path, width: u32, dark: bool) -> Result<Value, Box<dyn Error>> {
    let profile = page.with_file_name("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        // Virtual milliseconds of the browser, long enough to lay out a frame.
        .arg("--virtual-time-budget=10000")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={},900", width.max(500)))
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("file://{}#{width}", page.display()))
        .output()?;
    let (dom, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if let Some(line) = log.lines().find(|line| line.contains("CONSOLE")) {
        return Err(format!("the browser complains: {line}").into());
    }
    let begin = dom.find("<pre id=\"seen\">").ok_or("the script wrote nothing")?;
    let text = &dom[begin + "<pre id=\"seen\">".len()..];
    let text = &text[..text.find("</pre>").ok_or("the script was cut")?];
    Ok(serde_json::from_str(text)?)
}

/// Faults of the page, from the script's results.
fn judge(seen: &Value, width: u32, dark: bool) -> Vec<String> {
    let number = |name: &str| seen[name].as_f64().unwrap_or(f64::NAN);
    let mut faults = Vec::new();
    let mut ask = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    ask(seen["errors"].as_array().is_some_and(Vec::is_empty), format!("script errors: {}", seen["errors"]));
    ask(number("width") == f64::from(width), format!("the page is {} pixels wide", seen["width"]));
    ask(number("page") <= f64::from(width), format!("it scrolls sideways, {} pixels", seen["page"]));
    ask(seen["cut"].as_array().is_some_and(Vec::is_empty), format!("cut at an edge: {}", seen["cut"]));
    ask(number("scrolls") == 0.0, format!("{} parts scroll sideways by themselves", seen["scrolls"]));
    ask(
        seen["lost"].as_array().is_some_and(Vec::is_empty),
        format!("links that lead nowhere: {}", seen["lost"]),
    );
    ask(number("links") >= 6.0, format!("{} links within the page", seen["links"]));
    ask(number("unmarked") == 0.0, format!("{} lines have no markers of their own", seen["unmarked"]));
    ask(number("backticks") == 0.0, format!("{} raw backticks", seen["backticks"]));
    ask(number("charts") >= 2.0, format!("{} charts", seen["charts"]));
    ask(number("empty") == 0.0, format!("{} charts without a line that can be seen", seen["empty"]));
    ask(number("least_text") >= 8.0, format!("text of {} pixels", seen["least_text"]));
    ask(number("contrast") >= 4.5, format!("contrast {} of {}", seen["contrast"], seen["faintest"]));
    ask(number("lines_contrast") >= 1.4, format!("lines of contrast {}", seen["lines_contrast"]));
    ask(seen["dark"].as_bool() == Some(dark), "it does not follow the browser's colours".to_owned());
    faults
}

/// The narrow page lies in a frame, because no browser window is so narrow.
const MEASURE: &str = r##"
(() => {
  const errors = [];
  addEventListener('error', event => errors.push(String(event.message)));
  const wanted = Number(location.hash.slice(1));
  const say = value => {
    const pre = document.createElement('pre');
    pre.id = 'seen';
    pre.textContent = JSON.stringify(value);
    document.body.append(pre);
  };
  const parse = colour => (colour.match(/[\d.]+/g) || [0, 0, 0]).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [high, low] = [light(parse(a)), light(parse(b))].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const measure = view => {
    const doc = view.document, style = element => view.getComputedStyle(element);
    const behind = element => {
      for (let at = element; at; at = at.parentElement) {
        const colour = style(at).backgroundColor;
        if (!/, 0\)$|transparent/.test(colour)) return colour;
      }
      return 'rgb(255, 255, 255)';
    };
    let least = Infinity, faint = Infinity, faintest = '', lines = Infinity, empty = 0;
    const charts = [...doc.querySelectorAll('.chart svg')];
    for (const chart of charts) {
      const drawn = [...chart.querySelectorAll('polyline')].filter(line => {
        const box = line.getBoundingClientRect();
        return box.width > 20 && style(line).visibility === 'visible';
      });
      if (drawn.length === 0) empty += 1;
      drawn.forEach(line => { lines = Math.min(lines, contrast(style(line).stroke, behind(chart))); });
    }
    for (const element of doc.querySelectorAll('h1, h2, h3, p, td, th, dt, dd, li, code, .badge, svg text')) {
      const box = element.getBoundingClientRect(), svg = element.closest('svg');
      if (box.width === 0 || !element.textContent.trim()) continue;
      const size = svg ? box.height / 1.2 : parseFloat(style(element).fontSize);
      least = Math.min(least, size);
      const now = contrast(svg ? style(element).fill : style(element).color, behind(element));
      if (now < faint) [faint, faintest] = [now, element.textContent.trim().slice(0, 40)];
    }
    // Text that a reader cannot see whole: beyond the screen, its cell, or its chart.
    const cut = [], say = element => cut.push(element.textContent.trim().slice(0, 40));
    for (const element of doc.querySelectorAll('td, th, li, dd, h1, h2, h3, p, svg text')) {
      const box = element.getBoundingClientRect(), svg = element.closest('svg');
      if (box.width === 0) continue;
      const within = svg ? svg.getBoundingClientRect() : { left: 0, right: view.innerWidth };
      if (box.left < within.left - 1 || box.right > within.right + 1) say(element);
      if (!svg && element.scrollWidth > element.clientWidth + 1 && style(element).display !== 'inline') say(element);
    }
    const scrolls = [...doc.querySelectorAll('body *')].filter(element =>
      /auto|scroll|hidden/.test(style(element).overflowX) && element.scrollWidth > element.clientWidth + 1).length;
    const links = [...doc.querySelectorAll('a[href^="#"]')].map(link => link.getAttribute('href').slice(1));
    const lost = links.filter(id => !doc.getElementById(id));
    let unmarked = 0;
    for (const chart of charts) {
      const marked = chart.querySelectorAll('path[stroke-width="1.5"]').length;
      unmarked += Math.max(0, chart.querySelectorAll('polyline').length - marked);
    }
    const backticks = doc.body.innerText.split('`').length - 1;
    const round = number => Math.round(number * 100) / 100;
    return {
      errors, width: view.innerWidth, page: doc.documentElement.scrollWidth, charts: charts.length, empty,
      cut: cut.slice(0, 5), scrolls, links: links.length, lost, unmarked, backticks,
      least_text: round(least), contrast: round(faint), faintest, lines_contrast: round(lines),
      dark: light(parse(behind(doc.body))) < 0.2,
    };
  };
  addEventListener('load', () => {
    if (innerWidth === wanted) return say(measure(window));
    const frame = document.createElement('iframe');
    frame.style.cssText = `width:${wanted}px;height:900px;border:0`;
    frame.srcdoc = document.documentElement.outerHTML.replace(/<script[\s\S]*<\/script>/, '');
    frame.onload = () => say(measure(frame.contentWindow));
    document.body.append(frame);
  });
})();
"##;
