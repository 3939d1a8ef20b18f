//! The text format of Prometheus.

use crate::meters::{BOUNDS, Histogram};
use std::fmt::Write;

/// The text format of Prometheus: all samples of a name together.
#[derive(Default)]
pub(super) struct MetricsText(Vec<(&'static str, &'static str, &'static str, String)>);

impl MetricsText {
    /// Adds a gauge: noisy counts can fall, so a counter would be wrong.
    pub(super) fn add(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: f64) {
        self.of_kind(name, "gauge", help, labels, value);
    }

    pub(super) fn of_kind(
        &mut self,
        name: &'static str,
        kind: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        self.sample((name, name), kind, help, labels, value);
    }

    /// Adds a sample of a family of samples.
    fn sample(
        &mut self,
        (family, name): (&'static str, &'static str),
        kind: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) {
        let at = self.0.iter().position(|(known, ..)| *known == family).unwrap_or_else(|| {
            self.0.push((family, kind, help, String::new()));
            self.0.len() - 1
        });
        let samples = &mut self.0[at].3;
        samples.push_str(name);
        for (place, (label, text)) in labels.iter().enumerate() {
            samples.push(if place == 0 { '{' } else { ',' });
            samples.push_str(label);
            samples.push_str("=\"");
            for letter in text.chars() {
                match letter {
                    '\\' => samples.push_str("\\\\"),
                    '"' => samples.push_str("\\\""),
                    '\n' => samples.push_str("\\n"),
                    letter => samples.push(letter),
                }
            }
            samples.push('"');
        }
        if !labels.is_empty() {
            samples.push('}');
        }
        let value = if value.is_nan() { "NaN".to_owned() } else { value.to_string() };
        writeln!(samples, " {value}").expect("a String accepts every write");
    }

    /// Adds a counter.
    pub(super) fn count(&mut self, name: &'static str, help: &'static str, labels: &[(&str, &str)], value: u64) {
        self.of_kind(name, "counter", help, labels, value as f64);
    }

    /// Adds a histogram of seconds. `names` are those of its family, its buckets, its sum and its count.
    pub(super) fn histogram(
        &mut self,
        names: [&'static str; 4],
        help: &'static str,
        labels: &[(&str, &str)],
        histogram: &Histogram,
    ) {
        let [family, bucket, sum, count] = names;
        let (totals, seconds) = histogram.totals();
        let bounds = BOUNDS.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (bound, total) in bounds.zip(&totals) {
            let labels = [labels, &[("le", &bound)]].concat();
            self.sample((family, bucket), "histogram", help, &labels, *total as f64);
        }
        self.sample((family, sum), "histogram", help, labels, seconds);
        self.sample((family, count), "histogram", help, labels, totals.last().copied().unwrap_or(0) as f64);
    }

    pub(super) fn finish(self) -> String {
        let mut text = String::new();
        for (name, kind, help, samples) in self.0 {
            write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
                .expect("a String accepts every write");
        }
        text
    }
}
