//! Writes workbooks of any size without holding them in memory.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use std::io::Write;

const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";

/// A part of a workbook: texts, each with the number of its repetitions.
pub(crate) type Part<'p> = &'p [(&'p str, usize)];

/// A workbook with these shared texts and these rows, both as XML. Style 1 is a date.
pub(crate) fn workbook(strings: Part<'_>, rows: Part<'_>) -> Vec<u8> {
    let relation = |id: &str, kind: &str, target: &str| {
        format!(r#"<Relationship Id="{id}" Type="{OFFICE}/{kind}" Target="{target}"/>"#)
    };
    let relations = [
        relation("a", "worksheet", "worksheets/sheet1.xml"),
        relation("b", "sharedStrings", "sharedStrings.xml"),
        relation("c", "styles", "styles.xml"),
    ];
    let relations = format!("<Relationships>{}</Relationships>", relations.concat());
    let sheets = format!(r#"<workbook xmlns:r="{OFFICE}"><sheets><sheet name="May" r:id="a"/></sheets></workbook>"#);
    let styles = r#"<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>"#;
    let strings = [&[("<sst uniqueCount=\"999999999999999\">", 1)], strings, &[("</sst>", 1)]].concat();
    let rows = [&[("<worksheet><sheetData>", 1)], rows, &[("</sheetData></worksheet>", 1)]].concat();
    let mut bytes = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut bytes);
    for (name, texts) in [
        ("xl/workbook.xml", &[(&*sheets, 1)][..]),
        ("xl/_rels/workbook.xml.rels", &[(&*relations, 1)]),
        ("xl/styles.xml", &[(styles, 1)]),
        ("xl/sharedStrings.xml", &strings),
        ("xl/worksheets/sheet1.xml", &rows),
    ] {
        let new = archive.new_file(name).compression_method(CompressionMethod::DEFLATE);
        let (mut entry, config) = new.start().unwrap();
        let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
        for (text, times) in texts {
            (0..*times).for_each(|_| writer.write_all(text.as_bytes()).unwrap());
        }
        let (encoder, descriptor) = writer.finish().unwrap();
        encoder.finish().unwrap();
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}
