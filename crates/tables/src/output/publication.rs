//! All outputs of a run appear together and complete, or not at all.
//!
//! Until [`RunOutputs::commit`], every output is an unnamed file, which nobody can open and which vanishes when the
//! program ends, for any reason. The commit copies each file next to its target, syncs all of them to disk, and only
//! then renames them; a publication that is dropped instead leaves nothing.

#![expect(clippy::disallowed_methods, reason = "unnamed files until all of them can be renamed")]

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evertally_declare::error::PipelineError;
use evertally_declare::url::{is_url, without_secrets};
use evertally_ledger::protected::protection_of;
use tempfile::NamedTempFile;

/// An error of an output: names its path and a remedy.
#[derive(Debug)]
pub struct OutputError {
    path: PathBuf,
    problem: String,
    /// The kind of the system's error, if there was one.
    kind: Option<io::ErrorKind>,
}

impl OutputError {
    /// A problem with an output.
    pub fn new(path: &Path, problem: impl fmt::Display) -> Self {
        OutputError { path: path.to_owned(), problem: problem.to_string(), kind: None }
    }

    /// Whether the user gave a path that cannot be an output, as opposed to an error of the system.
    pub fn is_usage(&self) -> bool {
        use io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        matches!(self.kind, None | Some(IsADirectory | NotADirectory | NotFound))
    }

    /// Whether the reader of a pipe closed it.
    pub fn is_broken_pipe(&self) -> bool {
        self.kind == Some(io::ErrorKind::BrokenPipe)
    }

    /// The output's path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn from_io(path: &Path, error: &io::Error) -> Self {
        let problem = match error.kind() {
            io::ErrorKind::PermissionDenied => "permission to write there is denied; choose a writable folder".into(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "the disk is full; free some space or choose another folder".into()
            }
            io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only; choose another folder".into(),
            io::ErrorKind::NotFound => "its folder does not exist; create it first".into(),
            io::ErrorKind::NotADirectory => "part of its path is a file, not a folder; check the path".into(),
            io::ErrorKind::IsADirectory => IS_DIRECTORY.into(),
            io::ErrorKind::AlreadyExists => EXISTS.into(),
            io::ErrorKind::BrokenPipe => "its reader closed it before everything was written".into(),
            _ => format!("it cannot be written ({error})"),
        };
        OutputError { kind: Some(error.kind()), ..OutputError::new(path, problem) }
    }
}

const IS_DIRECTORY: &str = "this is a directory; name a file in it";
const EXISTS: &str = "the file exists already and is not replaced; move it away or use another name";

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", display_name(&self.path), self.problem)
    }
}

impl std::error::Error for OutputError {}

impl From<OutputError> for PipelineError {
    fn from(error: OutputError) -> Self {
        let is_usage = error.is_usage();
        PipelineError::other(error, is_usage)
    }
}

fn display_name(path: &Path) -> String {
    if is_stdout(path) { "standard output".into() } else { without_secrets(path) }
}

fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a path leads to standard output or to a device, next to which no file belongs.
pub fn is_stream(path: &Path) -> bool {
    // These lead to inherited files of the program, which may have other names.
    let is_handed_over = || ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|own| path.starts_with(own));
    is_stdout(path) || is_handed_over() || fs::metadata(path).is_ok_and(|meta| !meta.is_file() && !meta.is_dir())
}

/// Whether standard output was closed when the program began.
///
/// The runtime opens the null device instead of a closed standard stream, for reading and writing; a shell's
/// `>/dev/null` opens it for writing only. So a null device that can be read from is one that nobody requested, or
/// cannot be distinguished from it.
#[cfg(unix)]
fn is_stdout_lost() -> bool {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let Ok(out) = io::stdout().as_fd().try_clone_to_owned().map(File::from) else { return true };
    let is_null = match (out.metadata(), fs::metadata("/dev/null")) {
        (Ok(out), Ok(null)) => out.rdev() == null.rdev() && out.dev() == null.dev() && out.ino() == null.ino(),
        _ => false,
    };
    is_null && (&out).read(&mut [0]).is_ok()
}

#[cfg(not(unix))]
fn is_stdout_lost() -> bool {
    false
}

/// Refuses standard output if it was closed when the program began.
pub(super) fn check_stdout(path: &Path) -> Result<(), OutputError> {
    if is_stdout(path) && is_stdout_lost() {
        let problem = "it is closed, and the output would be lost; pass a file name (/dev/null to discard)";
        return Err(OutputError::new(path, problem));
    }
    Ok(())
}

/// An error of a writer for display: the [`OutputError`] that an [`OutputFile`] wrapped, if it is one.
pub(super) fn plain_io_error(error: io::Error) -> PipelineError {
    match error.downcast::<OutputError>() {
        Ok(output) => output.into(),
        Err(error) => error.into(),
    }
}

/// The outputs of one run.
#[doc(alias = "Publication")]
#[derive(Debug)]
pub struct RunOutputs {
    inputs: Vec<PathBuf>,
    overwrite: bool,
    outputs: Vec<StagedOutput>,
}

#[derive(Debug)]
struct StagedOutput {
    /// The path as given.
    path: PathBuf,
    target: Target,
    /// The storage until the commit: a file without a name.
    spool: File,
    finished: Arc<AtomicBool>,
}

/// The permissions of an output.
#[derive(Clone, Debug)]
enum Mode {
    /// Those of the file that it replaces.
    Kept(fs::Permissions),
    /// Those of the user's mask.
    Usual,
    /// Readable by the user only.
    Private,
}

#[derive(Debug)]
enum Target {
    /// A file, by its name with links resolved.
    File { target: PathBuf, mode: Mode },
    /// Standard output or a device: the output is copied there at the end.
    Stream,
}

impl RunOutputs {
    /// A publication that never writes to one of `inputs`, nor to [files that belong to a
    /// key](evertally_ledger::protected), and replaces other existing files only with `overwrite`.
    pub fn new(inputs: &[PathBuf], overwrite: bool) -> Self {
        RunOutputs { inputs: inputs.to_vec(), overwrite, outputs: Vec::new() }
    }

    /// Starts an output: a file, or standard output if `path` is `-`.
    pub fn add(&mut self, path: &Path) -> Result<OutputFile, OutputError> {
        self.begin(path, Mode::Usual)
    }

    /// Starts an output that only the user may read.
    pub fn add_private(&mut self, path: &Path) -> Result<OutputFile, OutputError> {
        self.begin(path, Mode::Private)
    }

    fn begin(&mut self, path: &Path, mode: Mode) -> Result<OutputFile, OutputError> {
        let target = self.prepare(path, mode)?;
        let spool = match &target {
            Target::File { target, .. } => {
                // In the target's own folder: a folder that is not writable fails now, and not after hours.
                tempfile::tempfile_in(folder_of(target)).map_err(|e| OutputError::from_io(path, &e))?
            }
            Target::Stream => spool(path)?,
        };
        let handle = spool.try_clone().map_err(|e| OutputError::from_io(path, &e))?;
        let finished = Arc::new(AtomicBool::new(false));
        self.outputs.push(StagedOutput { path: path.to_owned(), target, spool, finished: finished.clone() });
        Ok(OutputFile { path: path.to_owned(), writer: BufWriter::with_capacity(64 * 1024, handle), finished })
    }

    fn prepare(&self, path: &Path, mode: Mode) -> Result<Target, OutputError> {
        let io_error = |e: io::Error| OutputError::from_io(path, &e);
        if is_stdout(path) {
            if self.outputs.iter().any(|o| is_stdout(&o.path)) {
                return Err(OutputError::new(path, "two outputs go there; write one of them to a file"));
            }
            check_stdout(path)?;
            return Ok(Target::Stream);
        }
        if is_url(path) {
            return Err(OutputError::new(
                path,
                "outputs are written to files, not to URLs; name a file, and upload it",
            ));
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
            return Ok(Target::Stream);
        }
        let target = resolve(path, existing.is_some())?;
        self.refuse_clash(path, &target)?;
        if let Some(what) = protection_of(path, &self.inputs) {
            return Err(OutputError::new(path, format!("{what}, and no output replaces it; use another name")));
        }
        if existing.is_some() && !self.overwrite {
            return Err(OutputError::new(path, EXISTS));
        }
        let mode = match (mode, existing) {
            (Mode::Usual, Some(meta)) => Mode::Kept(meta.permissions()),
            (mode, _) => mode,
        };
        Ok(Target::File { target, mode })
    }

    fn refuse_clash(&self, path: &Path, target: &Path) -> Result<(), OutputError> {
        let same_output =
            |o: &&StagedOutput| matches!(&o.target, Target::File { target: other, .. } if other == target);
        if let Some(other) = self.outputs.iter().find(same_output) {
            let problem = format!("another output ({}) goes to the same file; use two files", other.path.display());
            return Err(OutputError::new(path, problem));
        }
        if self.inputs.iter().any(|input| is_same_file(input, target)) {
            return Err(OutputError::new(
                path,
                "this is an input of the run, which is never replaced; use another name",
            ));
        }
        Ok(())
    }

    /// Syncs everything to disk, then renames every file to its target.
    ///
    /// If an error occurs before the first rename, no new file remains. If a later rename fails, files that did not
    /// exist before are removed again, and files that were replaced keep their new content.
    pub fn commit(self) -> Result<(), OutputError> {
        let mut files = Vec::new();
        let mut streams = Vec::new();
        for output in self.outputs {
            if !output.finished.load(Ordering::Acquire) {
                return Err(OutputError::new(&output.path, "it is incomplete; nothing is published"));
            }
            match output.target {
                Target::File { target, mode } => {
                    let temp = copy_next_to(&target, &mode, output.spool);
                    let temp = temp.map_err(|e| OutputError::from_io(&output.path, &e))?;
                    files.push((output.path, target, temp));
                }
                Target::Stream => streams.push((output.path, output.spool)),
            }
        }
        // Streams first: they fail more often, and then no file has been renamed yet.
        for (path, spool) in streams {
            copy_out(&path, spool).map_err(|e| OutputError::from_io(&path, &e))?;
        }
        name_all(files, self.overwrite)
    }
}

/// Renames one after the other; if a later rename fails, removes the new files.
fn name_all(files: Vec<(PathBuf, PathBuf, NamedTempFile)>, overwrite: bool) -> Result<(), OutputError> {
    let mut created: Vec<PathBuf> = Vec::new();
    for (path, target, temp) in files {
        let existed = target.exists();
        let named = if overwrite { temp.persist(&target) } else { temp.persist_noclobber(&target) };
        if let Err(error) = named {
            for other in created {
                // Best effort: the first error matters more.
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

/// Makes a new name survive a power failure, if the system can; the file is complete either way.
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
            format!("cannot keep its contents in {} until the commit ({e}); set TMPDIR", folder.display()),
        )
    })
}

/// The file that a path stands for: a link is followed, so that the link remains.
fn resolve(path: &Path, exists: bool) -> Result<PathBuf, OutputError> {
    let io_error = |e: io::Error| OutputError::from_io(path, &e);
    if exists {
        return fs::canonicalize(path).map_err(io_error);
    }
    let Some(name) = path.file_name() else {
        return Err(OutputError::new(path, "it does not end in a file name; add one"));
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

fn folder_of(target: &Path) -> &Path {
    target.parent().unwrap_or(Path::new("/"))
}

/// Copies a finished output to a temporary file in its target's folder, with its final mode, and syncs it to disk.
fn copy_next_to(target: &Path, mode: &Mode, mut spool: File) -> io::Result<NamedTempFile> {
    let mut prefix = OsString::from(".");
    prefix.push(target.file_name().unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".tmp");
    #[cfg(unix)]
    if matches!(mode, Mode::Usual) {
        use std::os::unix::fs::PermissionsExt;
        // The user's mask applies to this mode; the library's default is private to the user.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let mut temp = builder.tempfile_in(folder_of(target))?;
    if let Mode::Kept(permissions) = mode {
        temp.as_file().set_permissions(permissions.clone())?;
    }
    spool.rewind()?;
    io::copy(&mut spool, temp.as_file_mut())?;
    temp.as_file().sync_all()?;
    Ok(temp)
}

/// An output in progress. [`finish`](Self::finish) it before the publication is committed.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    writer: BufWriter<File>,
    finished: Arc<AtomicBool>,
}

impl OutputFile {
    /// Flushes the buffer and marks the output as complete.
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
