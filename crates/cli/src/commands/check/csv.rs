//! Ways of reading a CSV file that may separate its cells if the declared one does not.

use super::suggest::Suggestion;
use evertally_declare::declaration::Parameter;
use evertally_tables::input::CsvOptions;

/// Delimiters to try, as in flags.
const DELIMITERS: [(u8, &str); 4] = [(b',', ","), (b';', ";"), (b'\t', "tab"), (b'|', "|")];

/// Lines before the header that are tried, at most.
const MOST_SKIPPED: u64 = 20;

/// A way of reading, and the flags that declare it.
pub(super) struct CsvVariant {
    pub(super) options: CsvOptions,
    pub(super) flags: Vec<Suggestion>,
}

/// The ways to try after the declared one, those with the fewest flags first. What is declared is kept.
pub(super) fn variants(declared: &CsvOptions, is_delimited: bool) -> Vec<CsvVariant> {
    let flag = |parameter, value: &str, why: &str| Suggestion { parameter, value: value.into(), why: why.into() };
    let mut before = vec![CsvVariant { options: declared.clone(), flags: Vec::new() }];
    let mut add = |options, parameter, value: &str, why: &str| {
        before.push(CsvVariant { options, flags: vec![flag(parameter, value, why)] });
    };
    if declared.comment.is_none() {
        let options = CsvOptions { comment: Some("#".to_owned()), ..declared.clone() };
        add(options, Parameter::Comment, "#", "leaves out lines that begin with it");
    }
    if declared.quote.is_some() {
        let options = CsvOptions { quote: None, ..declared.clone() };
        add(options, Parameter::Quote, "none", "quotes in the cells are ordinary characters");
    }
    if declared.skip_lines == 0 {
        for lines in 1..=MOST_SKIPPED {
            let options = CsvOptions { skip_lines: lines, ..declared.clone() };
            add(options, Parameter::SkipLines, &lines.to_string(), "the header comes after these lines");
        }
    }
    let delimited = |variant: CsvVariant| {
        let same = declared.delimiter.unwrap_or(b',');
        DELIMITERS.into_iter().filter(move |(delimiter, _)| !is_delimited || *delimiter == same).map(
            move |(delimiter, word)| {
                let CsvVariant { mut options, mut flags } =
                    CsvVariant { options: variant.options.clone(), flags: variant.flags.clone() };
                if delimiter != same {
                    options.delimiter = Some(delimiter);
                    flags.insert(0, flag(Parameter::Delimiter, word, "separates the cells of the first rows"));
                }
                CsvVariant { options, flags }
            },
        )
    };
    let all = before.into_iter().flat_map(delimited);
    all.filter(|variant| !variant.flags.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_options_are_kept() {
        let declared = CsvOptions { quote: Some(b'"'), ..CsvOptions::default() };
        let all = variants(&declared, false);
        assert_eq!(all.len(), 4 * (MOST_SKIPPED as usize + 3) - 1);
        assert!(all.windows(2).all(|pair| pair[0].flags.len() <= 2 && !pair[1].flags.is_empty()));
        let declared =
            CsvOptions { delimiter: Some(b';'), comment: Some("%".into()), skip_lines: 3, ..CsvOptions::default() };
        let all = variants(&declared, true);
        assert!(all.iter().all(|variant| {
            let options = &variant.options;
            (options.delimiter, options.skip_lines) == (Some(b';'), 3) && options.comment.as_deref() == Some("%")
        }));
    }
}
