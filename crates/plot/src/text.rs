//! Text that fits: widths, truncation, wrapping, escaping, and human-readable numbers.

#![expect(clippy::disallowed_methods, reason = "labels of a picture")]

use crate::font::advance;

/// Width of a text in pixels.
pub fn width(text: &str, size: f64, bold: bool) -> f64 {
    text.chars().map(|c| advance(c, bold)).sum::<f64>() * size
}

/// Replaces characters that XML forbids or that would reorder the surrounding text: control characters, explicit
/// directions.
pub(crate) fn clean(text: &str) -> String {
    let bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}')
            || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    text.chars()
        .map(|c| {
            if c.is_whitespace() && c != '\u{a0}' {
                ' '
            } else if bad(c) {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// The text, truncated with an ellipsis if it would be wider than `room`.
pub fn fit(text: &str, room: f64, size: f64, bold: bool) -> String {
    // No text needs more characters than this, even if they are narrow: names may be megabytes long.
    let head: String = text.chars().take(2_000).collect();
    let text = clean(head.trim());
    if text.is_empty() {
        return "(no name)".into();
    }
    if width(&text, size, bold) <= room {
        return text;
    }
    let mut kept = String::new();
    let mut used = width("…", size, bold);
    for c in text.chars() {
        used += width(c.encode_utf8(&mut [0; 4]), size, bold);
        if used > room {
            break;
        }
        kept.push(c);
    }
    // A joiner or an accent without its neighbour would attach to the ellipsis.
    let kept = kept.trim_end_matches(|c: char| c.is_whitespace() || advance(c, bold) == 0.0);
    format!("{kept}…")
}

/// Breaks a text into at most `lines` lines at spaces; the last one is truncated if there is more.
pub fn wrap(text: &str, room: f64, size: f64, bold: bool, lines: usize) -> Vec<String> {
    let head: String = text.chars().take(4_000).collect();
    let text = clean(head.trim());
    let mut out: Vec<String> = Vec::new();
    let full = |line: &str, word: &str| width(line, size, bold) + width(&format!(" {word}"), size, bold) > room;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let more = out.len() < lines;
        match out.last_mut() {
            Some(line) if more && full(line, word) => out.push(word.into()),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => out.push(word.into()),
        }
    }
    out.iter().map(|line| fit(line, room, size, bold)).collect()
}

/// Escapes a text for XML, in an element or in a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A number with thousands separators, a true minus sign and `decimals` decimals.
pub fn grouped(value: f64, decimals: usize) -> String {
    let digits = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let mut out = String::new();
    if value < 0.0 && digits.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        out.push('−');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number for display: whole if large or whole anyway, three significant digits if small, a power of ten if huge or
/// tiny.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e12 || (size > 0.0 && size < 1e-3) {
        let exponent = size.log10().floor();
        return format!("{} × 10{}", grouped(value / 10f64.powf(exponent), 2), superscript(exponent as i32));
    }
    if size >= 100.0 || value == value.round() {
        return grouped(value, 0);
    }
    grouped(
        value,
        if size >= 10.0 {
            1
        } else if size >= 1.0 {
            2
        } else {
            3
        },
    )
}

/// A half-width for display: rounded up, to whole numbers from ten on.
pub(crate) fn half_width(value: f64) -> String {
    // Half of the difference of two ends is off in its last digits, which must not round up to a hundredth.
    let least = value * (1.0 - 1e-12);
    let rounded = if value >= 10.0 { least.ceil() } else { (least * 100.0).ceil() / 100.0 };
    // Rounding a tiny one up would multiply it.
    number(if value < 0.1 { value } else { rounded })
}

/// A release and its half-width. A large count keeps all digits that its half-width makes meaningful.
pub(crate) fn release(value: f64, half: f64) -> String {
    // Below one, two digits of the half-width, and as many decimals of the value.
    if (1e-6..1.0).contains(&half) && value.abs() < 1e9 {
        let decimals = (1.0 - half.log10().floor()) as usize;
        let power = 10f64.powi(decimals as i32);
        let half = (half * (1.0 - 1e-12) * power).ceil() / power;
        return format!("{} ± {}", grouped(value, decimals), grouped(half, decimals));
    }
    // Only digits that the half-width makes meaningful, and all of them.
    let whole = (1.0..1e6).contains(&half) && value.abs() < 1e16;
    format!("{} ± {}", if whole { grouped(value, 0) } else { number(value) }, half_width(half))
}

/// A whole number in superscript digits.
pub fn superscript(number: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let raise = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    number.to_string().chars().map(raise).collect()
}

/// A share as a percentage without needless digits: 95 %, 99.9 %.
pub(crate) fn percent(share: f64) -> String {
    let percent = (share * 1e6).round() / 1e4;
    format!("{percent} %")
}
