use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::output::publication::plain_io_error;
use crate::output::{OutputError, RunOutputs};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn write(publication: &mut RunOutputs, path: &Path, text: &str) -> Result<(), OutputError> {
    let mut file = publication.add(path)?;
    file.write_all(text.as_bytes()).unwrap();
    file.finish()
}

fn refused(publication: &mut RunOutputs, path: &Path) -> String {
    let error = publication.add(path).unwrap_err();
    assert_eq!(error.path(), path);
    error.to_string()
}

#[test]
fn everything_appears_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a.csv"), folder.path().join("b.html"));
    let mut publication = RunOutputs::new(&[], false);
    write(&mut publication, &a, "table").unwrap();
    write(&mut publication, &b, "report").unwrap();
    assert!(!a.exists() && !b.exists());
    publication.commit().unwrap();
    assert_eq!(fs::read_to_string(&a).unwrap(), "table");
    assert_eq!(fs::read_to_string(&b).unwrap(), "report");
    assert_eq!(names(folder.path()), ["a.csv", "b.html"]);
}

#[test]
fn nothing_stays_behind_without_commit() {
    let folder = tempfile::tempdir().unwrap();
    let mut publication = RunOutputs::new(&[], false);
    write(&mut publication, &folder.path().join("a"), "x").unwrap();
    let mut open = publication.add(&folder.path().join("b")).unwrap();
    open.write_all(&[7; 100_000]).unwrap();
    // Not even under a temporary name: a killed run leaves no release that the ledger does not know.
    assert_eq!(names(folder.path()), [""; 0]);
    drop(publication);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn unfinished_outputs_are_not_published() {
    let folder = tempfile::tempdir().unwrap();
    let mut publication = RunOutputs::new(&[], false);
    write(&mut publication, &folder.path().join("a"), "x").unwrap();
    let unfinished = publication.add(&folder.path().join("b")).unwrap();
    let error = publication.commit().unwrap_err().to_string();
    assert!(error.contains("/b: ") && error.contains("it is incomplete"), "{error}");
    drop(unfinished);
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn existing_files_are_replaced_only_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "old").unwrap();
    let error = refused(&mut RunOutputs::new(&[], false), &path);
    assert!(error.contains("exists already") && error.contains("another name"), "{error}");
    let mut publication = RunOutputs::new(&[], true);
    write(&mut publication, &path, "new").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    publication.commit().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn a_file_that_appears_meanwhile_is_kept_and_the_rest_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let mut publication = RunOutputs::new(&[], false);
    write(&mut publication, &a, "new").unwrap();
    write(&mut publication, &b, "new").unwrap();
    fs::write(&b, "theirs").unwrap();
    let error = publication.commit().unwrap_err().to_string();
    assert!(error.contains("/b: ") && error.contains("exists already"), "{error}");
    assert_eq!(names(folder.path()), ["b"]);
    assert_eq!(fs::read_to_string(&b).unwrap(), "theirs");
}

#[test]
fn clashes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, "data").unwrap();
    let mut publication = RunOutputs::new(&[input.clone(), PathBuf::from("-")], true);
    let error = refused(&mut publication, &input);
    assert!(error.contains("input of the run"), "{error}");
    write(&mut publication, &output, "x").unwrap();
    let other_way = folder.path().join(".").join("out");
    let error = refused(&mut publication, &other_way);
    assert!(error.contains("another output") && error.contains("/out"), "{error}");
    write(&mut publication, Path::new("-"), "").unwrap();
    let error = refused(&mut publication, Path::new("-"));
    assert!(error.starts_with("standard output: two outputs go there"), "{error}");
}

#[test]
fn bad_places_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut publication = RunOutputs::new(&[], true);
    let error = refused(&mut publication, folder.path());
    assert!(error.contains("is a directory"), "{error}");
    let error = refused(&mut publication, &folder.path().join("no/such/folder.csv"));
    assert!(error.contains("folder does not exist"), "{error}");
    fs::write(folder.path().join("file"), "").unwrap();
    let error = refused(&mut publication, &folder.path().join("file/out.csv"));
    assert!(error.contains("is a file, not a folder"), "{error}");
    let error = refused(&mut publication, &folder.path().join("new/.."));
    assert!(error.contains("folder does not exist") || error.contains("file name"), "{error}");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_stay_and_modes_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&file, &link).unwrap();
        let mut publication = RunOutputs::new(&[], true);
        write(&mut publication, &link, "new").unwrap();
        publication.commit().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn new_files_get_the_mode_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        let mut publication = RunOutputs::new(&[], false);
        write(&mut publication, &ours, "x").unwrap();
        publication.commit().unwrap();
        fs::write(&plain, "x").unwrap();
        assert_eq!(fs::metadata(&ours).unwrap().mode(), fs::metadata(&plain).unwrap().mode());
    }

    #[test]
    fn hard_links_to_an_input_are_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let (input, other) = (folder.path().join("in"), folder.path().join("other"));
        fs::write(&input, "data").unwrap();
        fs::hard_link(&input, &other).unwrap();
        let error = refused(&mut RunOutputs::new(&[input], true), &other);
        assert!(error.contains("input of the run"), "{error}");
    }

    #[test]
    fn a_full_device_is_named_and_nothing_published() {
        if !Path::new("/dev/full").exists() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let mut publication = RunOutputs::new(&[], false);
        write(&mut publication, &folder.path().join("a"), "x").unwrap();
        write(&mut publication, Path::new("/dev/full"), "y").unwrap();
        let error = publication.commit().unwrap_err().to_string();
        assert!(error.contains("/dev/full: the disk is full"), "{error}");
        assert_eq!(names(folder.path()), [""; 0]);
        let mut publication = RunOutputs::new(&[], false);
        write(&mut publication, Path::new("/dev/null"), "y").unwrap();
        publication.commit().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}

#[test]
fn reasons_of_the_system_are_put_plainly() {
    for (kind, words) in [
        (io::ErrorKind::PermissionDenied, "permission to write there is denied"),
        (io::ErrorKind::StorageFull, "the disk is full"),
        (io::ErrorKind::ReadOnlyFilesystem, "read-only"),
        (io::ErrorKind::BrokenPipe, "reader closed it"),
    ] {
        let wrapped = io::Error::new(kind, OutputError::from_io(Path::new("out.csv"), &kind.into()));
        let error = plain_io_error(wrapped);
        assert!(error.other_as::<OutputError>().is_some());
        assert!(error.to_string().starts_with("out.csv: ") && error.to_string().contains(words), "{error}");
    }
}
