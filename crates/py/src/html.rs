//! HTML of a plan for notebooks.

const STYLE: &str = "border:0;padding:2px 10px;white-space:nowrap;text-align:";
const NAME: &str = "left;max-width:34em;overflow:hidden;text-overflow:ellipsis";
const LINE: &str = "border-bottom:1px solid rgba(128,128,128,0.5)";

/// A row of the ranking.
pub(crate) struct HtmlRow<const COLUMNS: usize = 6> {
    /// Starts with the mechanism's name; ends with the ratio of its error to the lower bound, if there is one.
    pub(crate) cells: [String; COLUMNS],
    /// Whether it is the plan's mechanism.
    pub(crate) chosen: bool,
}

/// Headline, ranking (or a sentence if the ranking lacks the plan) and curve. Colours are inherited, so that dark and
/// light pages both work.
pub(crate) fn page(
    headline: &str,
    promise: &str,
    heads: [&str; 6],
    ranking: &[HtmlRow],
    unlisted: &str,
    curve: &str,
) -> String {
    let mut out = String::from("<div class=\"evertally-plan\">");
    out.push_str(&format!("<p style=\"margin:4px 0\"><code>{}</code></p>", escaped(headline)));
    out.push_str(&format!(
        "<p style=\"margin:4px 0\">The whole history of releases is protected with {}.</p>",
        escaped(promise)
    ));
    if !ranking.is_empty() {
        table(&mut out, heads, ranking, unlisted);
    }
    out.push_str(&format!("<div style=\"max-width:660px;margin-top:8px\">{curve}</div></div>"));
    out
}

pub(crate) fn table<const COLUMNS: usize>(
    out: &mut String,
    heads: [&str; COLUMNS],
    ranking: &[HtmlRow<COLUMNS>],
    unlisted: &str,
) {
    out.push_str("<table style=\"border-collapse:collapse;margin-top:6px;font-size:13px\"><thead><tr>");
    // Pure ε has no bound.
    let bounded = ranking.iter().any(|row| row.cells.last().is_some_and(|bound| !bound.is_empty()));
    let shown = if bounded { heads.len() } else { heads.len() - 1 };
    for (place, head) in heads[..shown].iter().enumerate() {
        out.push_str(&format!("<th style=\"{STYLE}{};{LINE}\">{head}</th>", side(place)));
    }
    out.push_str("</tr></thead><tbody>");
    for row in ranking {
        let bold = if row.chosen { ";font-weight:bold" } else { "" };
        out.push_str("<tr>");
        for (place, cell) in row.cells[..shown].iter().enumerate() {
            let (side, cell) = (side(place), escaped(cell));
            let title = if place == 0 { format!(" title=\"{cell}\"") } else { String::new() };
            out.push_str(&format!("<td style=\"{STYLE}{side}{bold}\"{title}>{cell}</td>"));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table>");
    if !unlisted.is_empty() && !ranking.iter().any(|row| row.chosen) {
        out.push_str(&format!("<p style=\"margin:4px 0\">{}</p>", escaped(unlisted)));
    }
}

fn side(column: usize) -> &'static str {
    match column {
        0 => NAME,
        1 => "left",
        _ => "right",
    }
}

/// Escapes text so that it cannot become markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
