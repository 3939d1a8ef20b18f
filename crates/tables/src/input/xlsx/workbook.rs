//! The sheets of a workbook, and its parts that all sheets share.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::AtomicBool;

use quick_xml::events::Event as XmlEvent;

use super::super::zip::Archive;
use super::part::{PartXml, damaged};
use evertally_declare::error::{InputError, Result, Unreadable};

/// The maximum number of sheets and relations.
const MAX_SHEETS: usize = 10_000;

/// The folder of the workbook's parts.
const FOLDER: &str = "xl/";

/// A sheet with cells. Charts and macros have separate sheets, which are ignored.
pub(super) struct SheetEntry {
    pub(super) name: String,
    pub(super) is_visible: bool,
    pub(super) part: String,
}

/// An open workbook.
pub(super) struct Workbook {
    file: String,
    archive: Archive,
    memory: u64,
    /// The worksheets in their order.
    pub(super) sheets: Vec<SheetEntry>,
    /// Whether days are counted from 1904, as by old programs of the Macintosh.
    pub(super) is_1904: bool,
    /// Whether the stored results of formulas are to be computed again before they are used: some programs write 0 for
    /// all of them.
    pub(super) has_open_results: bool,
    pub(super) strings: Option<String>,
    pub(super) styles: Option<String>,
}

/// A relation of the workbook to one of its parts.
struct PartRelation {
    kind: String,
    part: String,
}

impl Workbook {
    /// Reads the list of sheets.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn open(name: &str, file: File, memory: u64, cancelled: &AtomicBool) -> Result<Self> {
        let archive = Archive::open(name, file)?;
        let mut workbook = Self {
            file: name.to_owned(),
            archive,
            memory,
            sheets: Vec::new(),
            is_1904: false,
            has_open_results: false,
            strings: None,
            styles: None,
        };
        let relations = workbook.relations(cancelled)?;
        workbook.read_sheets(&relations, cancelled)?;
        let one = |kind: &str| relations.values().find(|relation| relation.kind == kind);
        workbook.strings = one("sharedStrings").map(|relation| relation.part.clone());
        workbook.styles = one("styles").map(|relation| relation.part.clone());
        Ok(workbook)
    }

    /// The XML of a part.
    ///
    /// # Errors
    /// If there is no such part.
    pub(super) fn part(&self, name: &str) -> Result<PartXml> {
        let Some(inner) = self.archive.member(name)? else {
            return Err(damaged(&self.file, &format_args!("it lacks its part {name}")).into());
        };
        Ok(PartXml::new(&self.file, inner, self.memory))
    }

    fn relations(&self, cancelled: &AtomicBool) -> Result<HashMap<String, PartRelation>> {
        let mut xml = self.part("xl/_rels/workbook.xml.rels")?;
        let (mut relations, mut buffer) = (HashMap::new(), Vec::new());
        loop {
            match xml.next_or_cancelled(&mut buffer, cancelled)? {
                XmlEvent::Start(tag) if tag.local_name().as_ref() == "Relationship" => {
                    let [id, kind, target] = ["Id", "Type", "Target"].map(|name| xml.attribute(&tag, name));
                    if let (Some(id), Some(kind), Some(target)) = (id?, kind?, target?) {
                        let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                        relations.insert(id, PartRelation { kind, part: part_of(&target) });
                        self.refuse_many(relations.len())?;
                    }
                }
                XmlEvent::Eof => return Ok(relations),
                _ => {}
            }
        }
    }

    fn read_sheets(&mut self, relations: &HashMap<String, PartRelation>, cancelled: &AtomicBool) -> Result<()> {
        let mut xml = self.part("xl/workbook.xml")?;
        let mut buffer = Vec::new();
        loop {
            match xml.next_or_cancelled(&mut buffer, cancelled)? {
                XmlEvent::Start(tag) if tag.local_name().as_ref() == "workbookPr" => {
                    if let Some(value) = xml.attribute(&tag, "date1904")? {
                        self.is_1904 = matches!(&*value, "1" | "true" | "on");
                    }
                }
                XmlEvent::Start(tag) if tag.local_name().as_ref() == "calcPr" => {
                    let value = xml.attribute(&tag, "fullCalcOnLoad")?;
                    self.has_open_results = value.is_some_and(|value| matches!(&*value, "1" | "true" | "on"));
                }
                XmlEvent::Start(tag) if tag.local_name().as_ref() == "sheet" => {
                    let [name, state, id] = ["name", "state", "id"].map(|name| xml.attribute(&tag, name));
                    let (Some(name), Some(id)) = (name?, id?) else {
                        return Err(xml.damaged("a sheet lacks its name or its part"));
                    };
                    let Some(relation) = relations.get(&id) else {
                        return Err(xml.damaged("a sheet has no part"));
                    };
                    if relation.kind == "worksheet" {
                        let is_visible = state?.is_none_or(|state| state == "visible");
                        self.sheets.push(SheetEntry { name, is_visible, part: relation.part.clone() });
                        self.refuse_many(self.sheets.len())?;
                    }
                }
                XmlEvent::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    fn refuse_many(&self, count: usize) -> Result<()> {
        if count <= MAX_SHEETS {
            return Ok(());
        }
        let problem = format!("this workbook has more than {MAX_SHEETS} sheets; save the one with the events as CSV");
        Err(InputError::in_file(&*self.file, problem).as_unreadable(Unreadable::TooLarge).into())
    }
}

/// The part that a relation of the workbook leads to.
fn part_of(target: &str) -> String {
    if let Some(absolute) = target.strip_prefix('/') {
        return absolute.to_owned();
    }
    match target.strip_prefix("../") {
        Some(outside) => outside.to_owned(),
        None => format!("{FOLDER}{}", target.strip_prefix("./").unwrap_or(target)),
    }
}
