//! Files for refused rows: raw data, which nobody but their owner may read.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The digits of a day in the name of a file, such as `20260131`.
const DAY_FORMAT: &str = "%Y%m%d";

/// Opens a file to append to. If it exists and others may read it, that ends now.
#[expect(clippy::disallowed_methods, reason = "appends rows that nobody reads back")]
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(file)
}

/// The beginning and the end of the name of a file, between which the day stands.
fn parts(path: &Path) -> (String, String) {
    let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let end = path.extension().map_or(String::new(), |end| format!(".{}", end.to_string_lossy()));
    (format!("{}-", text(path.file_stem())), end)
}

/// The file of a day: `aside-20260131.jsonl` for `aside.jsonl`.
pub(crate) fn of_day(path: &Path, time: Timestamp) -> PathBuf {
    let (begin, end) = parts(path);
    let day = time.to_zoned(TimeZone::UTC).strftime(DAY_FORMAT).to_string();
    path.with_file_name(format!("{begin}{day}{end}"))
}

/// Removes the files of days whose last moment is before `first_kept`, and the file without a day if nothing was
/// written to it since. Returns how many were removed.
///
/// # Errors
/// If the folder cannot be read, or a file cannot be removed.
#[expect(clippy::disallowed_methods, reason = "removes files whose time is over")]
pub fn remove_old_asides(path: &Path, first_kept: Timestamp) -> io::Result<usize> {
    let mut removed = 0;
    for (file, day) in existing(path)? {
        let over = day.and_then(|day| day.tomorrow().ok()?.to_zoned(TimeZone::UTC).ok());
        let is_old = match over {
            Some(over) => over.timestamp() <= first_kept,
            None => {
                Timestamp::try_from(std::fs::metadata(&file)?.modified()?).is_ok_and(|written| written < first_kept)
            }
        };
        if is_old {
            std::fs::remove_file(file)?;
            removed += 1;
        }
    }
    Ok(removed)
}

/// The files with refused rows, with and without a day in their names; `path` itself if there are none yet.
pub fn asides(path: &Path) -> Vec<PathBuf> {
    let found: Vec<PathBuf> = existing(path).unwrap_or_default().into_iter().map(|(file, _)| file).collect();
    if found.is_empty() { vec![path.to_owned()] } else { found }
}

/// The existing files with refused rows, and their days.
fn existing(path: &Path) -> io::Result<Vec<(PathBuf, Option<Date>)>> {
    let (begin, end) = parts(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let day = name.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(&end));
        let day = day.filter(|day| day.len() == 8).and_then(|day| Date::strptime(DAY_FORMAT, day).ok());
        let is_own = day.is_some() || path.file_name() == Some(entry.file_name().as_os_str());
        if is_own && entry.file_type()?.is_file() {
            found.push((entry.path(), day));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_old_days_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let aside = folder.path().join("aside.jsonl");
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        for day in ["2026-01-30T23:59:59Z", "2026-01-31T00:00:00Z", "2026-02-01T12:00:00Z"] {
            std::fs::write(of_day(&aside, time(day)), "x").unwrap();
        }
        for other in ["aside.jsonl", "aside-20260101.csv", "aside-2026013.jsonl", "other-20260101.jsonl"] {
            std::fs::write(folder.path().join(other), "x").unwrap();
        }
        assert_eq!(remove_old_asides(&aside, time("2026-01-31T23:59:59Z")).unwrap(), 1);
        assert_eq!(remove_old_asides(&aside, time("2026-02-01T00:00:00Z")).unwrap(), 1);
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(
            left,
            [
                "aside-20260101.csv",
                "aside-2026013.jsonl",
                "aside-20260201.jsonl",
                "aside.jsonl",
                "other-20260101.jsonl"
            ]
        );
        // The file without a day, which was written a moment ago.
        assert_eq!(remove_old_asides(&aside, Timestamp::now()).unwrap(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn an_existing_file_becomes_private() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("aside.jsonl");
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        drop(open(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
