//! The documents that are written from the table of parameters: the schema of declarations, and the reference page.

use evertally_declare::declaration::{Declaration, Parameter, ValueKind, Written, reference, schema};
use evertally_declare::steps::{TimeFormat, TimeParser};
use std::collections::HashSet;
use std::ffi::OsStr;

#[test]
fn the_documents_of_declarations_are_those_of_the_table() {
    let how = "is stale: run this test with EVERTALLY_WRITE_SCHEMA=1, and commit the file";
    for (name, text) in
        [("declaration.schema.json", format!("{:#}\n", schema())), ("reference/options.md", reference())]
    {
        let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/{}"), name);
        if std::env::var_os("EVERTALLY_WRITE_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap() == text, "docs/{name} {how}");
    }
}

/// The lines of the reference for files are one file that the program reads, and those for services are declarations.
#[test]
fn the_examples_of_the_reference_are_read() {
    let page = reference();
    let settings = |title: &str| {
        let of_front = |line: &str| Some(line.strip_prefix(&format!("| {title} | `"))?.strip_suffix("` |")?.to_owned());
        page.lines().filter_map(of_front).collect::<Vec<_>>()
    };
    let written: Written = toml::from_str(&settings("File").join("\n")).unwrap();
    let mut of_flags = Written::default();
    for parameter in Parameter::all().filter(|parameter| *parameter != Parameter::Config) {
        let example = match parameter.kind() {
            ValueKind::Switch => "true",
            _ => parameter.example().expect("every value has an example"),
        };
        let texts: Vec<&OsStr> = match parameter.kind() {
            ValueKind::Texts | ValueKind::Groups | ValueKind::Decimals | ValueKind::Scales => {
                example.split(',').map(AsRef::as_ref).collect()
            }
            _ => vec![example.as_ref()],
        };
        of_flags.set(parameter, &texts).unwrap_or_else(|problem| panic!("{}: {problem}", parameter.name()));
        assert!(written.has(parameter) && parameter.default() != Some(example), "{}", parameter.name());
    }
    assert_eq!(written, of_flags);
    let of_service = Declaration::from_json(&format!("{{{}}}", settings("Service").join(", "))).unwrap();
    for parameter in Parameter::all().filter(|parameter| parameter.is_declared()) {
        assert_eq!(of_service.has(parameter), parameter.is_of_services(), "{}", parameter.name());
    }
    assert!(page.lines().all(|line| line.chars().count() <= 120), "a line of the reference is too wide");
}

/// Every link of the reference has its heading, and no two headings have the same anchor.
#[test]
fn links_of_the_reference_lead_somewhere() {
    let page = reference();
    let headings: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### ").or_else(|| line.strip_prefix("## ")))
        .map(|title| title.to_lowercase().replace(',', "").replace(' ', "-"))
        .collect();
    let anchors: HashSet<&str> = headings.iter().map(String::as_str).collect();
    assert_eq!(anchors.len(), headings.len());
    let links: Vec<&str> = page.split("](#").skip(1).map(|rest| rest.split_once(')').unwrap().0).collect();
    assert!(links.len() >= Parameter::all().count());
    assert!(links.iter().all(|link| anchors.contains(link)));
}

/// The rows of a table of `docs/guide/read/formats.md` that begins with this cell: the quoted texts of each cell.
fn table_of_formats(first: &str) -> Vec<Vec<Vec<String>>> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/read/formats.md"));
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    let page = page.unwrap();
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {first} |"))).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split(" | ").map(quoted).collect()).collect()
}

#[test]
fn times_are_read_as_the_guide_says() {
    let reads = |format: &str, text: &str| {
        let format: TimeFormat = format.parse().unwrap_or_else(|problem| panic!("{problem}"));
        TimeParser::new(format, "America/New_York".parse().unwrap()).parse_text(text).is_ok()
    };
    let formats = table_of_formats("`--time-format`");
    assert_eq!(formats.len(), 5, "{formats:?}");
    for row in &formats {
        let words = row[0].iter().filter(|word| *word != "auto" || !row[1].is_empty());
        assert!(words.clone().all(|word| word.parse::<TimeFormat>().is_ok()), "{row:?}");
        assert!(row[1].iter().all(|example| reads(&row[0][0], example)), "{row:?}");
    }
    let zones = table_of_formats("zone in the cell");
    assert_eq!(zones.len(), 4, "{zones:?}");
    for row in &zones {
        for zone in row[0].iter().filter(|zone| *zone != "CEST") {
            let text = format!("2024-02-01 12:30 {zone}");
            assert!(zone.as_str() == "EST" || reads("auto", &text), "{text}");
            for conversion in &row[1] {
                assert!(reads(&format!("%Y-%m-%d %H:%M {conversion}"), &text), "{text} as {conversion}");
            }
        }
    }
}
