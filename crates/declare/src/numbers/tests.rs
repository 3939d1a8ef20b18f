use super::*;

fn format(mark: &str, thousands: Option<&str>, affixes: &[&str]) -> NumberFormat {
    let mark = serde_json::from_value(mark.into()).unwrap();
    let thousands = thousands.map(|text| serde_json::from_value(text.into()).unwrap());
    NumberFormat::new(mark, thousands, affixes.iter().map(ToString::to_string).collect())
}

fn read(format: &NumberFormat, text: &str) -> Option<i64> {
    format.multiple_of(Field::Text(text), "0.01".parse().unwrap()).ok().flatten()
}

#[test]
fn declared_marks_are_read_exactly() {
    let german = format(",", Some("."), &[]);
    for (text, value) in [
        ("1.783,50", Some(178_350)),
        (" -1.783,5 ", Some(-178_350)),
        ("+12.345.678", Some(1_234_567_800)),
        ("999,25", Some(99_925)),
        ("1783,5", Some(178_350)),
        (",5", Some(50)),
        ("1e2", Some(10_000)),
        ("1.783e2", Some(17_830_000)),
        ("1.78", None),
        ("17.83,50", None),
        ("1.7835", None),
        ("1234.567", None),
        (".123", None),
        ("1..234", None),
        ("1.234.", None),
        ("1,783.50", None),
        ("1,5,0", None),
        ("1,5.5", None),
        ("1 783", None),
        ("", None),
        ("-", None),
        ("--5", None),
    ] {
        assert_eq!(read(&german, text), value, "{text}");
    }
    let french = format(",", Some(" "), &[]);
    for text in ["1 783,5", "1\u{a0}783,5", "1\u{202f}783,5"] {
        assert_eq!(read(&french, text), Some(178_350), "{text}");
    }
    let swiss = format(".", Some("'"), &[]);
    assert_eq!((read(&swiss, "1'783.5"), read(&swiss, "1\u{2019}783.5")), (Some(178_350), Some(178_350)));
}

#[test]
fn signs_around_numbers_are_ignored_where_they_are_declared() {
    let money = format(".", Some(","), &["$", "EUR", "US$", "%"]);
    for (text, value) in [
        ("$1,783.50", Some(178_350)),
        ("-$5", Some(-500)),
        ("$-5", Some(-500)),
        ("US$ 5", Some(500)),
        ("5 EUR", Some(500)),
        ("12.5 %", Some(1250)),
        ("$5 EUR", Some(500)),
        ("7", Some(700)),
        ("$$5", None),
        ("5-", None),
        ("($5)", None),
        ("£5", None),
        ("$", None),
        ("-$-5", None),
    ] {
        assert_eq!(read(&money, text), value, "{text}");
    }
    assert_eq!(read(&NumberFormat::default(), "$5"), None);
    assert!(money.is_negative(Field::Text("$-1e40")) && !money.is_negative(Field::Text("$1e40")));
}

#[test]
fn booleans_are_0_and_1_and_typed_numbers_have_no_marks() {
    for format in [NumberFormat::default(), format(",", Some("."), &["$"])] {
        for (text, value) in [("true", 100), ("True", 100), ("FALSE", 0)] {
            assert_eq!(read(&format, text), Some(value), "{text}");
        }
        assert_eq!((read(&format, "t"), read(&format, "yes"), read(&format, "truee")), (None, None, None));
        let typed = |field| format.multiple_of(field, "0.001".parse().unwrap());
        assert_eq!(typed(Field::Number("1.783")), Ok(Some(1783)));
        assert_eq!(typed(Field::Decimal("1.783")), Ok(Some(1783)));
        assert_eq!(typed(Field::Float(1.783)), Ok(Some(1783)));
        assert_eq!(typed(Field::Missing), Ok(None));
    }
}

#[test]
fn refusals_name_the_declaration_under_which_the_text_is_a_number() {
    let declare = |format: &NumberFormat, text: &str| format.suggestion(text).map(|remedy| remedy.to_string());
    let none = NumberFormat::default();
    for (text, remedy) in [
        ("1,783.0", "declare --thousands ,"),
        ("1.783,50", "declare --decimal-mark , --thousands ."),
        ("12,5", "declare --decimal-mark ,"),
        ("1 783.5", "declare --thousands space"),
        ("1'783", "declare --thousands apostrophe"),
        ("$5.50", "declare --number-affixes $"),
        ("-5 %", "declare --number-affixes %"),
        ("1.783,50 €", "declare --decimal-mark , --thousands . --number-affixes €"),
        ("1,783", "declare --thousands , or --decimal-mark ,, whichever the file means"),
    ] {
        assert_eq!(declare(&none, text).as_deref(), Some(remedy), "{text}");
    }
    for text in ["abc", "", "-", "(5)", "A-17", "1,2,3", "2024-01-01", "12:30", "5-"] {
        assert_eq!(declare(&none, text), None, "{text}");
    }
    assert_eq!(declare(&format(",", None, &[]), "1.783,5").as_deref(), Some("declare --thousands ."));
    assert_eq!(declare(&format(",", None, &[]), "12.5").as_deref(), Some("declare --decimal-mark ."));
}
