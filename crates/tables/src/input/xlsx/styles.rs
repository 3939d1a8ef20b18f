//! Formats of cells: which numbers of a workbook are dates, times or durations.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

use quick_xml::events::Event as XmlEvent;

use super::workbook::Workbook;
use evertally_declare::error::Result;

/// The maximum number of formats; Excel has at most 65 490.
const MAX_FORMATS: usize = 1 << 17;

/// What the number of a cell stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellFormat {
    /// The number itself.
    Number,
    /// A day.
    Date,
    /// A day and a time of day.
    DateTime,
    /// A time of day.
    Clock,
    /// A duration in hours, minutes or seconds.
    Duration,
}

/// The number formats of cells, by the number of the cell's style.
pub(super) struct CellFormats(Vec<CellFormat>);

impl CellFormats {
    /// Reads the formats of a workbook.
    ///
    /// # Errors
    /// If they are damaged.
    pub(super) fn read(workbook: &Workbook, cancelled: &AtomicBool) -> Result<Self> {
        let Some(part) = &workbook.styles else { return Ok(Self(Vec::new())) };
        let mut xml = workbook.part(part)?;
        let (mut custom, mut styles, mut buffer) = (HashMap::new(), Vec::new(), Vec::new());
        let (mut is_format, mut is_style) = (false, false);
        loop {
            match xml.next_or_cancelled(&mut buffer, cancelled)? {
                XmlEvent::Start(tag) => match tag.local_name().as_ref() {
                    "numFmts" => is_format = true,
                    "cellXfs" => is_style = true,
                    "numFmt" if is_format => {
                        let [id, code] = ["numFmtId", "formatCode"].map(|name| xml.attribute(&tag, name));
                        if let (Some(id), Some(code)) = (id?, code?) {
                            custom.insert(id, of_code(&code));
                        }
                    }
                    "xf" if is_style => styles.push(xml.attribute(&tag, "numFmtId")?.unwrap_or_default()),
                    _ => {}
                },
                XmlEvent::End(tag) => match tag.local_name().as_ref() {
                    "numFmts" => is_format = false,
                    "cellXfs" => is_style = false,
                    _ => {}
                },
                XmlEvent::Eof => break,
                _ => {}
            }
            if custom.len().max(styles.len()) > MAX_FORMATS {
                return Err(xml.damaged("it has too many formats"));
            }
        }
        let format = |id: &String| custom.get(id).copied().unwrap_or_else(|| built_in(id));
        Ok(Self(styles.iter().map(format).collect()))
    }

    /// The number format of a style; `None` if there is no such style.
    pub(super) fn of_style(&self, style: usize) -> Option<CellFormat> {
        match self.0.get(style) {
            None if style == 0 => Some(CellFormat::Number),
            format => format.copied(),
        }
    }
}

/// The formats that every program knows, by their numbers (ECMA-376, 18.8.30). Those of East Asia are dates or times
/// of day, depending on the language; their values decide.
fn built_in(id: &str) -> CellFormat {
    match id.parse::<u32>() {
        Ok(14..=17 | 27..=36 | 50..=58) => CellFormat::Date,
        Ok(18..=21 | 45 | 47) => CellFormat::Clock,
        Ok(22) => CellFormat::DateTime,
        Ok(46) => CellFormat::Duration,
        Ok(_) | Err(_) => CellFormat::Number,
    }
}

/// The meaning of a format such as `yyyy-mm-dd hh:mm`. Only the section for positive numbers counts.
fn of_code(code: &str) -> CellFormat {
    let (mut has_date, mut has_time, mut months) = (false, false, 0);
    let mut characters = code.chars();
    while let Some(character) = characters.next() {
        match character.to_ascii_lowercase() {
            ';' => break,
            '"' => drop(characters.by_ref().find(|c| *c == '"')),
            '\\' | '_' | '*' => drop(characters.next()),
            '[' => {
                let inside: String = characters.by_ref().take_while(|c| *c != ']').collect();
                let unit = inside.to_ascii_lowercase();
                if ["h", "m", "s"]
                    .iter()
                    .any(|one| !unit.is_empty() && unit.trim_matches(|c| one.contains(c)).is_empty())
                {
                    return CellFormat::Duration;
                }
            }
            // AM/PM or A/P: the time has an hour, too.
            'a' | 'p' => drop(characters.as_str().starts_with(['m', 'M']).then(|| characters.next())),
            'g' if starts_with(characters.as_str(), "eneral") => return CellFormat::Number,
            'y' | 'd' => has_date = true,
            'h' | 's' => has_time = true,
            'm' => months += 1,
            _ => {}
        }
    }
    // Next to hours or seconds, `m` and `mm` are minutes; `mmm` is always a month.
    has_date |= months > 0 && (!has_time || months >= 3);
    match (has_date, has_time) {
        (true, true) => CellFormat::DateTime,
        (true, false) => CellFormat::Date,
        (false, true) => CellFormat::Clock,
        (false, false) => CellFormat::Number,
    }
}

fn starts_with(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::CellFormat::*;
    use super::*;

    #[test]
    fn formats_are_dates_times_or_numbers() {
        for (code, format) in [
            ("General", Number),
            ("0.00", Number),
            ("#,##0\\ [$€-407]", Number),
            ("#,##0.00\\ \"days\"", Number),
            ("[Red]0", Number),
            ("0.00E+00", Number),
            ("@", Number),
            ("\"yyyy\"0", Number),
            ("_d0*h", Number),
            ("0;[h]:mm", Number),
            ("[>=100]0", Number),
            ("[]0", Number),
            ("yyyy-mm-dd", Date),
            ("DD/MM/YY", Date),
            ("mmm", Date),
            ("[$-409]d\\-mmm\\-yyyy;@", Date),
            ("m\"M\"d\"D\"", Date),
            ("yyyy-mm-dd hh:mm:ss", DateTime),
            ("m/d/yy h:mm AM/PM", DateTime),
            ("yyyy\\-mm\\-dd\\Thh:mm:ss.000", DateTime),
            ("h:mm", Clock),
            ("H:MM:SS AM/PM", Clock),
            ("h:mm a/p", Clock),
            ("mm:ss.0", Clock),
            ("[h]:mm:ss", Duration),
            ("[hh]:mm", Duration),
            ("[MM]:SS", Duration),
            ("[s].00", Duration),
            ("[Blue][h]:mm", Duration),
        ] {
            assert_eq!(of_code(code), format, "{code}");
        }
        for (id, format) in
            [("0", Number), ("14", Date), ("22", DateTime), ("20", Clock), ("46", Duration), ("x", Number)]
        {
            assert_eq!(built_in(id), format, "{id}");
        }
    }
}
