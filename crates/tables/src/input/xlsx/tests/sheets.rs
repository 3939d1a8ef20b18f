//! The choice of a sheet, and rows with errors.

use super::*;
use crate::input::{BadRow, Columns, Events};
use evertally_declare::error::PipelineError;
use std::sync::atomic::AtomicBool;

fn rows(time: &str) -> String {
    texts(1, &["time", "n", "v"]) + &texts(2, &[time, "a", "1"])
}

fn named(sheet: &str) -> Fixture {
    fixture().options(ReadOptions { sheet: Some(sheet.into()), ..ReadOptions::default() })
}

#[test]
fn the_only_visible_sheet_with_cells_is_read() {
    let empty = row(1, r#"<c r="A1" s="0"/><c r="B1" t="str"><v></v></c>"#);
    let book = Book::new().sheet("Empty", &empty).hidden("Lists", &rows("2012")).sheet("May &amp; June", &rows("2013"));
    assert_eq!(fixture().read_bytes(&book.bytes()).unwrap(), ["row 2|2013|a||1"]);
    assert_eq!(named("Lists").read_bytes(&book.bytes()).unwrap(), ["row 2|2012|a||1"]);
    assert_eq!(named("May & June").read_bytes(&book.bytes()).unwrap(), ["row 2|2013|a||1"]);
    assert_says(&named("Empty").error(&book.bytes()), &["events.csv: the sheet is empty"]);
    let message = named("may").error(&book.bytes());
    assert_says(&message, &["events.csv: there is no sheet `may`; it has `Empty`, `Lists`, `May & June`"]);
}

#[test]
fn one_of_several_sheets_is_named() {
    let book = Book::new().sheet("May", &rows("2012")).hidden("Old", &rows("2011")).sheet("June", &rows("2013"));
    let message = fixture().error(&book.bytes());
    assert_says(&message, &["events.csv: it has 2 sheets with cells: `May`, `June`", "with --sheet NAME"]);
    assert_eq!(named("June").read_bytes(&book.bytes()).unwrap(), ["row 2|2013|a||1"]);
    let hidden = Book::new().hidden("Old", &rows("2011"));
    assert_says(&fixture().error(&hidden.bytes()), &["no visible sheet", "`Old`", "--sheet NAME"]);
    assert_says(&fixture().error(&Book::new().bytes()), &["no visible sheet", "no sheets"]);
    let message = named("May").error(b"time,n,v\n2013,a,1\n");
    assert_says(&message, &["this is not XLSX but CSV, to which --sheet does not apply; omit --sheet"]);
}

#[test]
fn errors_name_sheets_other_than_the_first() {
    let faulty = texts(1, &["time", "n", "v"]) + &row(7, r#"<c r="B7" t="e"><v>#N/A</v></c>"#);
    let book = Book::new().sheet("May", &faulty).sheet("June", &faulty).bytes();
    let message = named("May").error(&book);
    assert_says(&message, &["events.csv, row 7, column `n`: the cell holds the error #N/A; correct it"]);
    assert_says(&named("June").error(&book), &["events.csv, sheet `June`, row 7, column `n`: the cell holds"]);
    let missing = Book::new().sheet("May", "").sheet("June", &texts(1, &["x"])).bytes();
    assert_says(&fixture().error(&missing), &["events.csv, sheet `June`: there is no column `time`"]);
}

/// A chart has a sheet without cells.
#[test]
fn other_kinds_of_sheets_are_ignored() {
    let book = Book::new().sheet("Chart", "").sheet("May", &rows("2013"));
    let mut parts = book.parts();
    let relations = parts.iter_mut().find(|(name, _)| name == "xl/_rels/workbook.xml.rels").unwrap();
    relations.1 = relations.1.replacen("/worksheet\"", "/chartsheet\"", 1);
    assert_eq!(fixture().read_bytes(&archive(&parts)).unwrap(), ["row 2|2013|a||1"]);
}

#[test]
fn cells_with_errors_count_only_if_they_are_read() {
    let rows = texts(1, &["time", "n", "v", "x"])
        + &row(2, r#"<c r="A2" t="str"><v>2013</v></c><c r="D2" t="e"><v>#DIV/0!</v></c>"#);
    assert_eq!(fixture().read_bytes(&Book::of(&rows)).unwrap(), ["row 2|2013|||"]);
    let faulty = rows + &row(3, r#"<c r="A3" t="str"><v>2013</v></c><c r="B3" t="e"><v>#SPILL!</v></c>"#);
    assert_says(&fixture().error(&Book::of(&faulty)), &["row 3, column `n`", "#SPILL!", "--missing-text '#SPILL!'"]);
    let missing = ReadOptions { missing: vec!["#SPILL!".into()], ..ReadOptions::default() };
    let read = fixture().options(missing).read_bytes(&Book::of(&faulty)).unwrap();
    assert_eq!(read, ["row 2|2013|||", "row 3|2013|||"]);
}

/// Programs that write formulas do not always compute them.
#[test]
fn formulas_without_a_result_are_refused() {
    let rows = |value: &str| {
        let formula = format!(r#"<c r="B2"{value}</c><c r="D2"><f>1+1</f><v/></c>"#);
        Book::of(&(texts(1, &["time", "n", "v", "x"]) + &row(2, &(r#"<c r="A2"><v>1</v></c>"#.to_owned() + &formula))))
    };
    let message = fixture().error(&rows("><f>1+1</f><v></v>"));
    assert_says(
        &message,
        &["row 2, column `n`: the cell has a formula, but its computed result is not in the file", "save it"],
    );
    for (value, expected) in [("><f>1+1</f><v>2</v>", "2"), (r#" t="str"><f>""</f><v></v>"#, "")] {
        assert_eq!(fixture().read_bytes(&rows(value)).unwrap(), [format!("row 2|1|{expected}||")]);
    }
}

/// Other programs write 0 for the result of every formula, and ask for a computation.
#[test]
fn results_that_are_to_be_computed_are_refused() {
    let cells = r#"<c r="A2"><v>1</v></c><c r="B2"><f>1+1</f><v>0</v></c><c r="C2"><v>7</v></c>"#;
    for (properties, is_computed) in [
        (r#"<calcPr calcId="124519" fullCalcOnLoad="1"/>"#, false),
        (r#"<calcPr fullCalcOnLoad="0"/>"#, true),
        (r#"<calcPr calcId="124519"/>"#, true),
    ] {
        let mut book = Book::new().sheet("May", &(texts(1, &["time", "n", "v"]) + &row(2, cells)));
        book.properties = properties.into();
        match is_computed {
            true => assert_eq!(fixture().read_bytes(&book.bytes()).unwrap(), ["row 2|1|0||7"]),
            false => assert_says(&fixture().error(&book.bytes()), &["row 2, column `n`", "computed result"]),
        }
    }
}

/// Elements of other namespaces are not cells, and no value is read twice.
#[test]
fn foreign_elements_are_no_cells() {
    let read = |cells: &str| {
        let rows = texts(1, &["time", "n", "v"]) + cells;
        fixture().read_bytes(&Book::of(&rows)).map_err(|error| error.to_string())
    };
    let cell = r#"<c r="A2"><v>1</v></c>"#;
    let row_of = |inside: &str| format!(r#"<row r="2">{inside}</row>"#);
    assert_eq!(read(&row_of(r#"<c r="A2"><v>1</v><f:v>2</f:v></c>"#)).unwrap(), ["row 2|1|||"]);
    assert_eq!(read(&row_of(&format!("{cell}<f:c r=\"B2\"><v>2</v></f:c>"))).unwrap(), ["row 2|1|||"]);
    let foreign = r#"<f:row r="3"><c r="A3"><v>2</v></c></f:row>"#;
    assert_eq!(read(&(row_of(cell) + foreign)).unwrap(), ["row 2|1|||"]);
    let twice = read(&row_of(r#"<c r="A2"><v>1</v><v>2</v></c>"#)).unwrap_err();
    assert_says(&twice, &["a cell has two values"]);
    let choice = format!("<mc:AlternateContent><mc:Choice>{cell}</mc:Choice></mc:AlternateContent>");
    assert_says(&read(&row_of(&choice)).unwrap_err(), &["alternative cells"]);
}

#[test]
fn bad_rows_are_set_aside_as_objects() {
    let faulty = row(3, r#"<c r="A3" t="str"><v>"</v></c><c r="B3" t="e"><v>#REF!</v></c><c r="D3"><v>5</v></c>"#);
    let rows = texts(1, &["time", "n", "v", "x", "y", "y"]) + &faulty + &texts(4, &["2014", "b", "1", "z", "1", "2"]);
    let fixture = fixture();
    let path = fixture.file("book", &Book::of(&rows));
    let columns = Columns { time: "time".into(), labels: vec!["n".into()], ..Columns::default() };
    let options = ReadOptions { whole_rows: true, ..ReadOptions::default() };
    let running = AtomicBool::new(false);
    let mut events = Events::from_files(&[path], &columns, &options, &(), &running).unwrap();
    let (mut texts, mut refused) = (Vec::new(), Vec::new());
    let mut visit = |event: &crate::input::Event<'_>| Ok::<_, PipelineError>(texts.push(event.whole().text));
    while events
        .next_batch_with_refused(&mut visit, &mut |error| refused.push(BadRow::new(&error, String::new())))
        .unwrap()
    {}
    assert_eq!(texts, [r#"{"time": "2014", "n": "b", "v": "1", "x": "z"}"#]);
    assert!(refused.len() == 1 && refused[0].problem == "the cell holds the error #REF!", "{refused:?}");
    assert_eq!(refused[0].column.as_deref(), Some("n"));
}
