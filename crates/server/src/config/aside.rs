//! `aside`: files for raw data that a stream does not accept.

use evertally_declare::error::{Result, usage};
use std::path::Path;

/// Checks whether a file could be written.
///
/// # Errors
/// If its folder does not exist, or it is a folder itself.
pub(crate) fn check_aside(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.is_dir() {
        return Err(usage(format!("{}, the file for `aside`, is a folder; give the path of a file", path.display())));
    }
    match folder.is_dir() {
        true => Ok(()),
        false => Err(usage(format!("the folder of {}, for `aside`, does not exist; create it", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_needs_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        check_aside(&folder.path().join("aside.jsonl")).unwrap();
        for (path, problem) in [(folder.path().to_owned(), "is a folder"), (folder.path().join("a/b"), "create it")] {
            assert!(check_aside(&path).unwrap_err().to_string().contains(problem), "{problem}");
        }
    }
}
