//! Workloads and measures in words for readers.

use crate::measures::Measure;
use crate::steps::Every;
use evertally::mechanism::Workload;

/// Whether a value is that of one row alone.
pub(crate) fn is_of_one_step(workload: Workload) -> bool {
    matches!(workload, Workload::Increments | Workload::Window(1))
}

/// A width as it follows "per": `day`, `2 weeks`.
fn each(every: Every) -> String {
    let words = every.in_words();
    words.strip_prefix("1 ").map_or(words.clone(), str::to_owned)
}

/// A number of steps as a time.
fn span(steps: u64, every: Every) -> String {
    let time = u32::try_from(steps).ok().and_then(|steps| Every::new(steps.checked_mul(every.count())?, every.unit()));
    time.map_or_else(|| format!("{steps} steps"), Every::in_words)
}

/// A workload as the name of a line, for steps of this width: `last 7 days`.
pub fn workload_in_words(workload: Workload, every: Every) -> String {
    match workload {
        Workload::Sum => "total so far".to_owned(),
        Workload::Increments | Workload::Window(1) => format!("per {}", each(every)),
        Workload::Window(steps) => format!("last {}", span(steps, every)),
        Workload::Decay(steps) => format!("total so far, halved every {}", span(steps, every)),
        other => other.in_words(),
    }
}

/// A workload as it follows the counted quantity: `in the last 7 days`, `per day`.
pub fn reading_in_words(workload: Workload, every: Every) -> String {
    match workload {
        Workload::Increments | Workload::Window(1) => workload_in_words(workload, every),
        Workload::Window(steps) => format!("in the last {}", span(steps, every)),
        Workload::Decay(steps) => format!("so far, each counting half after every {}", span(steps, every)),
        other => other.in_words(),
    }
}

/// The same for a window of another width than the rows: that of a month begins elsewhere in every row.
pub(crate) fn rolling_in_words(workload: Workload, every: Every) -> String {
    match workload {
        Workload::Window(1) => format!("in the last {}", every.in_words()),
        workload => reading_in_words(workload, every),
    }
}

/// A measure as the name of a line, for steps and published rows of these widths: `median`.
pub(crate) fn measure_in_words(measure: &Measure, step: Every, row: Every) -> String {
    match measure {
        Measure::Deviation => "standard deviation".to_owned(),
        Measure::Distinct => "people so far".to_owned(),
        Measure::Active(steps) => format!("people in the last {}", span(*steps, step)),
        Measure::Within(time) => format!("people in the last {}", time.in_words()),
        Measure::Quantile(0.5) => "median".to_owned(),
        Measure::Quantile(share) => format!("{} % quantile", crate::words::short(100.0 * share)),
        Measure::Workload(_, workload) => workload_in_words(*workload, row),
        named => named.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names_for_readers() {
        let day: Every = "1d".parse().unwrap();
        let of = |measure: &str| measure_in_words(&measure.parse().unwrap(), day, day);
        for (measure, words) in [
            ("count", "count"),
            ("std", "standard deviation"),
            ("distinct(7)", "people in the last 7 days"),
            ("distinct(2w)", "people in the last 2 weeks"),
            ("quantile(0.5)", "median"),
            ("quantile(0.95)", "95 % quantile"),
            ("quantile(0.999)", "99.9 % quantile"),
        ] {
            assert_eq!(of(measure), words);
        }
        for (workload, every, words) in [
            (Workload::Sum, "1d", "total so far"),
            (Workload::Increments, "1d", "per day"),
            (Workload::Window(1), "2w", "per 2 weeks"),
            (Workload::Window(7), "1d", "last 7 days"),
            (Workload::Window(3), "4h", "last 12 hours"),
            (Workload::Window(1 << 40), "1d", "last 1099511627776 steps"),
            (Workload::Decay(7), "1d", "total so far, halved every 7 days"),
        ] {
            assert_eq!(workload_in_words(workload, every.parse().unwrap()), words);
        }
    }
}
