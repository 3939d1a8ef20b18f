//! The only file in a zip archive, read as if it were not in one.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use super::limits::PIPE_CHUNK;
use evertally_declare::error::{InputError, Result, Unreadable, read_error};
use evertally_declare::words::quoted;
use rawzip::{CompressionMethod, MAX_CENTRAL_DIRECTORY_RECORD_SIZE, ZipArchive, ZipArchiveEntryWayfinder};

/// The first bytes of an archive, and of an empty one.
const SIGNATURES: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// The maximum number of files that are looked at, and that a message lists.
const MAX_MEMBERS: usize = 1000;
const MAX_LISTED: usize = 10;

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

/// The contents of the only file in an archive. Its packed bytes pass through `counted`.
pub(super) fn open_only_member<'o, R: Read + Send + 'o>(
    name: &str,
    file: File,
    counted: impl FnOnce(io::Take<File>) -> R,
) -> Result<Box<dyn Read + Send + 'o>> {
    let damaged = |problem: &dyn std::fmt::Display| {
        let problem = format!("this zip archive cannot be read ({problem}); it may be cut short or damaged");
        InputError::in_file(name, problem).as_unreadable(Unreadable::Damaged)
    };
    let mut packed = file.try_clone().map_err(|e| read_error(name, e))?;
    let mut buffer = vec![0; MAX_CENTRAL_DIRECTORY_RECORD_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(|e| damaged(&e))?;
    let (mut members, mut count) = (Vec::new(), 0);
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|e| damaged(&e))? {
        count += 1;
        if members.len() == MAX_MEMBERS {
            break;
        }
        let name = String::from_utf8_lossy(entry.file_path().as_ref()).into_owned();
        if entry.is_dir() || is_side_file(&name) {
            continue;
        }
        let (method, wayfinder) = (entry.compression_method(), entry.wayfinder());
        members.push(Member { name, method, is_encrypted: entry.flags().is_encrypted(), wayfinder });
    }
    if count < archive.entries_hint() && members.len() < MAX_MEMBERS {
        return Err(damaged(&"its directory ends too early").into());
    }
    let refused = |problem: String| InputError::in_file(name, problem);
    let member = only(members).map_err(refused)?;
    let entry = archive.get_entry(member.wayfinder).map_err(|e| damaged(&e))?;
    let (start, end) = entry.compressed_data_range();
    packed.seek(SeekFrom::Start(start)).map_err(|e| read_error(name, e))?;
    let packed = BufReader::with_capacity(PIPE_CHUNK, counted(packed.take(end.saturating_sub(start))));
    // The size and the checksum are compared at the end.
    Ok(match member.method {
        CompressionMethod::STORE => Box::new(entry.verifying_reader(packed)),
        _ => Box::new(entry.verifying_reader(flate2::bufread::DeflateDecoder::new(packed))),
    })
}

/// Files that macOS adds to archives.
fn is_side_file(name: &str) -> bool {
    name.starts_with("__MACOSX/") || name == ".DS_Store" || name.ends_with("/.DS_Store")
}

/// The only file, if it can be read.
fn only(members: Vec<Member>) -> Result<Member, String> {
    if let Some(program) = spreadsheet(&members) {
        return Err(format!(
            "this is a spreadsheet of {program}; open it there and save the sheet with the events as CSV (UTF-8)"
        ));
    }
    let count = members.len();
    let names: Vec<String> = members.iter().take(MAX_LISTED).map(|member| quoted(&member.name)).collect();
    let mut members = members.into_iter();
    let (Some(member), None) = (members.next(), members.next()) else {
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
    if !matches!(member.method, CompressionMethod::STORE | CompressionMethod::DEFLATE) {
        return Err(format!(
            "{} in this zip archive is compressed by a method other than deflate; extract it first",
            names[0]
        ));
    }
    Ok(member)
}

const REMEDY: &str = "an archive of one file is read; extract those with events (unzip), and name them in order";

/// The program of a spreadsheet, which is a zip archive, too.
fn spreadsheet(members: &[Member]) -> Option<&'static str> {
    let has = |name: &str| members.iter().any(|member| member.name == name);
    if has("xl/workbook.xml") || has("xl/workbook.bin") {
        Some("Excel")
    } else if has("mimetype") && has("content.xml") {
        Some("LibreOffice")
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
        let mut member = open_only_member("f.zip", file, |packed| packed).map_err(|e| e.to_string())?;
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
        let error = read(&zip(&[("[Content_Types].xml", b"", STORE), ("xl/workbook.xml", b"", STORE)])).unwrap_err();
        assert!(error.contains("Excel") && error.contains("CSV"), "{error}");
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
