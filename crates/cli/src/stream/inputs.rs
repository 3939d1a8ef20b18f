//! The input files of a run: named one by one, as folders, or by patterns.

use crate::failure::usage;
use anyhow::Result;
use evertally_declare::url::{is_url, without_secrets};
use evertally_tables::input::{is_object, list_objects};
use glob::{MatchOptions, Pattern, glob_with};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// How patterns match: hidden files, and files in folders, must be named.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// The files that these paths name, in their order. A folder stands for all regular files in it, and a pattern for
/// those that match it, in the byte order of their paths; hidden files are never meant. Standard input stays. URLs of a
/// store may be patterns, and are folders if they end in a slash.
///
/// # Errors
/// If a folder or a pattern names no file, or cannot be read.
pub(super) fn files(paths: Vec<PathBuf>) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if is_url(&path) {
            files.extend(objects(path)?);
        } else if path.is_dir() {
            files.extend(files_in(&path)?);
        } else if is_pattern(&path) && !path.exists() {
            files.extend(matching(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Whether a path has characters of patterns. A file that exists is that file, whatever its name.
pub(super) fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.contains(['*', '?', '[']))
}

/// The path inside a folder. If it is a pattern, characters of patterns in the name of the folder stand for themselves.
pub(super) fn inside(folder: &Path, path: &Path) -> PathBuf {
    if is_url(path) {
        return path.to_owned();
    }
    let plain = folder.join(path);
    match folder.to_str() {
        Some(folder) if path.is_relative() && is_pattern(path) && !plain.exists() => {
            Path::new(&Pattern::escape(folder)).join(path)
        }
        _ => plain,
    }
}

/// The URL, or those of the objects that it stands for, as a folder or a pattern.
fn objects(url: PathBuf) -> Result<Vec<PathBuf>> {
    let text = url.to_str().unwrap_or_default();
    if !is_object(&url) || !(is_pattern(&url) || text.ends_with('/')) {
        return Ok(vec![url]);
    }
    let problem = |error: &dyn std::fmt::Display| usage(format!("{}: {error}", without_secrets(&url)));
    let literal = &text[..text.find(['*', '?', '[']).unwrap_or(text.len())];
    let (folder, pattern) = text.split_at(literal.rfind('/').map_or(0, |slash| slash + 1));
    if folder.ends_with("://") {
        return Err(problem(&"the name of a bucket cannot be a pattern"));
    }
    let compiled = Pattern::new(pattern).map_err(|error| problem(&error))?;
    let is_meant = |name: &str| match pattern {
        "" => !name.starts_with('.'),
        // An object of this very name is meant, as a file would be.
        _ => name == pattern || compiled.matches_with(name, OPTIONS),
    };
    let found = list_objects(Path::new(folder), pattern.contains('/'), &is_meant).map_err(|error| problem(&error))?;
    if found.contains(&url) {
        return Ok(vec![url]);
    }
    match (found.is_empty(), pattern) {
        (false, _) => Ok(found),
        (true, "") => Err(problem(&"there is no object in this folder, apart from hidden ones")),
        (true, _) => Err(problem(&"no object matches this pattern; check the bucket and the pattern")),
    }
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let shown = folder.display();
    let problem = |error: std::io::Error| usage(format!("cannot read the folder {shown}: {error}"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(problem)? {
        let entry = entry.map_err(problem)?;
        let path = entry.path();
        if path.is_file() && !is_hidden(&entry.file_name()) {
            files.push(path);
        }
    }
    sorted(files).ok_or_else(|| usage(format!("{shown}: there is no file in this folder, apart from hidden ones")))
}

fn matching(path: &Path) -> Result<Vec<PathBuf>> {
    let shown = path.display();
    let pattern = path.to_str().expect("checked: it is a text");
    let problem = |error: &dyn std::fmt::Display| usage(format!("the pattern {shown} cannot be used: {error}"));
    let mut files = Vec::new();
    for found in glob_with(pattern, OPTIONS).map_err(|error| problem(&error))? {
        let path = found.map_err(|error| problem(&error))?;
        if path.is_file() {
            files.push(path);
        }
    }
    sorted(files).ok_or_else(|| usage(format!("no file matches {shown}; check the pattern, and the folder of the run")))
}

/// In byte order; `None` if there are none.
fn sorted(mut files: Vec<PathBuf>) -> Option<Vec<PathBuf>> {
    files.sort_by(|a, b| a.as_os_str().as_encoded_bytes().cmp(b.as_os_str().as_encoded_bytes()));
    (!files.is_empty()).then_some(files)
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().first() == Some(&b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_patterns_name_files_in_byte_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["b.csv", "a.csv", "B.csv", ".hidden.csv", "10.csv", "9.csv", "c.txt", "x[1].csv"] {
            std::fs::write(path(name), "time\n").unwrap();
        }
        std::fs::create_dir(path("deeper.csv")).unwrap();
        std::fs::write(path("deeper.csv/d.csv"), "time\n").unwrap();
        let names = |given: &[&str]| -> Result<Vec<String>> {
            let found = files(given.iter().map(|name| inside(folder.path(), Path::new(name))).collect())?;
            let name = |file: &PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
            Ok(found.iter().map(name).collect())
        };
        assert_eq!(names(&["*.csv"]).unwrap(), ["10.csv", "9.csv", "B.csv", "a.csv", "b.csv", "x[1].csv"]);
        assert_eq!(names(&["."]).unwrap().len(), 7);
        assert_eq!(names(&["b.csv", "[ac].*"]).unwrap(), ["b.csv", "a.csv", "c.txt"]);
        assert_eq!(names(&["x[1].csv", "missing.csv"]).unwrap(), ["x[1].csv", "missing.csv"]);
        assert_eq!(names(&["*/*.csv"]).unwrap(), ["deeper.csv/d.csv"]);
        let problem = names(&["*.parquet"]).unwrap_err().to_string();
        assert!(problem.contains("no file matches") && problem.contains("*.parquet"), "{problem}");
        assert!(names(&["a**b"]).unwrap_err().to_string().contains("cannot be used"));
        std::fs::remove_file(path("deeper.csv/d.csv")).unwrap();
        std::fs::write(path("deeper.csv/.d.csv"), "").unwrap();
        assert!(names(&["deeper.csv"]).unwrap_err().to_string().contains("there is no file in this folder"));
        // The name of a folder is literal.
        std::fs::create_dir(path("[ab]")).unwrap();
        std::fs::write(path("[ab]/e.csv"), "").unwrap();
        assert_eq!(files(vec![inside(&path("[ab]"), Path::new("*.csv"))]).unwrap(), [path("[ab]/e.csv")]);
    }
}
