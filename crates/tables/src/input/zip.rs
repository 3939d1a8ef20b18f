//! Zip archives: the only file in one is read as if it were not in one, and workbooks are archives, too.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::limits::PIPE_CHUNK;
use evertally_declare::error::{InputError, Result, Unreadable, read_error};
use evertally_declare::words::quoted;
use rawzip::{CompressionMethod, FileReader, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive, ZipArchiveEntryWayfinder};

/// The first bytes of an archive, and of an empty one.
const SIGNATURES: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// The maximum number of files that are looked at, and that a message lists; and of bytes in a name that are kept.
const MAX_MEMBERS: usize = 4096;
const MAX_LISTED: usize = 10;
const MAX_NAME_BYTES: usize = 1024;

/// The member of every workbook in Office Open XML.
const WORKBOOK: &str = "xl/workbook.xml";

/// Whether a file that begins like this is a zip archive.
pub(super) fn is_zip(head: &[u8]) -> bool {
    SIGNATURES.iter().any(|signature| head.starts_with(signature))
}

/// A file in an archive.
struct Member {
    name: String,
    method: CompressionMethod,
    is_encrypted: bool,
    wayfinder: ZipArchiveEntryWayfinder,
}

impl Member {
    fn is_readable(&self) -> bool {
        !self.is_encrypted && matches!(self.method, CompressionMethod::STORE | CompressionMethod::DEFLATE)
    }
}

/// An archive whose directory was read.
pub(super) struct Archive {
    name: String,
    file: File,
    archive: ZipArchive<FileReader>,
    members: Vec<Member>,
}

impl Archive {
    /// Reads the directory of an archive.
    ///
    /// # Errors
    /// If it is damaged.
    pub(super) fn open(name: &str, file: File) -> Result<Self> {
        let damaged = |problem: &dyn fmt::Display| damaged(name, problem);
        let again = file.try_clone().map_err(|e| read_error(name, e))?;
        let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
        let archive = ZipArchive::from_file(file, &mut buffer).map_err(|e| damaged(&e))?;
        let (mut members, mut count) = (Vec::new(), 0);
        let mut entries = archive.entries(&mut buffer);
        while let Some(entry) = entries.next_entry().map_err(|e| damaged(&e))? {
            count += 1;
            if members.len() == MAX_MEMBERS {
                break;
            }
            let path = entry.file_path();
            let bytes: &[u8] = path.as_ref();
            let name = String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME_BYTES)]).into_owned();
            if entry.is_dir() || is_side_file(&name) {
                continue;
            }
            let (method, wayfinder) = (entry.compression_method(), entry.wayfinder());
            members.push(Member { name, method, is_encrypted: entry.flags().is_encrypted(), wayfinder });
        }
        if count < archive.entries_hint() && members.len() < MAX_MEMBERS {
            return Err(damaged(&"its directory ends too early").into());
        }
        Ok(Self { name: name.to_owned(), file: again, archive, members })
    }

    /// Whether it is a workbook in Office Open XML.
    pub(super) fn is_workbook(&self) -> bool {
        self.has(WORKBOOK)
    }

    /// Whether it has a member of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name)
    }

    /// The file itself.
    pub(super) fn into_file(self) -> File {
        self.file
    }

    /// The contents of a member; `None` if there is none of this name.
    pub(super) fn member(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>> {
        let mut found = self.members.iter().filter(|member| member.name == name);
        let Some(member) = found.next() else { return Ok(None) };
        if found.next().is_some() {
            return Err(damaged(&self.name, &format_args!("it has two members named {}", quoted(name))).into());
        }
        if !member.is_readable() {
            let problem = format!("{} in it is encrypted, or not compressed by deflate", quoted(name));
            return Err(damaged(&self.name, &problem).into());
        }
        let file = self.file.try_clone().map_err(|e| read_error(&self.name, e))?;
        self.contents(member, file, |packed| packed).map(Some)
    }

    /// The contents of the only file. Its packed bytes pass through `counted`.
    pub(super) fn into_only_member<'o, R: Read + Send + 'o>(
        self,
        counted: impl FnOnce(io::Take<File>) -> R,
    ) -> Result<Box<dyn Read + Send + 'o>> {
        let member = only(&self.members).map_err(|problem| InputError::in_file(&*self.name, problem))?;
        let file = self.file.try_clone().map_err(|e| read_error(&self.name, e))?;
        self.contents(member, file, counted)
    }

    fn contents<'o, R: Read + Send + 'o>(
        &self,
        member: &Member,
        mut packed: File,
        counted: impl FnOnce(io::Take<File>) -> R,
    ) -> Result<Box<dyn Read + Send + 'o>> {
        let entry = self.archive.get_entry(member.wayfinder).map_err(|e| damaged(&self.name, &e))?;
        let (start, end) = entry.compressed_data_range();
        packed.seek(SeekFrom::Start(start)).map_err(|e| read_error(&self.name, e))?;
        let packed = BufReader::with_capacity(PIPE_CHUNK, counted(packed.take(end.saturating_sub(start))));
        // The size and the checksum are compared at the end.
        Ok(match member.method {
            CompressionMethod::STORE => Box::new(entry.verifying_reader(packed)),
            _ => Box::new(entry.verifying_reader(flate2::bufread::DeflateDecoder::new(packed))),
        })
    }
}

fn damaged(name: &str, problem: &dyn fmt::Display) -> InputError {
    let problem = format!("this zip archive cannot be read ({problem}); it may be cut short or damaged");
    InputError::in_file(name, problem).as_unreadable(Unreadable::Damaged)
}

/// Files that macOS adds to archives.
fn is_side_file(name: &str) -> bool {
    name.starts_with("__MACOSX/") || name == ".DS_Store" || name.ends_with("/.DS_Store")
}

/// The only file, if it can be read.
fn only(members: &[Member]) -> Result<&Member, String> {
    if let Some(problem) = spreadsheet(members) {
        return Err(problem.to_owned());
    }
    let count = members.len();
    let names: Vec<String> = members.iter().take(MAX_LISTED).map(|member| quoted(&member.name)).collect();
    let [member] = members else {
        let listed = names.join(", ");
        return Err(match count {
            0 => "this zip archive contains no file".into(),
            _ if count > MAX_LISTED => format!("this zip archive contains many files: {listed}, …; {REMEDY}"),
            _ => format!("this zip archive contains {count} files: {listed}; {REMEDY}"),
        });
    };
    if member.is_encrypted {
        return Err(format!("{} in this zip archive is encrypted; extract it first", names[0]));
    }
    if !member.is_readable() {
        return Err(format!(
            "{} in this zip archive is compressed by a method other than deflate; extract it first",
            names[0]
        ));
    }
    Ok(member)
}

const REMEDY: &str = "an archive of one file is read; extract those with events (unzip), and name them in order";

/// Why a spreadsheet of another format, which is a zip archive, too, is not read.
fn spreadsheet(members: &[Member]) -> Option<&'static str> {
    let has = |name: &str| members.iter().any(|member| member.name == name);
    if has("xl/workbook.bin") {
        Some("this is a binary Excel workbook (.xlsb); save it as .xlsx, or the sheet with the events as CSV (UTF-8)")
    } else if has("mimetype") && has("content.xml") {
        Some("this is a document of LibreOffice; save it as .xlsx, or the sheet with the events as CSV (UTF-8)")
    } else {
        None
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    /// An archive of files, each stored or deflated.
    pub(in crate::input) fn zip(files: &[(&str, &[u8], CompressionMethod)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
        for (name, contents, method) in files {
            if name.ends_with('/') {
                archive.new_dir(name).create().unwrap();
                continue;
            }
            let (mut entry, config) = archive.new_file(name).compression_method(*method).start().unwrap();
            let descriptor = if *method == CompressionMethod::DEFLATE {
                let level = flate2::Compression::fast();
                let mut writer = config.wrap(flate2::write::DeflateEncoder::new(&mut entry, level));
                writer.write_all(contents).unwrap();
                let (encoder, descriptor) = writer.finish().unwrap();
                encoder.finish().unwrap();
                descriptor
            } else {
                let mut writer = config.wrap(&mut entry);
                writer.write_all(contents).unwrap();
                writer.finish().unwrap().1
            };
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    fn read(archive: &[u8]) -> Result<String, String> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(archive).unwrap();
        let mut text = String::new();
        let archive = Archive::open("f.zip", file).map_err(|e| e.to_string())?;
        let mut member = archive.into_only_member(|packed| packed).map_err(|e| e.to_string())?;
        member.read_to_string(&mut text).map_err(|e| e.to_string())?;
        Ok(text)
    }

    const STORE: CompressionMethod = CompressionMethod::STORE;
    const DEFLATE: CompressionMethod = CompressionMethod::DEFLATE;

    #[test]
    fn the_only_file_is_read() {
        let text = "time\n2024-01-01\n".repeat(100_000);
        for method in [STORE, DEFLATE] {
            let archive =
                zip(&[("data/", b"", STORE), ("data/a.csv", text.as_bytes(), method), ("__MACOSX/._a", b"x", STORE)]);
            assert_eq!(read(&archive).unwrap(), text);
        }
    }

    #[test]
    fn other_archives_are_refused() {
        let error = read(&zip(&[("a.csv", b"1", STORE), ("b.csv", b"2", DEFLATE)])).unwrap_err();
        assert!(error.contains("2 files: `a.csv`, `b.csv`; an archive of one file is read"), "{error}");
        assert!(read(&zip(&[])).unwrap_err().contains("contains no file"));
        let error = read(&zip(&[("a.csv", b"1", CompressionMethod::BZIP2)])).unwrap_err();
        assert!(error.contains("`a.csv` in this zip archive is compressed by a method other than deflate"), "{error}");
        let binary = [("[Content_Types].xml", &b""[..], STORE), ("xl/workbook.bin", b"", STORE)];
        let document = [("mimetype", &b""[..], STORE), ("content.xml", b"", STORE)];
        for (files, kind) in [(binary, ".xlsb"), (document, "LibreOffice")] {
            let error = read(&zip(&files)).unwrap_err();
            assert!([kind, "save it as .xlsx", "CSV"].iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn damage_is_found() {
        let text = "time\n2024-01-01\n".repeat(1000);
        let archive = zip(&[("a.csv", text.as_bytes(), STORE)]);
        for length in [4, 100, archive.len() - 30, archive.len() - 1] {
            assert!(read(&archive[..length]).is_err(), "{length}");
        }
        let mut changed = archive.clone();
        changed[500] ^= 1;
        assert!(read(&changed).unwrap_err().contains("checksum"));
        let mut encrypted = archive;
        let central = encrypted.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        encrypted[central + 8] |= 1;
        assert!(read(&encrypted).unwrap_err().contains("encrypted"));
    }
}
