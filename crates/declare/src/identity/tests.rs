//! Properties of the rule: one number has one name, a canonical name maps to itself, and a number that may have been
//! rounded has no name.

use super::*;
use proptest::prelude::*;

fn name(cell: Field<'_>) -> Result<Option<String>, InexactId> {
    Ok(Identities::default().of(cell, &mut String::new())?.map(str::to_owned))
}

fn all_rules() -> impl Iterator<Item = Identities> {
    (0..8usize).map(|set| (0..3).filter(|bit| set >> bit & 1 == 1).map(|bit| Normalisation::ALL[bit]).collect())
}

/// What a number is called, by arithmetic on integers: `units` of 10^-6.
fn by_hand(units: i64) -> String {
    let (whole, fraction) = (units.unsigned_abs() / 1_000_000, units.unsigned_abs() % 1_000_000);
    let fraction = format!(".{fraction:06}");
    let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
    format!("{}{whole}{fraction}", if units < 0 { "-" } else { "" })
}

/// Spellings of a number of 10^-6 that programs write.
fn spellings(units: i64, shift: i32) -> Vec<String> {
    let (sign, size) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
    let (whole, fraction) = (size / 1_000_000, size % 1_000_000);
    let plus = if units < 0 { "-" } else { "+" };
    let mut all = vec![
        format!("{sign}{whole}.{fraction:06}"),
        format!("{sign}{whole}.{fraction:06}000"),
        format!("{plus}{whole}.{fraction:06}"),
        format!("{sign}{size}e-6"),
        format!("{sign}{size}E-06"),
        format!("{sign}{size}00e-0008"),
        format!("{sign}{size}.0e-6"),
    ];
    if whole == 0 {
        all.push(format!("{sign}.{fraction:06}"));
    }
    if fraction == 0 {
        all.extend([format!("{sign}{whole}"), format!("{sign}{whole}."), format!("{sign}{whole}.0")]);
        all.push(format!("{sign}{whole}e0"));
    }
    // The point among the digits, and the exponent that undoes it.
    let digits = size.to_string();
    let cut = (shift as usize).min(digits.len());
    let (front, back) = digits.split_at(digits.len() - cut);
    let front = if front.is_empty() { "0" } else { front };
    all.push(format!("{sign}{front}.{back}e{}", cut as i32 - 6));
    all
}

proptest! {
    #[test]
    fn a_number_has_one_name(
        units in prop_oneof![-10_000_000i64..10_000_000, -(1i64 << 52)..1 << 52],
        shift in 0i32..20,
    ) {
        let expected = Ok(Some(by_hand(units)));
        for spelling in spellings(units, shift) {
            prop_assert_eq!(&name(Field::Text(&spelling)), &expected, "{}", spelling);
            prop_assert_eq!(&name(Field::Decimal(&spelling)), &expected, "{}", spelling);
        }
        let value: f64 = by_hand(units).parse().unwrap();
        if value.to_string() == by_hand(units) {
            prop_assert_eq!(&name(Field::Float(value)), &expected);
            prop_assert_eq!(&name(Field::Text(&format!("{value:e}"))), &expected);
        }
    }

    #[test]
    fn integers_are_exact(value: i64, wide: u64, digits in "[1-9][0-9]{0,60}") {
        prop_assert_eq!(name(Field::Integer(value)), Ok(Some(value.to_string())));
        prop_assert_eq!(name(Field::Text(&value.to_string())), Ok(Some(value.to_string())));
        prop_assert_eq!(name(Field::Text(&wide.to_string())), Ok(Some(wide.to_string())));
        let fixed = format!("{digits}.00");
        prop_assert_eq!(name(Field::Decimal(&fixed)), name(Field::Text(&digits)));
        if !digits.ends_with('0') {
            prop_assert_eq!(name(Field::Text(&digits)), Ok(Some(digits.clone())));
            prop_assert_ne!(name(Field::Text(&digits)), name(Field::Text(&format!("{digits}0"))));
        }
    }

    #[test]
    fn large_doubles_have_no_name(value: f64) {
        prop_assume!(value.is_finite());
        let is_exact = value.abs() < 9_007_199_254_740_992.0;
        prop_assert_eq!(name(Field::Float(value)).is_ok(), is_exact);
        // As pandas, R, Java and Rust write it.
        for text in [format!("{value:?}"), format!("{value:e}").replace('e', "e+").replace("e+-", "e-")] {
            let of_text = name(Field::Text(&text));
            if is_exact && !matches!(of_text, Err(InexactId::Shortened { .. })) {
                prop_assert_eq!(of_text, name(Field::Float(value)), "{}", text);
            } else if text.contains(['.', '+']) {
                prop_assert!(of_text.is_err(), "{}", text);
            }
        }
    }

    /// Of texts made of what numbers, times and words are made of, and of all others.
    #[test]
    fn a_name_is_its_own_name(
        text in prop_oneof![
            "[-+.0-9eE]{1,12}",
            "[-+]?[0-9.]{1,9}e[-+]?[0-9]{1,22}",
            "[12][09][0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-5][0-9](:[0-5][0-9](\\.[0-9]{1,9})?)?\
             (Z|[+-]0[0-9]:?00| UTC)?",
            "[-+ ]?(nan|NaN|Inf|infinity|TRUE|fAlse|n|t)[ .]?",
            "\\PC{0,12}",
        ],
    ) {
        for ids in all_rules() {
            let (mut scratch, mut again) = (String::new(), String::new());
            if let Ok(Some(first)) = ids.of(Field::Text(&text), &mut scratch) {
                prop_assert_eq!(ids.of(Field::Text(first), &mut again), Ok(Some(first)), "{:?} {:?}", text, ids);
                prop_assert!(first.len() <= 12 * text.len() + 45);
            }
        }
    }

    #[test]
    fn days_are_dates(day in -719_468i64..2_932_897) {
        let (year, month, of_month) = crate::civil::date_of(day);
        let first = jiff::civil::date(1970, 1, 1);
        let date = first.checked_add(jiff::Span::new().days(day)).unwrap();
        prop_assert_eq!((year, month, of_month), (date.year().into(), date.month().into(), date.day().into()));
    }
}

#[test]
fn rounded_numbers_are_refused() {
    let largest = 9_007_199_254_740_991i64; // 2^53 - 1
    assert_eq!(name(Field::Float(largest as f64)), Ok(Some(largest.to_string())));
    assert_eq!(name(Field::Float((largest + 1) as f64)), Err(InexactId::Float { bits: 53 }));
    assert_eq!(name(Field::Float(f64::NEG_INFINITY)), Err(InexactId::Float { bits: 53 }));
    assert_eq!(name(Field::Short { value: 16_777_215.0, bits: 24 }), Ok(Some("16777215".into())));
    assert_eq!(name(Field::Short { value: -16_777_216.0, bits: 24 }), Err(InexactId::Float { bits: 24 }));
    assert_eq!(name(Field::Short { value: 2048.0, bits: 11 }), Err(InexactId::Float { bits: 11 }));
    for text in [
        "1.2345678901234568e+18",
        "9007199254740992.0",
        "-9007199254740993.0",
        "1e+30",
        "1.0E30",
        "9.1e15",
        "202222222222222226e-1",
    ] {
        assert_eq!(name(Field::Text(text)), Err(InexactId::Written), "{text}");
    }
    for (text, digits) in [
        ("1.23457E+11", 6),
        ("1.23457e+12", 6),
        ("1.23456789012346e+15", 15),
        ("1.23E+11", 3),
        ("-1.20E+03", 3),
        ("1.00E+05", 3),
        ("1.23e+11", 3),
    ] {
        assert_eq!(name(Field::Text(text)), Err(InexactId::Shortened { digits }), "{text}");
    }
    for (text, exact) in [
        ("9007199254740991.0", "9007199254740991"),
        ("9007199254740993", "9007199254740993"),
        ("1.23457E+10", "12345700000"),
        ("1.2345E+11", "123450000000"),
        ("1.23E+02", "123"),
        ("1.23E11", "123000000000"),
        ("0.00E+00", "0"),
        ("1.23456789012346e+14", "123456789012346"),
        ("1e+15", "1000000000000000"),
        ("1e30", "1000000000000000000000000000000"),
        ("1e41", "1e41"),
        ("10e40", "1e41"),
        ("120e4567", "12e4568"),
        ("0.00e999", "0"),
        ("1e-42", "1e-42"),
        ("1e40", "10000000000000000000000000000000000000000"),
        ("10e99999999999999999999", "10e99999999999999999999"),
        ("0e9999999999999999999x", "0e9999999999999999999x"),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ] {
        assert_eq!(name(Field::Text(text)).as_ref().map(Option::as_deref), Ok(Some(exact)), "{text}");
    }
    let long = format!("-0.00e{}", "9".repeat(40));
    assert_eq!(name(Field::Text(&long)), Ok(Some("0".into())));
    let zeros = format!("1{}", "0".repeat(41));
    assert_eq!(name(Field::Text(&zeros)), Ok(Some("1e41".into())));
}

/// Of days and times that no instant of the calendar library reaches, too: 9999-12-31 stands for "never" in many
/// tables.
#[test]
fn a_time_has_one_name() {
    let day = Field::Date(2_932_896);
    assert_eq!((day.to_string().as_str(), name(day)), ("9999-12-31", name(Field::Text("9999-12-31"))));
    let midnight = 2_932_896 * 86_400_000_000;
    assert_eq!(name(Field::Civil(midnight)), name(day));
    assert_eq!(name(Field::Instant(midnight)), name(day));
    assert_eq!(name(Field::Text("2024-01-01T01:30:00+01:30")), Ok(Some("2024-01-01".into())));
    assert_eq!(name(Field::Text("2024-01-01T00:30+01:00")), Ok(Some("2023-12-31T23:30:00".into())));
    // As databases, git and web servers write offsets.
    for text in [
        "2024-01-01T10:30:00Z",
        "2024-01-01 10:30:00 +00:00",
        "2024-01-01 11:30:00 +0100",
        "2024-01-01 10:30:00 Z",
        "2024-01-01 10:30:00 GMT",
        "2024-01-01T10:30:00[UTC]",
        "2024-01-01T10:30:00.000+00:00[UTC]",
        "2024-01-01 05:30:00.0000000 -05",
    ] {
        assert_eq!(name(Field::Text(text)), Ok(Some("2024-01-01T10:30:00".into())), "{text}");
    }
    for text in ["2024-01-01 UTC", "2024-01-01 +01:00", "2024-01-01 10:30:00  +0100", "2024-01-01 10:30:00 +1"] {
        assert_eq!(name(Field::Text(text)), Ok(Some(text.into())));
    }
    assert_ne!(name(Field::Date(i32::MAX)), name(Field::Date(i32::MAX - 1)));
    assert_eq!(name(Field::Civil(-1)), Ok(Some("1969-12-31T23:59:59.999999".into())));
}

#[test]
fn texts_are_normalised_as_declared() {
    let rule = |words: &[Normalisation]| words.iter().copied().collect::<Identities>();
    use Normalisation::{Casefold, Nfc, Trim};
    for (words, text, expected) in [
        (&[][..], " Ann ", Some(" Ann ")),
        (&[Trim], "\u{a0}Ann ", Some("Ann")),
        (&[Trim], "  ", None),
        (&[Trim], " 17.0 ", Some("17")),
        (&[Casefold], "Straße", Some("strasse")),
        (&[Casefold], "1E2", Some("100")),
        (&[Casefold], "2024-01-01T10:00:00Z", Some("2024-01-01T10:00:00")),
        (&[Nfc], "e\u{301}", Some("é")),
        (&[Nfc, Casefold], "E\u{301}", Some("é")),
        (&[Nfc, Casefold], "É", Some("é")),
        (&[Casefold], "E\u{301}", Some("e\u{301}")),
        (&[Nfc, Trim, Casefold], " 007 ", Some("007")),
    ] {
        assert_eq!(rule(words).of(Field::Text(text), &mut String::new()), Ok(expected), "{words:?} {text:?}");
    }
    assert_eq!(rule(&[Casefold, Trim, Nfc]).meaning().as_deref(), Some("nfc,trim,casefold"));
    assert_eq!(rule(&[]).meaning(), None);
    assert!(all_rules().all(|rule| Identities::from_meaning(rule.meaning().as_deref()) == rule));
}

/// Words that mean the same have one name, in any case; "not a number" has none.
#[test]
fn words_have_one_name() {
    for (texts, expected) in [
        (&["true", "True", "TRUE"][..], Some("true")),
        (&["false", "False", "FALSE"], Some("false")),
        (&["inf", "Inf", "+INF", "Infinity", "+infinity"], Some("inf")),
        (&["-inf", "-Infinity"], Some("-inf")),
        (&["NaN", "nan", "-nan", "+NaN", ""], None),
    ] {
        for text in texts {
            assert_eq!(name(Field::Text(text)), Ok(expected.map(str::to_owned)), "{text}");
        }
    }
    for text in ["Nan", "inx", "trux", "falsy", "infinite", "-true", "-x"] {
        assert_eq!(name(Field::Text(text)), Ok(Some(text.into())), "{text}");
    }
}
