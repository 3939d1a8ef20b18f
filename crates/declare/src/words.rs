//! Numbers and names in sentences.

use evertally::number::power;

/// Longest piece of offending text that a message repeats, in characters.
const QUOTED_CHARS: usize = 40;

/// A number of rows: `1 row`, `20 rows`.
pub fn count_of_rows(count: u64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

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

/// Texts as alternatives in a sentence: `a, b or c`.
pub fn any_of<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<&str> = texts.into_iter().collect();
    match texts.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Four significant digits, without an exponent if that reads well.
pub fn short(x: f64) -> String {
    if x == 0.0 || !(1e-3..1e7).contains(&x.abs()) {
        return if x == 0.0 { "0".into() } else { format!("{x:.3e}") };
    }
    let digits = (3 - libm::log10(x.abs()).floor() as i32).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A name that cannot break a Markdown table or inject markup.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "|`<>*_[]\\#&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Four digits or slightly more, never below the number: a guarantee must not look stronger than it is. Numbers that
/// are already short stay unchanged.
pub fn at_most(x: f64) -> String {
    let exact = x.to_string();
    if exact.len() <= 5 {
        return exact;
    }
    let scale = power(10.0, 3 - libm::log10(x.abs()).floor() as i32);
    let text = short((x * scale).ceil() / scale);
    // The product is rounded, and the scale overflows if x is tiny.
    if text.parse().is_ok_and(|shown: f64| shown >= x) { text } else { short(x * (1.0 + 1e-3)) }
}

/// The number with this many decimals, never below it.
pub fn rounded_up(x: f64, decimals: usize) -> String {
    let unit = power(10.0, -(decimals as i32));
    let text = format!("{x:.decimals$}");
    if text.parse().is_ok_and(|shown: f64| shown < x) { format!("{:.decimals$}", x + 0.75 * unit) } else { text }
}

/// The number with this many decimals, never above it.
pub fn rounded_down(x: f64, decimals: usize) -> String {
    let unit = power(10.0, -(decimals as i32));
    let text = format!("{x:.decimals$}");
    if text.parse().is_ok_and(|shown: f64| shown > x) { format!("{:.decimals$}", x - 0.75 * unit) } else { text }
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
            assert!(at_most(x).parse::<f64>().unwrap() >= x);
        }
        // Also if the product with the power of ten is rounded down, and if there is no such power.
        let mut x = 1e-4;
        while x < 1e9 {
            for x in [x, f64::next_up(x), f64::next_down(x), 1.0001 * x] {
                let shown: f64 = at_most(x).parse().unwrap();
                assert!(shown >= x && shown <= x * 1.0011, "{x}: {shown}");
            }
            x *= 1.37;
        }
        assert!(at_most(3e-310).parse::<f64>().unwrap() >= 3e-310);
        assert_eq!(short(2381.176), "2381");
    }

    #[test]
    fn decimals_are_rounded_to_either_side() {
        for (x, up, down) in [
            (2.954_11, "2.9542", "2.9541"),
            (2.954_19, "2.9542", "2.9541"),
            (0.5, "0.5000", "0.5000"),
            (0.999_99, "1.0000", "0.9999"),
            (12_345.000_01, "12345.0001", "12345.0000"),
            (1e-9, "0.0001", "0.0000"),
            (2f64.next_up(), "2.0001", "2.0000"),
            (2f64.next_down(), "2.0000", "1.9999"),
        ] {
            assert_eq!((rounded_up(x, 4).as_str(), rounded_down(x, 4).as_str()), (up, down), "{x}");
        }
        assert_eq!((rounded_up(f64::INFINITY, 4).as_str(), rounded_down(0.0, 2).as_str()), ("inf", "0.00"));
    }
}
