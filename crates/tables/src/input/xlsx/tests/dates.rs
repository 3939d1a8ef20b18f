//! Dates, times and durations in cells.

use super::*;

/// The cell of a number in the format of the first style.
fn shown(format: &str, number: &str) -> String {
    let cell = format!(r#"<c r="A2" s="1"><v>{number}</v></c>"#);
    read_row(Book::new().formats(&[format]), &cell).trim_matches('|').to_owned()
}

#[test]
fn numbers_in_the_format_of_a_date_are_dates() {
    for (format, number, expected) in [
        ("yyyy\\-mm\\-dd", "45413", "2024-05-01"),
        ("yyyy\\-mm\\-dd", "45413.541666666664", "2024-05-01T13:00:00"),
        ("yyyy\\-mm\\-dd hh:mm", "45413.541666666664", "2024-05-01T13:00:00"),
        ("m/d/yy h:mm", "45413", "2024-05-01T00:00:00"),
        ("hh:mm", "0.54166666666666663", "13:00:00"),
        ("[h]:mm:ss", "1.5", "36:00:00"),
        ("0.00", "45413", "45413"),
        ("General", "45413.5", "45413.5"),
    ] {
        assert_eq!(shown(format, number), expected, "{format} {number}");
    }
}

/// The cells are typed: no declared format of times applies to them.
#[test]
fn dates_need_no_format() {
    use evertally_declare::event::Field;
    let cells = r#"<c r="A2" s="1"><v>45413</v></c><c r="B2" s="2"><v>45413.25</v></c><c r="C2"><v>1.50</v></c>"#;
    let rows = texts(1, &["time", "n", "v"]) + &row(2, cells);
    let book = Book::new().formats(&["yyyy-mm-dd", "yyyy-mm-dd hh:mm"]).sheet("s", &rows).bytes();
    let (fixture, mut seen) = (fixture(), 0);
    let path = fixture.file("f", &book);
    let mut visit = |event: &crate::input::Event<'_>| {
        assert_eq!(event.time(), Field::Date(19_844));
        assert_eq!(event.label(0), Field::Civil((19_844 * 24 + 6) * 3_600_000_000));
        assert_eq!(event.value(), Field::Number("1.50"));
        seen += 1;
        Ok(())
    };
    fixture.visit(&[path], &std::sync::atomic::AtomicBool::new(false), &mut visit).unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn built_in_formats_need_no_code() {
    let mut book = Book::new();
    book.styles = r#"<cellStyleXfs><xf numFmtId="0"/><xf numFmtId="0"/></cellStyleXfs>
        <cellXfs count="3"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/></cellXfs>
        <dxfs><dxf><numFmt numFmtId="0" formatCode="yyyy"/></dxf></dxfs>"#
        .into();
    let cells = r#"<c s="1"><v>45413</v></c><c s="2"><v>45413</v></c><c><v>45413</v></c>"#;
    assert_eq!(read_row(book, cells), "2024-05-01|2024-05-01T00:00:00|45413");
}

#[test]
fn days_are_counted_from_1900_or_1904() {
    for (properties, expected) in [
        ("", "2024-05-01"),
        (r#"<workbookPr date1904="false"/>"#, "2024-05-01"),
        (r#"<workbookPr date1904="1"/>"#, "2028-05-02"),
        (
            r#"<workbookPr date1904="true"/><ext><x:workbookPr xmlns:x="x" chartTrackingRefBase="1"/></ext>"#,
            "2028-05-02",
        ),
    ] {
        let mut book = Book::new().formats(&["d mmm yy"]);
        book.properties = properties.into();
        assert_eq!(read_row(book, r#"<c s="1"><v>45413</v></c>"#), format!("{expected}||"), "{properties}");
    }
}

#[test]
fn dates_may_be_texts_in_iso_8601() {
    let book = || Book::new().formats(&["yyyy-mm-dd", "yyyy-mm-dd hh:mm"]);
    let of = |style: u8, text: &str| read_row(book(), &format!(r#"<c t="d" s="{style}"><v>{text}</v></c>"#));
    assert_eq!(of(1, "2024-05-01T00:00:00"), "2024-05-01||");
    assert_eq!(of(1, "2024-05-01T00:00:00.000"), "2024-05-01||");
    assert_eq!(of(1, "2024-05-01T00:00:00.5"), "2024-05-01T00:00:00.5||");
    assert_eq!(of(2, "2024-05-01T00:00:00"), "2024-05-01T00:00:00||");
    assert_eq!(of(1, "2024-05-01"), "2024-05-01||");
}

#[test]
fn numbers_that_are_no_dates_are_refused() {
    for number in ["-1", "60", "2958466", "1e300"] {
        let rows = texts(1, &["time", "n", "v"]) + &row(2, &format!(r#"<c s="1"><v>{number}</v></c>"#));
        let message = fixture().error(&Book::new().formats(&["yyyy-mm-dd"]).sheet("s", &rows).bytes());
        assert_says(&message, &["events.csv, row 2, column `time`: the cell holds", "no date has that number"]);
    }
}
