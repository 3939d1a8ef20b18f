//! All outputs of a run appear together, whole, or not at all.
//!
//! Each is written under a temporary name in the folder of its target. [`Publication::commit`] brings all of them safely
//! to disk and only then gives them their names; a publication that is dropped instead removes what it wrote.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;

/// Something wrong with an output: names its path and says what to do.
#[derive(Debug)]
pub struct OutputError {
    path: PathBuf,
    problem: String,
}

impl OutputError {
    /// A problem with an output.
    pub fn new(path: &Path, problem: impl fmt::Display) -> Self {
        OutputError { path: path.to_owned(), problem: problem.to_string() }
    }

    /// The output's path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::PermissionDenied => {
                "permission to write there is denied; choose a folder you may write to".into()
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "the disk is full; make room or choose another folder (nothing was left behind)".into()
            }
            io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another folder".into(),
            io::ErrorKind::NotFound => "its folder does not exist; create it first".into(),
            io::ErrorKind::NotADirectory => "part of its path is a file, not a folder; check the path".into(),
            io::ErrorKind::IsADirectory => IS_DIRECTORY.into(),
            io::ErrorKind::AlreadyExists => EXISTS.into(),
            io::ErrorKind::BrokenPipe => "its reader went away before everything was written".into(),
            _ => format!("it cannot be written ({error})"),
        };
        OutputError::new(path, problem)
    }
}

const IS_DIRECTORY: &str = "this is a directory; give the name of a file in it";
const EXISTS: &str = "the file exists already and is not replaced; move it away or give another name";

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", display_name(&self.path), self.problem)
    }
}

impl std::error::Error for OutputError {}

fn display_name(path: &Path) -> String {
    if is_stdout(path) { "standard output".into() } else { path.display().to_string() }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// An error of a writer as the user should see it: the [`OutputError`] that an [`OutputFile`] wrapped, if it is one.
pub(super) fn plain_io_error(error: io::Error) -> anyhow::Error {
    match error.downcast::<OutputError>() {
        Ok(output) => output.into(),
        Err(error) => error.into(),
    }
}

/// The outputs of one run.
#[derive(Debug)]
pub struct Publication {
    inputs: Vec<PathBuf>,
    overwrite: bool,
    outputs: Vec<Output>,
}

#[derive(Debug)]
struct Output {
    /// The path as it was given.
    path: PathBuf,
    target: Target,
    finished: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Target {
    /// A file that gets its name at the end; the name with links resolved.
    File { target: PathBuf, temp: NamedTempFile },
    /// Standard output or a device: copied there at the end, from an unnamed temporary file.
    Stream { spool: File },
}

impl Publication {
    /// A publication that will never touch one of `inputs`, and replaces other existing files only with `overwrite`.
    pub fn new(inputs: &[PathBuf], overwrite: bool) -> Self {
        Publication { inputs: inputs.to_vec(), overwrite, outputs: Vec::new() }
    }

    /// Begins an output: a file, or standard output when `path` is `-`.
    pub fn add(&mut self, path: &Path) -> Result<OutputFile, OutputError> {
        let target = self.prepare(path)?;
        let handle = match &target {
            Target::File { temp, .. } => temp.as_file().try_clone(),
            Target::Stream { spool } => spool.try_clone(),
        };
        let handle = handle.map_err(|e| OutputError::from_io(path, &e))?;
        let finished = Arc::new(AtomicBool::new(false));
        self.outputs.push(Output { path: path.to_owned(), target, finished: finished.clone() });
        Ok(OutputFile { path: path.to_owned(), writer: BufWriter::with_capacity(64 * 1024, handle), finished })
    }

    fn prepare(&self, path: &Path) -> Result<Target, OutputError> {
        let io_error = |e: io::Error| OutputError::from_io(path, &e);
        if is_stdout(path) {
            if self.outputs.iter().any(|o| is_stdout(&o.path)) {
                return Err(OutputError::new(path, "two outputs go there; give one of them a file name"));
            }
            return Ok(Target::Stream { spool: spool(path)? });
        }
        let existing = match fs::metadata(path) {
            Ok(meta) => Some(meta),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(io_error(e)),
        };
        if existing.as_ref().is_some_and(fs::Metadata::is_dir) {
            return Err(OutputError::new(path, IS_DIRECTORY));
        }
        if existing.as_ref().is_some_and(|meta| !meta.is_file()) {
            return Ok(Target::Stream { spool: spool(path)? });
        }
        let target = resolve(path, existing.is_some())?;
        self.refuse_clash(path, &target)?;
        if existing.is_some() && !self.overwrite {
            return Err(OutputError::new(path, EXISTS));
        }
        let temp = temp_beside(&target, existing.as_ref()).map_err(io_error)?;
        Ok(Target::File { target, temp })
    }

    fn refuse_clash(&self, path: &Path, target: &Path) -> Result<(), OutputError> {
        let same_output = |o: &&Output| matches!(&o.target, Target::File { target: other, .. } if other == target);
        if let Some(other) = self.outputs.iter().find(same_output) {
            let problem = format!("another output ({}) goes to the same file; give each its own", other.path.display());
            return Err(OutputError::new(path, problem));
        }
        if self.inputs.iter().any(|input| is_same_file(input, target)) {
            return Err(OutputError::new(
                path,
                "this is an input of the run, which is never replaced; give another name",
            ));
        }
        Ok(())
    }

    /// Brings everything to disk, then gives every file its name. On an error nothing new stays behind.
    pub fn commit(self) -> Result<(), OutputError> {
        let mut files = Vec::new();
        let mut streams = Vec::new();
        for output in self.outputs {
            if !output.finished.load(Ordering::Acquire) {
                return Err(OutputError::new(&output.path, "it was not written to its end; nothing is published"));
            }
            match output.target {
                Target::File { target, temp } => {
                    temp.as_file().sync_all().map_err(|e| OutputError::from_io(&output.path, &e))?;
                    files.push((output.path, target, temp));
                }
                Target::Stream { spool } => streams.push((output.path, spool)),
            }
        }
        // Streams first: they fail more easily, and then no file has its name yet.
        for (path, spool) in streams {
            copy_out(&path, spool).map_err(|e| OutputError::from_io(&path, &e))?;
        }
        name_all(files, self.overwrite)
    }
}

/// Renames one after the other; takes new names back when a later one fails.
fn name_all(files: Vec<(PathBuf, PathBuf, NamedTempFile)>, overwrite: bool) -> Result<(), OutputError> {
    let mut created: Vec<PathBuf> = Vec::new();
    for (path, target, temp) in files {
        let existed = target.exists();
        let named = if overwrite { temp.persist(&target) } else { temp.persist_noclobber(&target) };
        if let Err(error) = named {
            for other in created {
                // Best effort: the error that matters is already there.
                let _ = fs::remove_file(other);
            }
            return Err(OutputError::from_io(&path, &error.error));
        }
        sync_folder(&target);
        if !existed {
            created.push(target);
        }
    }
    Ok(())
}

/// Makes a new name last through a power failure; not every system can, and the file is whole either way.
fn sync_folder(target: &Path) {
    if let Some(folder) = target.parent() {
        let _ = File::open(folder).and_then(|f| f.sync_all());
    }
}

fn copy_out(path: &Path, mut spool: File) -> io::Result<()> {
    spool.rewind()?;
    if is_stdout(path) {
        let mut out = io::stdout().lock();
        io::copy(&mut spool, &mut out)?;
        return out.flush();
    }
    let mut out = fs::OpenOptions::new().write(true).open(path)?;
    io::copy(&mut spool, &mut out)?;
    out.flush()
}

fn spool(path: &Path) -> Result<File, OutputError> {
    tempfile::tempfile().map_err(|e| {
        let folder = std::env::temp_dir();
        OutputError::new(
            path,
            format!("its contents cannot be kept in {} meanwhile ({e}); set TMPDIR", folder.display()),
        )
    })
}

/// The file a path stands for: a link to a file is followed, so that the link stays.
fn resolve(path: &Path, exists: bool) -> Result<PathBuf, OutputError> {
    let io_error = |e: io::Error| OutputError::from_io(path, &e);
    if exists {
        return fs::canonicalize(path).map_err(io_error);
    }
    let Some(name) = path.file_name() else {
        return Err(OutputError::new(path, "it does not end in a file name; give one"));
    };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(fs::canonicalize(folder).map_err(io_error)?.join(name))
}

fn is_same_file(input: &Path, target: &Path) -> bool {
    let Ok(input) = fs::canonicalize(input) else { return false };
    input == target || is_same_inode(&input, target)
}

#[cfg(unix)]
fn is_same_inode(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_inode(_: &Path, _: &Path) -> bool {
    false
}

/// A temporary file in the target's folder, with the mode that the target has or would have got.
fn temp_beside(target: &Path, existing: Option<&fs::Metadata>) -> io::Result<NamedTempFile> {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // A new file gets what the user's mask leaves of this; the library's default would be private to the user.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temp = builder.tempfile_in(folder)?;
    if let Some(meta) = existing {
        temp.as_file().set_permissions(meta.permissions())?;
    }
    Ok(temp)
}

/// An output while it is written. [`finish`](Self::finish) it before the publication is committed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    writer: BufWriter<File>,
    finished: Arc<AtomicBool>,
}

impl OutputFile {
    /// Writes out what is buffered and declares the output whole.
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.writer.flush().map_err(|e| OutputError::from_io(&self.path, &e))?;
        self.finished.store(true, Ordering::Release);
        Ok(())
    }

    fn wrap(&self, error: io::Error) -> io::Error {
        io::Error::new(error.kind(), OutputError::from_io(&self.path, &error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writer.write(buf).map_err(|e| self.wrap(e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush().map_err(|e| self.wrap(e))
    }
}
