//! Numbers and names in sentences.

/// Longest piece of offending text that a message repeats, in characters.
const QUOTED_CHARS: usize = 40;

/// `text` in backquotes, shortened to 40 characters, with control characters made visible.
pub fn quoted(text: &str) -> String {
    format!("`{}`", shorten(text))
}

/// `text` shortened to 40 characters, with control characters made visible.
pub fn shorten(text: &str) -> String {
    let mut short = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == QUOTED_CHARS {
            short.push('…');
            break;
        }
        if c.is_control() { short.extend(c.escape_default()) } else { short.push(c) }
    }
    short
}

/// Four significant digits, without an exponent where that reads well.
pub fn short(x: f64) -> String {
    if x == 0.0 || !(1e-3..1e7).contains(&x.abs()) {
        return if x == 0.0 { "0".into() } else { format!("{x:.3e}") };
    }
    let digits = (3 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A name that cannot break a Markdown table or inject markup.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "|`<>*_[]\\#&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Four digits or a little more, never below the number: a promise must not look stronger than it is. Numbers that are
/// short already stay as they are.
pub fn at_most(x: f64) -> String {
    let exact = x.to_string();
    if exact.len() <= 5 {
        return exact;
    }
    let scale = 10f64.powi(3 - x.abs().log10().floor() as i32);
    let text = short((x * scale).ceil() / scale);
    // The product is rounded, and has no scale where x is next to nothing.
    if text.parse().is_ok_and(|shown: f64| shown >= x) { text } else { short(x * (1.0 + 1e-3)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_rounded_up() {
        for (x, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (3.92006, "3.921"),
            (5.2211, "5.222"),
            (1e-7, "1e-7"),
            (0.0123451, "0.01235"),
            (12345.678, "12350"),
        ] {
            assert_eq!(at_most(x), text.replace("1e-7", "1.000e-7"), "{x}");
            assert!(at_most(x).parse::<f64>().unwrap() >= x * (1.0 - 1e-15));
        }
        assert_eq!(short(2381.176), "2381");
    }
}
