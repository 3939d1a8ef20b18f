//! A plan in a notebook.

use crate::candidate::Candidate;

const STYLE: &str = "border:0;padding:2px 10px;white-space:nowrap;text-align:";
const NAME: &str = "left;max-width:18em;overflow:hidden;text-overflow:ellipsis";
const LINE: &str = "border-bottom:1px solid rgba(128,128,128,0.5)";

/// Headline, ranking and curve. Colours are inherited, so that dark and light pages read alike.
pub(crate) fn page(
    headline: &str,
    promise: &str,
    ranking: &[Candidate],
    chosen: (&str, &str),
    error: f64,
    curve: &str,
) -> String {
    let mut out = String::from("<div class=\"evertally-plan\">");
    out.push_str(&format!("<p style=\"margin:4px 0\"><code>{}</code></p>", escaped(headline)));
    out.push_str(&format!(
        "<p style=\"margin:4px 0\">The whole history of releases is protected with {}.</p>",
        escaped(promise)
    ));
    if !ranking.is_empty() {
        table(&mut out, ranking, chosen, error);
    }
    out.push_str(&format!("<div style=\"max-width:660px;margin-top:8px\">{curve}</div></div>"));
    out
}

fn table(out: &mut String, ranking: &[Candidate], chosen: (&str, &str), error: f64) {
    out.push_str("<table style=\"border-collapse:collapse;margin-top:6px;font-size:13px\"><thead><tr>");
    let heads = ["mechanism", "noise", "max error", "mean error", "× best", "× bound"];
    // Under pure ε there is no bound.
    let shown = if ranking.iter().any(Candidate::has_bound) { heads.len() } else { heads.len() - 1 };
    for (place, head) in heads[..shown].iter().enumerate() {
        out.push_str(&format!("<th style=\"{STYLE}{};{LINE}\">{head}</th>", side(place)));
    }
    out.push_str("</tr></thead><tbody>");
    for candidate in ranking {
        let bold = if candidate.identity() == chosen { ";font-weight:bold" } else { "" };
        out.push_str("<tr>");
        for (place, cell) in candidate.cells()[..shown].iter().enumerate() {
            let (side, cell) = (side(place), escaped(cell));
            let title = if place == 0 { format!(" title=\"{cell}\"") } else { String::new() };
            out.push_str(&format!("<td style=\"{STYLE}{side}{bold}\"{title}>{cell}</td>"));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if !ranking.iter().any(|candidate| candidate.identity() == chosen) {
        out.push_str(&format!(
            "<p style=\"margin:4px 0\">The plan has {} with {} noise, of error {error:.4}.</p>",
            escaped(chosen.0),
            chosen.1
        ));
    }
}

fn side(column: usize) -> &'static str {
    match column {
        0 => NAME,
        1 => "left",
        _ => "right",
    }
}

/// Text that cannot become markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
