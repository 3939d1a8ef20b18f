//! Ways of reading a CSV file that may separate its cells if the declared one does not.

use super::sample::SampleRow;
use super::suggest::Suggestion;
use super::times::{self, TimeGuess};
use evertally_declare::declaration::Parameter;
use evertally_declare::steps::Zone;
use evertally_tables::input::CsvOptions;

/// Delimiters to try, as in flags.
const DELIMITERS: [(u8, &str); 4] = [(b',', ","), (b';', ";"), (b'\t', "tab"), (b'|', "|")];

/// Lines before the header that are tried, at most.
const MOST_SKIPPED: u64 = 20;

/// A way of reading, and the flags that declare it.
#[derive(Clone)]
pub(super) struct CsvVariant {
    pub(super) options: CsvOptions,
    pub(super) flags: Vec<Suggestion>,
    kind: VariantKind,
}

/// What a way of reading changes, apart from the delimiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariantKind {
    /// Nothing: no line is left out.
    Plain,
    /// Some lines before the header are left out.
    SkipLines(u64),
    /// Lines that begin with `#` are left out.
    Comment,
    /// Quotes are ordinary characters.
    NoQuotes,
}

/// The ways to try, the declared one first. Declared options are kept.
pub(super) fn variants(declared: &CsvOptions, is_delimited: bool) -> Vec<CsvVariant> {
    let flag = |parameter, value: &str, why: &str| Suggestion { parameter, value: value.into(), why: why.into() };
    let plain = CsvVariant { options: declared.clone(), flags: Vec::new(), kind: VariantKind::Plain };
    let mut all = vec![plain];
    let mut add = |kind, options, flag| all.push(CsvVariant { options, flags: vec![flag], kind });
    if declared.skip_lines == 0 {
        for lines in 1..=MOST_SKIPPED {
            let options = CsvOptions { skip_lines: lines, ..declared.clone() };
            let why = "the header comes after these lines, and none of them has a time";
            add(VariantKind::SkipLines(lines), options, flag(Parameter::SkipLines, &lines.to_string(), why));
        }
    }
    if declared.comment.is_none() {
        let options = CsvOptions { comment: Some("#".to_owned()), ..declared.clone() };
        let why = "leaves out lines that begin with it; none of the first has a time";
        add(VariantKind::Comment, options, flag(Parameter::Comment, "#", why));
    }
    if declared.quote.is_some() {
        let options = CsvOptions { quote: None, ..declared.clone() };
        add(VariantKind::NoQuotes, options, flag(Parameter::Quote, "none", "no cell is in quotes, but some have one"));
    }
    all.into_iter().flat_map(|variant| delimited(variant, is_delimited)).collect()
}

/// A way of reading with each delimiter, the declared one first.
fn delimited(variant: CsvVariant, is_delimited: bool) -> Vec<CsvVariant> {
    let declared = variant.options.delimiter.unwrap_or(b',');
    let mut all = vec![variant.clone()];
    for (delimiter, word) in DELIMITERS {
        if !is_delimited && delimiter != declared {
            let why = "separates the cells of the first rows".to_owned();
            let flag = Suggestion { parameter: Parameter::Delimiter, value: word.to_owned(), why };
            let mut other = variant.clone();
            other.options.delimiter = Some(delimiter);
            other.flags.insert(0, flag);
            all.push(other);
        }
    }
    all
}

/// The first rows as a way of reading finds them.
pub(super) struct CsvTrial {
    pub(super) names: Vec<String>,
    pub(super) rows: Vec<SampleRow>,
    /// Rows that cannot be read.
    pub(super) refused: u64,
}

impl CsvTrial {
    /// Whether at most one of ten rows is refused.
    pub(super) fn is_good(&self) -> bool {
        !self.rows.is_empty() && self.rows.len() as u64 >= 9 * self.refused
    }

    fn separates(&self) -> bool {
        self.names.len() > 1
    }

    /// The formats of its columns of times.
    fn formats(&self, zone: &Zone) -> Vec<String> {
        let found =
            (0..self.names.len()).filter_map(|slot| times::guess(self.rows.iter().map(|row| &row.0[slot]), zone));
        let formats = found.flat_map(|guess| match guess {
            TimeGuess::Format { format, .. } => vec![format],
            TimeGuess::Ambiguous { formats } => formats,
        });
        formats.collect()
    }

    /// Whether some cell is in quotes.
    fn has_quoted_cells(&self) -> bool {
        let is_quoted = |text: &str| text.len() > 1 && text.starts_with('"') && text.ends_with('"');
        self.rows.iter().flat_map(|row| &row.0).any(|cell| is_quoted(&cell.field().to_string()))
    }
}

/// The way of reading that separates the cells of the first rows best; `None` if no other than the declared one does.
///
/// A way that leaves lines out is taken only if it finds a column of times, and no time in the lines that it leaves
/// out: those would be events, and nobody would miss them.
pub(super) fn best<I: Iterator<Item = String>>(
    variants: Vec<CsvVariant>,
    lines: impl Fn() -> I,
    zone: &Zone,
    read: impl Fn(&CsvOptions) -> Option<CsvTrial>,
) -> Option<CsvVariant> {
    let mut plain = Vec::new();
    for (place, variant) in variants.into_iter().enumerate() {
        let Some(trial) = read(&variant.options) else { continue };
        let is_plain = variant.kind == VariantKind::Plain;
        let fits = trial.is_good() && (trial.separates() || place == 0);
        if !fits && !is_plain {
            continue;
        }
        let formats = trial.formats(zone);
        if fits && !formats.is_empty() && variant.is_safe(&trial, &formats, lines(), zone) {
            return Some(variant);
        }
        if is_plain {
            plain.push((variant, trial, !formats.is_empty()));
        }
    }
    let is_fair = |trial: &CsvTrial| trial.separates() && trial.rows.len() as u64 >= trial.refused.max(1);
    let with_time = plain.iter().position(|(_, trial, has_time)| *has_time && is_fair(trial));
    let without = || plain.iter().position(|(_, trial, _)| trial.separates() && trial.is_good());
    let poor = || plain.iter().position(|(_, trial, _)| is_fair(trial));
    with_time.or_else(without).or_else(poor).map(|place| plain.swap_remove(place).0)
}

impl CsvVariant {
    /// Whether no line that it leaves out is an event, and no name of a column is a time.
    fn is_safe(&self, trial: &CsvTrial, formats: &[String], lines: impl Iterator<Item = String>, zone: &Zone) -> bool {
        match self.kind {
            VariantKind::Plain => true,
            VariantKind::NoQuotes => !trial.has_quoted_cells(),
            VariantKind::SkipLines(_) | VariantKind::Comment => {
                let hidden = (0..).zip(lines).filter(|(number, line)| self.hides(*number, line)).map(|(_, line)| line);
                let mut texts = hidden.chain([trial.names.join("\n")]);
                !texts.any(|text| has_time(&text, &self.options, formats, zone))
            }
        }
    }

    /// Whether a line, counted from 0, is left out.
    fn hides(&self, number: u64, line: &str) -> bool {
        match self.kind {
            VariantKind::SkipLines(lines) => number < lines,
            VariantKind::Comment => line.starts_with('#'),
            VariantKind::Plain | VariantKind::NoQuotes => false,
        }
    }
}

/// Whether a line has a cell that is a time in one of these formats.
fn has_time(line: &str, options: &CsvOptions, formats: &[String], zone: &Zone) -> bool {
    let delimiter = char::from(options.delimiter.unwrap_or(b','));
    let mut parsers: Vec<_> = formats.iter().filter_map(|format| times::parser(format, zone)).collect();
    let mut cells =
        line.split([delimiter, '\n']).map(|cell| cell.trim().trim_matches('"').trim_start_matches('#').trim());
    cells.any(|cell| parsers.iter_mut().any(|parser| parser.reads_as_recent(cell)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_options_are_kept() {
        let declared = CsvOptions { quote: Some(b'"'), ..CsvOptions::default() };
        let all = variants(&declared, false);
        assert_eq!(all.len(), 4 * (MOST_SKIPPED as usize + 3));
        assert!(all[0].flags.is_empty() && all[1..].iter().all(|variant| (1..=2).contains(&variant.flags.len())));
        let declared =
            CsvOptions { delimiter: Some(b';'), comment: Some("%".into()), skip_lines: 3, ..CsvOptions::default() };
        let all = variants(&declared, true);
        assert!(all.iter().all(|variant| {
            let options = &variant.options;
            (options.delimiter, options.skip_lines) == (Some(b';'), 3) && options.comment.as_deref() == Some("%")
        }));
    }
}
