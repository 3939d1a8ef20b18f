//! The documents that are written from the table of parameters: the schema of declarations, and the reference page.

use evertally_declare::declaration::{Declaration, Parameter, ValueKind, Written, reference, schema};
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
