//! Damaged workbooks, and small ones that claim or need a lot of memory.

use super::*;
use crate::input::tests::is_cancelled;
use std::sync::atomic::{AtomicBool, Ordering};

fn small() -> Fixture {
    fixture().options(ReadOptions { memory: 1 << 24, ..ReadOptions::default() })
}

fn book() -> Book {
    let shared = row(2, r#"<c t="s"><v>0</v></c><c t="s"><v>1</v></c><c><v>1</v></c>"#);
    Book::new().strings(&["<t>2013</t>", "<t>a</t>"]).sheet("May", &(texts(1, &["time", "n", "v"]) + &shared))
}

#[test]
fn cut_workbooks_are_refused() {
    let whole = book().bytes();
    assert_eq!(fixture().read_bytes(&whole).unwrap(), ["row 2|2013|a||1"]);
    for length in (4..whole.len()).step_by(7).chain([whole.len() - 1]) {
        let message = fixture().error(&whole[..length]);
        assert_says(&message, &["events.csv", "damaged"]);
    }
}

/// Every part in use is compared with its checksum.
#[test]
fn changed_bytes_are_found() {
    let whole = book().bytes();
    let directory = whole.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    let mut found = 0;
    for place in 0..directory {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        match fixture().read_bytes(&changed) {
            Ok(rows) => assert_eq!(rows, ["row 2|2013|a||1"], "byte {place}"),
            Err(_) => found += 1,
        }
    }
    assert!(found > directory / 2, "{found} of {directory}");
}

#[test]
fn parts_must_be_whole() {
    for (part, from, to, problem) in [
        ("xl/workbook.xml", "r:id=\"rId0\"", "", "a sheet lacks its name or its part"),
        ("xl/workbook.xml", "rId0", "rId9", "a sheet has no part"),
        ("xl/workbook.xml", "UTF-8", "UTF-16", "encoded as `UTF-16`"),
        ("xl/workbook.xml", "</sheets>", "", "cannot be read"),
        ("xl/_rels/workbook.xml.rels", "sheet1.xml", "sheet2.xml", "lacks its part xl/worksheets/sheet2.xml"),
        ("xl/_rels/workbook.xml.rels", "sharedStrings.xml", "none.xml", "lacks its part xl/none.xml"),
        ("xl/sharedStrings.xml", "<si><t>2013</t></si>", "", "row 2: a cell refers to a text that is not there"),
        ("xl/sharedStrings.xml", "2013", "&unknown;", "unknown entity `unknown`"),
        ("xl/worksheets/sheet1.xml", "<v>0</v>", "<v>x</v>", "a text that is not there"),
        ("xl/worksheets/sheet1.xml", "<v>1</v></c></row>", "<v>1x</v></c></row>", "row 2: the number `1x` is not one"),
        ("xl/worksheets/sheet1.xml", "t=\"s\"", "t=\"x\"", "unknown type"),
        ("xl/worksheets/sheet1.xml", "<c t=\"s\">", "<c t=\"b\">", ""),
        ("xl/worksheets/sheet1.xml", "<c><v>", "<c s=\"1\"><v>", "a style that is not there"),
        ("xl/worksheets/sheet1.xml", "<c><v>", "<c s=\"-\"><v>", "a style without a number"),
        ("xl/worksheets/sheet1.xml", "r=\"2\"", "r=\"1\"", "no number, or one that is not higher"),
        ("xl/worksheets/sheet1.xml", "r=\"2\"", "r=\"x\"", "no number, or one that is not higher"),
        ("xl/worksheets/sheet1.xml", "r=\"B1\"", "r=\"B2\"", "not in this row"),
        ("xl/worksheets/sheet1.xml", "r=\"B1\"", "r=\"A1\"", "not to the right"),
        ("xl/worksheets/sheet1.xml", "r=\"C1\"", "r=\"ZZZ1\"", "not to the right"),
        ("xl/worksheets/sheet1.xml", "<row r=\"2\"", "<row><c/></row><row r=\"2\"", "not higher"),
        ("xl/worksheets/sheet1.xml", "<sheetData>", "<sheetData><row r=\"1\">", "contains another row"),
        ("xl/worksheets/sheet1.xml", "</sheetData>", "</sheetData><sheetData/>", "has its cells twice"),
        ("xl/worksheets/sheet1.xml", "sheetData>", "other>", "ends before its cells do"),
    ] {
        let mut parts = book().parts();
        let found = parts.iter_mut().find(|(name, _)| name == part).unwrap();
        assert!(found.1.contains(from), "{from}");
        let changed = found.1.replace(from, to);
        found.1 = changed;
        if problem.is_empty() {
            assert_eq!(fixture().read_bytes(&archive(&parts)).unwrap(), ["row 2|false|true||1"]);
            continue;
        }
        assert_says(&fixture().error(&archive(&parts)), &["events.csv", problem]);
    }
    for part in ["xl/_rels/workbook.xml.rels", "xl/styles.xml", "xl/worksheets/sheet1.xml"] {
        let parts: Vec<_> = book().parts().into_iter().filter(|(name, _)| name != part).collect();
        assert_says(&fixture().error(&archive(&parts)), &["lacks its part", part]);
        let twice: Vec<_> =
            parts.iter().cloned().chain([(part.into(), String::new()), (part.into(), String::new())]).collect();
        assert_says(&fixture().error(&archive(&twice)), &["two members named", part]);
    }
}

#[test]
fn other_spreadsheets_are_called_what_they_are() {
    let message = fixture().error(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0\0");
    assert_says(&message, &[".xls", "password", "save it as .xlsx", "CSV"]);
}

/// Shared texts are in memory as a whole; the number of them that the file states is not believed.
#[test]
fn shared_texts_have_a_limit() {
    let text = format!("<t>{}</t>", "x".repeat(100_000));
    for (items, item) in [(100, &*text), (1_100_000, "")] {
        let strings = vec![item; items];
        let bytes = Book::new().strings(&strings).sheet("May", &texts(1, &["time", "n", "v"])).bytes();
        assert!(bytes.len() < 100_000, "{}", bytes.len());
        let message = small().error(&bytes);
        assert_says(&message, &["the texts of this workbook need more than 8 MiB", "CSV", "--read-memory"]);
        assert_eq!(fixture().read_bytes(&bytes).unwrap(), [""; 0]);
    }
}

#[test]
fn long_cells_and_rows_have_a_limit() {
    let header = texts(1, &["time", "n", "v"]);
    let long = "x".repeat(2 << 20);
    let message = small().error(&Book::of(&(header.clone() + &texts(2, &[&long]))));
    assert_says(&message, &["longer than 1 MiB"]);
    // Many short pieces of one text.
    let pieces =
        format!(r#"<c t="inlineStr"><is>{}</is></c>"#, format!("<r><t>{}</t></r>", &long[..1000]).repeat(2000));
    assert_says(&small().error(&Book::of(&(header.clone() + &row(2, &pieces)))), &["longer than 1 MiB"]);
    assert_says(&small().error(&Book::of(&(header.clone() + &format!("<row {long}=\"\"/>")))), &["longer than 1 MiB"]);
    // One shared text in every cell of the header, and of a row without a header.
    let shared: String = (0..30).map(|_| r#"<c t="s"><v>0</v></c>"#).collect();
    let text = format!("<t>{}</t>", &long[..50_000]);
    let book = |rows: &str| Book::new().strings(&[&text]).sheet("May", rows).bytes();
    assert_says(&small().error(&book(&row(1, &shared))), &["row 1: a cell or row", "longer than 1 MiB"]);
    let text = texts(1, &["time", "n", "v"]) + &texts(2, &[&long[..70_000]]);
    assert_says(&fixture().error(&Book::of(&text)), &["row 2, column `time`: this cell has 70000 bytes"]);
}

#[test]
fn reading_can_be_cancelled() {
    let mut rows = texts(1, &["time", "n", "v"]);
    (2..30_000).for_each(|number| rows += &texts(number, &["2013"]));
    let fixture = fixture();
    let path = fixture.file("book", &Book::of(&rows));
    let (cancelled, mut seen) = (AtomicBool::new(false), 0);
    let mut visit = |_: &crate::input::Event<'_>| {
        seen += 1;
        cancelled.store(true, Ordering::Relaxed);
        Ok(())
    };
    let error = fixture.visit(&[path], &cancelled, &mut visit).unwrap_err();
    assert!(is_cancelled(&error) && seen < 10_000, "{error} after {seen}");
    let header_far_away = (1..30_000).map(|number| row(number, "<c/>")).collect::<String>();
    let path = fixture.file("book", &Book::of(&header_far_away));
    let running = AtomicBool::new(true);
    assert!(is_cancelled(&fixture.visit(&[path], &running, &mut |_| Ok(())).unwrap_err()));
}
