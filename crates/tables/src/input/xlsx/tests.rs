//! Workbooks, and helpers to write them.

use super::super::tests::{Fixture, gzip, zst};
use super::super::zip::tests::zip;
use super::super::{CsvOptions, ReadOptions};
use evertally_declare::format::Format;
use rawzip::CompressionMethod;

mod damage;
mod dates;
mod sheets;

/// A workbook of parts: `xl/workbook.xml`, its relations, its styles, its texts and its sheets.
pub(in crate::input) struct Book {
    properties: String,
    styles: String,
    strings: Option<String>,
    /// The name, further attributes and cells of each sheet.
    sheets: Vec<(String, String, String)>,
}

const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const MAIN: &str = r#"xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main""#;
const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

impl Book {
    pub(in crate::input) fn new() -> Self {
        Self { properties: String::new(), styles: String::new(), strings: None, sheets: Vec::new() }
    }

    /// A workbook of one sheet with these rows.
    pub(in crate::input) fn of(rows: &str) -> Vec<u8> {
        Self::new().sheet("Sheet1", rows).bytes()
    }

    /// With another sheet, whose rows are XML.
    pub(in crate::input) fn sheet(self, name: &str, rows: &str) -> Self {
        self.sheet_with(name, "", rows)
    }

    fn sheet_with(mut self, name: &str, attributes: &str, rows: &str) -> Self {
        self.sheets.push((name.into(), attributes.into(), format!("<sheetData>{rows}</sheetData>")));
        self
    }

    fn hidden(self, name: &str, rows: &str) -> Self {
        self.sheet_with(name, r#" state="hidden""#, rows)
    }

    /// With these shared texts, which are XML.
    fn strings(mut self, items: &[&str]) -> Self {
        let items: String = items.iter().map(|item| format!("<si>{item}</si>")).collect();
        self.strings = Some(format!(r#"<sst {MAIN} count="3" uniqueCount="99999999999999">{items}</sst>"#));
        self
    }

    /// With styles 1, 2, … of these formats.
    fn formats(mut self, formats: &[&str]) -> Self {
        let custom: String = (0..formats.len())
            .map(|i| format!(r#"<numFmt numFmtId="{}" formatCode="{}"/>"#, 164 + i, formats[i].replace('"', "&quot;")))
            .collect();
        let styles: String =
            (0..formats.len()).map(|i| format!(r#"<xf numFmtId="{}" applyNumberFormat="1"/>"#, 164 + i)).collect();
        self.styles = format!(
            r#"<numFmts>{custom}</numFmts><cellStyleXfs><xf numFmtId="14"/></cellStyleXfs>
            <cellXfs><xf numFmtId="0"/>{styles}</cellXfs>"#
        );
        self
    }

    fn parts(&self) -> Vec<(String, String)> {
        let mut relations = String::new();
        let (mut sheets, mut parts) = (String::new(), Vec::new());
        for (place, (name, attributes, cells)) in self.sheets.iter().enumerate() {
            let part = format!("worksheets/sheet{}.xml", place + 1);
            relations += &format!(r#"<Relationship Id="rId{place}" Type="{OFFICE}/worksheet" Target="{part}"/>"#);
            sheets += &format!(r#"<sheet name="{name}" sheetId="{}"{attributes} r:id="rId{place}"/>"#, place + 7);
            parts.push((format!("xl/{part}"), format!("{HEAD}<worksheet {MAIN}>{cells}</worksheet>")));
        }
        relations += &format!(r#"<Relationship Id="s" Type="{OFFICE}/styles" Target="/xl/styles.xml"/>"#);
        parts.push(("xl/styles.xml".into(), format!("{HEAD}<styleSheet {MAIN}>{}</styleSheet>", self.styles)));
        if let Some(strings) = &self.strings {
            relations += &format!(r#"<Relationship Id="t" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/>"#);
            parts.push(("xl/sharedStrings.xml".into(), format!("{HEAD}{strings}")));
        }
        let book = format!(
            r#"{HEAD}<workbook {MAIN} xmlns:r="{OFFICE}">{}<sheets>{sheets}</sheets></workbook>"#,
            self.properties
        );
        parts.push(("xl/_rels/workbook.xml.rels".into(), format!("{HEAD}<Relationships>{relations}</Relationships>")));
        parts.push(("xl/workbook.xml".into(), book));
        parts.push(("[Content_Types].xml".into(), "<Types/>".into()));
        parts
    }

    pub(in crate::input) fn bytes(&self) -> Vec<u8> {
        archive(&self.parts())
    }
}

fn archive(parts: &[(String, String)]) -> Vec<u8> {
    let files: Vec<_> =
        parts.iter().map(|(name, xml)| (&name[..], xml.as_bytes(), CompressionMethod::DEFLATE)).collect();
    zip(&files)
}

/// A row of texts in the sheet; empty texts are absent cells.
pub(in crate::input) fn texts(number: u32, cells: &[&str]) -> String {
    let cell = |(place, text): (usize, &&str)| match *text {
        "" => String::new(),
        text => {
            let column = super::letters_of(place);
            format!(r#"<c r="{column}{number}" t="inlineStr"><is><t>{text}</t></is></c>"#)
        }
    };
    row(number, &cells.iter().enumerate().map(cell).collect::<String>())
}

fn row(number: u32, cells: &str) -> String {
    format!(r#"<row r="{number}" spans="1:5">{cells}</row>"#)
}

/// The cells of row 2 in columns `time`, `n` and `v`, as they are read.
fn read_row(book: Book, cells: &str) -> String {
    let rows = texts(1, &["time", "n", "v"]) + &row(2, cells);
    let rows = fixture().read_bytes(&book.sheet("Sheet1", &rows).bytes()).unwrap();
    rows.join("; ").replace("row 2|", "").replace("||", "|")
}

/// Reads columns `time`, `n` and `v`.
fn fixture() -> Fixture {
    Fixture::new().columns("time", &["n"], None, Some("v"))
}

fn csv(csv: CsvOptions) -> ReadOptions {
    ReadOptions { csv, ..ReadOptions::default() }
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

#[test]
fn cells_are_texts_numbers_and_booleans() {
    let cells = r#"<c r="A2" t="b"><v>1</v></c><c r="B2"><v>1.1000000000000001</v></c><c r="C2" t="n"><v>-4</v></c>"#;
    assert_eq!(read_row(Book::new(), cells), "true|1.1|-4");
    // Without places; with a formula, whose result is read; and an empty cell.
    let cells = r#"<c t="str"><f>"a"&amp;"b"</f><v>a&amp;b</v></c><c><f t="shared" si="0"/><v>2E-3</v></c><c s="0"/>"#;
    assert_eq!(read_row(Book::new(), cells), "a&b|0.002|");
    let cells = r#"<c t="b"><v>0</v></c><c><v></v></c><c><v>9007199254740993</v></c>"#;
    assert_eq!(read_row(Book::new(), cells), "false||9007199254740992");
    // Elements of other programs, inside of cells and between them.
    let cells = r"<x/><c><x><v>9</v></x><v>1</v><extLst><ext><v>8</v><t>7</t></ext></extLst></c>";
    assert_eq!(read_row(Book::new(), cells), "1||");
    let cells = r#"<c t="inlineStr"><v>5</v><is><t>y</t></is></c>"#;
    assert_eq!(read_row(Book::new(), cells), "y||");
}

#[test]
fn texts_are_shared_or_in_the_cell() {
    let strings = [
        "<t>A, A</t>",
        r#"<r><rPr><b/></rPr><t>bo</t></r><r><t xml:space="preserve">ld </t></r>"#,
        r#"<t>東京</t><rPh sb="0" eb="2"><t>トウキョウ</t></rPh>"#,
        "<t>&lt;&#252;_x000D_<![CDATA[&]]></t>",
        "<t/>",
        "",
    ];
    let shared = |numbers: [u8; 3]| {
        let cells: String = numbers.iter().map(|n| format!(r#"<c t="s"><v>{n}</v></c>"#)).collect();
        read_row(Book::new().strings(&strings), &cells)
    };
    assert_eq!(shared([0, 1, 2]), "A, A|bold |東京");
    assert_eq!(shared([3, 4, 0]), "<ü\r&||A, A");
    assert_eq!(shared([5, 5, 0]), "||A, A");
    assert_eq!(shared([4, 5, 4]), "", "a row of empty texts is empty");
    let inline = r#"<c t="inlineStr"><is><r><t>a</t></r><r><t>b</t></r><rPh><t>x</t></rPh></is></c>"#;
    assert_eq!(read_row(Book::new(), inline), "ab||");
}

#[test]
fn empty_rows_are_skipped_and_numbers_are_those_of_excel() {
    let note = r#"<c r="H9" t="inlineStr"><is><t>note</t></is></c>"#;
    let rows = [
        row(2, ""),
        texts(3, &["", "time", "n", "", "v"]),
        texts(5, &["x", "2013", "a", "y", "1"]),
        row(6, r#"<c r="B6" s="0"/>"#),
        row(9, note),
        texts(1000, &["", "2014"]),
    ];
    let read = fixture().read_bytes(&Book::of(&rows.concat())).unwrap();
    assert_eq!(read, ["row 5|2013|a||1", "row 1000|2014|||"]);
}

#[test]
fn many_rows_are_several_batches() {
    let mut rows = texts(1, &["time"]);
    (0..10_000).for_each(|i| rows += &texts(2 + 2 * i, &[&i.to_string()]));
    let read = Fixture::new().columns("time", &[], None, None).read_bytes(&Book::of(&rows)).unwrap();
    assert_eq!((read.len(), &*read[9_999]), (10_000, "row 20000|9999||"));
}

#[test]
fn workbooks_are_read_in_every_wrapping() {
    let book = Book::of(&(texts(1, &["time", "n", "v"]) + &texts(2, &["2013", "a", "1"])));
    let zipped = zip(&[("book.xlsx", &book, CompressionMethod::STORE)]);
    let declared = ReadOptions { format: Some(Format::Xlsx), ..ReadOptions::default() };
    for data in [book.clone(), gzip(&book), zst(&book), zipped.clone()] {
        for options in [ReadOptions::default(), declared.clone()] {
            assert_eq!(fixture().options(options).read_bytes(&data).unwrap(), ["row 2|2013|a||1"]);
        }
    }
    let other = ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() };
    assert_says(&fixture().options(other).error(&book), &["this is a XLSX file, but CSV was declared"]);
    assert_says(&fixture().options(declared).error(b"time\n"), &["not in the format XLSX"]);
    let twice = zip(&[("a.zip", &zipped, CompressionMethod::STORE)]);
    assert_says(&fixture().error(&twice), &["contains another zip archive; unpack it first"]);
}

/// Libraries of .NET write byte order marks and prefixes, and put the texts after the sheets.
#[test]
fn workbooks_of_other_writers_are_read() {
    let cells = texts(1, &["time", "n", "v"]) + &row(2, r#"<c t="s" r="A2"><v>0</v></c><c t="b"><v>1</v></c>"#);
    let mut parts = Book::new().strings(&["<t>2013</t>"]).sheet("May", &cells).parts();
    for (name, xml) in parts.iter_mut().filter(|(name, _)| name.starts_with("xl/")) {
        let prefixed =
            xml.replace('<', "<x:").replace("<x:/", "</x:").replace("<x:?", "<?").replace("xmlns=", "xmlns:x=");
        *xml = format!("\u{feff}{}", if name.contains("rels") { &*xml } else { &prefixed });
    }
    assert_eq!(fixture().read_bytes(&archive(&parts)).unwrap(), ["row 2|2013|true||"]);
}

#[test]
fn rows_before_the_header_are_skipped() {
    let rows = [texts(1, &["Visits of 2024"]), texts(4, &["time", "n", "v"]), texts(5, &["2013", "a", "1"])].concat();
    let skipping = |lines| fixture().options(csv(CsvOptions { skip_lines: lines, ..CsvOptions::default() }));
    assert_says(&skipping(0).error(&Book::of(&rows)), &["no column `time`; it has `Visits of 2024`"]);
    for lines in [1, 3] {
        assert_eq!(skipping(lines).read_bytes(&Book::of(&rows)).unwrap(), ["row 5|2013|a||1"]);
    }
    assert_says(&skipping(5).error(&Book::of(&rows)), &["events.csv: the sheet is empty"]);
    let comment = csv(CsvOptions { comment: Some("#".into()), ..CsvOptions::default() });
    let message = fixture().options(comment).error(&Book::of(&rows));
    assert_says(&message, &["this is not CSV but XLSX, to which --comment does not apply; omit --comment"]);
}

#[test]
fn sheets_without_a_header_have_declared_columns() {
    let names = ["time", "", "n", "v"].map(str::to_owned).to_vec();
    let declared =
        || fixture().options(csv(CsvOptions { columns: Some(names.clone()), skip_lines: 1, ..CsvOptions::default() }));
    let rows = texts(1, &["a title", "", "", "", "x"]) + &texts(3, &["2013", "x", "a", "1"]) + &texts(4, &["2014"]);
    assert_eq!(declared().read_bytes(&Book::of(&rows)).unwrap(), ["row 3|2013|a||1", "row 4|2014|||"]);
    assert_eq!(declared().read_bytes(&Book::of("")).unwrap(), [""; 0]);
    let wide = rows.clone() + &texts(5, &["2014", "", "", "", "y"]);
    assert_says(&declared().error(&Book::of(&wide)), &["row 5", "it has 5 cells, but --columns has 4 names"]);
    let headed = texts(2, &["time", "", "n", "v"]) + &texts(3, &["2013", "x", "a", "1"]);
    assert_says(&declared().error(&Book::of(&headed)), &["row 2", "a header with the same names as --columns", "omit"]);
}

#[test]
fn wanted_columns_occur_once() {
    let header = |names: &[&str]| Book::of(&texts(1, names));
    let message = fixture().error(&header(&["time", "", "n", "v", "n"]));
    assert_says(&message, &["two columns named `n` (columns C and E)", "rename"]);
    assert_eq!(fixture().read_bytes(&header(&["x", "time", "n", "v", "x"])).unwrap(), [""; 0]);
    let message = fixture().error(&header(&["Time", "", "n", "v"]));
    assert_says(&message, &["no column `time` (did you mean `Time`?); it has `Time`, `n`, `v`"]);
}
