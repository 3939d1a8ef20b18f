//! The XML of one part of a workbook: its tags in order, and the texts between them.

use std::io::Read;
use std::sync::atomic::AtomicBool;

use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event as XmlEvent};

use super::super::limits::{max_record_bytes, mebibytes};
use super::super::xml::{LimitedXml, TooLong};
use evertally_declare::error::{Cancelled, InputError, PipelineError, Result, Unreadable, refuse_if};
use evertally_declare::words::quoted;

/// Events between two checks of the cancellation flag.
const EVENTS_PER_CHECK: u64 = 4096;

/// The XML of one part.
pub(super) struct PartXml {
    file: String,
    xml: LimitedXml<Box<dyn Read + Send>>,
    longest: u64,
    events: u64,
}

impl PartXml {
    /// A part of a file, for a reader with this much memory.
    pub(super) fn new(file: &str, inner: Box<dyn Read + Send>, memory: u64) -> Self {
        let longest = max_record_bytes(memory) as u64;
        Self { file: file.to_owned(), xml: LimitedXml::new(inner, longest), longest, events: 0 }
    }

    /// The next tag or text.
    pub(super) fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<XmlEvent<'b>> {
        self.events += 1;
        let event = self.xml.next(buffer).map_err(|error| unreadable(&self.file, self.longest, &error))?;
        if let XmlEvent::Decl(declaration) = &event {
            let encoding = declaration.encoding().transpose().map_err(|e| damaged(&self.file, &e))?;
            let encoding = encoding.as_deref().unwrap_or("UTF-8");
            if !["utf-8", "us-ascii"].contains(&&*encoding.to_ascii_lowercase()) {
                let problem = format!("this workbook is encoded as {}; save it again in Excel", quoted(encoding));
                return Err(InputError::in_file(&*self.file, problem).into());
            }
        }
        Ok(event)
    }

    /// The next tag or text; an error from time to time after cancellation.
    pub(super) fn next_or_cancelled<'b>(
        &mut self,
        buffer: &'b mut Vec<u8>,
        cancelled: &AtomicBool,
    ) -> Result<XmlEvent<'b>> {
        if self.events.is_multiple_of(EVENTS_PER_CHECK) {
            refuse_if(cancelled)?;
        }
        self.next(buffer)
    }

    /// The error for a damaged part.
    pub(super) fn damaged(&self, problem: impl std::fmt::Display) -> PipelineError {
        damaged(&self.file, &problem).into()
    }

    /// The maximum length of a tag, of a text and of a row.
    pub(super) fn longest(&self) -> u64 {
        self.longest
    }

    /// The value of an attribute, by its name without a prefix.
    pub(super) fn attribute(&self, tag: &BytesStart<'_>, name: &str) -> Result<Option<String>> {
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|e| self.damaged(e))?;
            if attribute.key.local_name().as_ref() == name {
                let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|e| self.damaged(e))?;
                return Ok(Some(value.into_owned()));
            }
        }
        Ok(None)
    }

    /// Appends a text, which is in several events if it has entities.
    pub(super) fn push_text(&self, event: &XmlEvent<'_>, into: &mut String) -> Result<()> {
        match event {
            XmlEvent::Text(text) => into.push_str(&text.xml10_content()),
            XmlEvent::CData(text) => into.push_str(&text.xml10_content()),
            XmlEvent::GeneralRef(entity) => {
                let name: &str = entity.as_ref();
                match resolve_xml_entity(name) {
                    Some(text) => into.push_str(text),
                    None => match entity.resolve_char_ref().map_err(|e| self.damaged(e))? {
                        Some(character) => into.push(character),
                        None => return Err(self.damaged(format_args!("unknown entity {}", quoted(name)))),
                    },
                }
            }
            _ => {}
        }
        if into.len() as u64 > self.longest {
            return Err(too_long(&self.file, self.longest).into());
        }
        Ok(())
    }
}

/// The error for a damaged workbook.
pub(super) fn damaged(file: &str, problem: &dyn std::fmt::Display) -> InputError {
    let problem = format!("this workbook cannot be read ({problem}); it may be cut short or damaged");
    InputError::in_file(file, problem).as_unreadable(Unreadable::Damaged)
}

/// The error for a text or row that is too long.
pub(super) fn too_long(file: &str, longest: u64) -> InputError {
    let problem = format!("a cell or row of this workbook is longer than {}", mebibytes(longest));
    InputError::in_file(file, problem).as_unreadable(Unreadable::TooLarge)
}

fn unreadable(file: &str, longest: u64, error: &quick_xml::Error) -> PipelineError {
    if let quick_xml::Error::Io(io) = error
        && let Some(inner) = io.get_ref()
    {
        if inner.is::<Cancelled>() {
            return Cancelled.into();
        }
        if inner.is::<TooLong>() {
            return too_long(file, longest).into();
        }
    }
    damaged(file, error).into()
}
