//! All experiments as one page that needs nothing else: plots with values under the pointer, the paper's points as marks, charts of one
//! message, and every cost with where it comes from.

use std::fmt::Write as _;

use anyhow::Result;

use self::chart::chart;
use self::plot::plot;
use crate::figure::{Finding, Target};
use crate::machine::shown;
use crate::machines::{Bench, known};
use crate::text::{counted, of_paper, short, verdict};
use crate::today::Today;

mod axes;
mod chart;
mod plot;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const COLOURS: [&str; 8] =
    ["#2f6db3", "#c2571a", "#3b8a3e", "#8a4fa3", "#a8323e", "#7a6a16", "#2a8c8c", "#555"];

/// The page.
pub fn page(findings: &[Finding], bench: &Bench, today: &Today) -> Result<String> {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Packhorse lab</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n<style>{STYLE}</style></head><body>\n<h1>The papers' machines, with Packhorse in them</h1>\n"
    );
    text.push_str("<p>The same protocol as in every other build, run in virtual time and charged to models of the papers' hosts, buses, cards and wires. Lines are ours; stars are numbers from the papers' text. A number is <b>met</b> within 15 %, <b>given</b> if a fit or a stated cost put it in, <b>missed</b> otherwise.</p>\n");
    text.push_str(&summary(findings));
    for found in findings {
        text.push_str(&section(found, today));
    }
    text.push_str("<h2>The machines</h2>\n");
    for name in known() {
        text.push_str(&costs(bench, name)?);
    }
    let _ = writeln!(text, "<div id=\"tip\"></div><script>{SCRIPT}</script></body></html>");
    Ok(text)
}

fn summary(findings: &[Finding]) -> String {
    let (met, missed) = counted(findings);
    let orders: Vec<_> = findings.iter().flat_map(|found| &found.orders).collect();
    let held = orders.iter().filter(|order| order.1).count();
    let mut text = format!(
        "<p class=\"sum\">{met} of {} predicted numbers within 15 %; {held} of {} orders of curves hold.</p>\n<nav>",
        met + missed,
        orders.len()
    );
    for found in findings {
        let _ = write!(text, "<a href=\"#{0}\">{0}</a> ", found.name);
    }
    text.push_str("</nav>\n");
    text
}

fn section(found: &Finding, today: &Today) -> String {
    let mut text = format!(
        "<section id=\"{}\"><h2>{}</h2>\n<p>{}</p>\n",
        found.name,
        escape(found.title),
        escape(found.about)
    );
    if !found.curves.is_empty() {
        text.push_str(&plot(found, today));
    }
    if !found.targets.is_empty() {
        text.push_str(&numbers(found, today));
    }
    if !found.orders.is_empty() {
        text.push_str("<ul>");
        for (what, holds) in &found.orders {
            let _ = write!(
                text,
                "<li>{}: {}</li>",
                escape(what),
                if *holds { "holds" } else { "<b>does not hold</b>" }
            );
        }
        text.push_str("</ul>\n");
    }
    found.gantts.iter().for_each(|gantt| text.push_str(&chart(gantt)));
    text.push_str("</section>\n");
    text
}

/// Paper, model and, where somebody measured it, today.
fn numbers(found: &Finding, today: &Today) -> String {
    let of_today = |target: &Target| {
        let all: Vec<_> = today.numbers(found.name, &target.what).collect();
        let shown = all
            .iter()
            .map(|(name, value)| format!("{} <small>{}</small>", short(*value), escape(name)));
        shown.collect::<Vec<_>>().join("<br>")
    };
    let has_today = found.targets.iter().any(|target| !of_today(target).is_empty());
    let head = if has_today { "<th>today</th>" } else { "" };
    let mut text = format!(
        "<div class=\"scroll\"><table><tr><th></th><th>paper</th><th>ours</th><th>difference</th><th></th>{head}<th>where</th></tr>\n"
    );
    for target in &found.targets {
        let word = verdict(target);
        let reason = match target.is_met() {
            true => String::new(),
            false => format!("<br><small>{}</small>", escape(target.reason)),
        };
        let now = if has_today { format!("<td>{}</td>", of_today(target)) } else { String::new() };
        let _ = writeln!(
            text,
            "<tr class=\"{word}\"><td>{}{reason}</td><td>{}</td><td>{}</td><td>{:+.1} %</td><td>{word}</td>{now}<td>{}</td></tr>",
            escape(&format!("{}, {}", target.what, target.unit)),
            escape(&of_paper(target)),
            short(target.ours),
            target.difference() * 100.0,
            target.line
        );
    }
    text.push_str("</table></div>\n");
    text
}

fn costs(bench: &Bench, name: &str) -> Result<String> {
    let machine = bench.machine(name)?;
    let mut text = format!(
        "<details><summary>{name}: {}</summary><div class=\"scroll\"><table>",
        escape(&machine.title)
    );
    for (key, cost) in machine.said() {
        let _ = write!(
            text,
            "<tr class=\"{how}\"><td>{}</td><td>{}</td><td>{how}</td><td>{}</td><td>{}</td></tr>",
            key.name,
            escape(&shown(key.unit, cost.value)),
            escape(&cost.why),
            escape(key.about),
            how = cost.how.word()
        );
    }
    text.push_str("</table></div></details>\n");
    Ok(text)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
