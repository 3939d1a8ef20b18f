//! Where objects are: a store that is reached by URL, or a folder.

use evertally_declare::error::{Result, usage};
use evertally_tables::input::{list_stamped, object_exists, open_stamped, url_identity};
use std::fs::Metadata;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a file must have been unchanged until it is read.
const MIN_FILE_AGE: Duration = Duration::from_secs(2);

/// An object that was found.
#[derive(Clone, Debug)]
pub(super) struct ListedObject {
    /// Its name after that of the folder.
    pub(super) name: String,
    /// It differs between versions of the object.
    pub(super) stamp: String,
}

/// A folder of a store, or one of this machine.
#[derive(Clone, Debug)]
pub(super) enum SourceFolder {
    Url(String),
    Folder(PathBuf),
}

impl SourceFolder {
    /// From a URL that ends in a slash.
    pub(super) fn new(url: &str) -> Result<Self> {
        match url.strip_prefix("file://") {
            Some(folder) if folder.starts_with('/') => Ok(Self::Folder(folder.into())),
            Some(_) => Err(usage("the URL of a folder has three slashes: file:///FOLDER/")),
            None => Ok(Self::Url(url.to_owned())),
        }
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Url(url) => url.clone(),
            Self::Folder(folder) => format!("{}/", folder.display().to_string().trim_end_matches('/')),
        }
    }

    /// The same for all ways to write the URL.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Url(url) => url_identity(Path::new(url)).display().to_string(),
            Self::Folder(_) => format!("file://{}", self.shown()),
        }
    }

    /// All objects in byte order. This blocks.
    pub(super) fn list(&self) -> io::Result<Vec<ListedObject>> {
        match self {
            Self::Url(url) => {
                let found = list_stamped(Path::new(url))?.into_iter();
                Ok(found.map(|(name, stamp)| ListedObject { name, stamp: stamp.to_string() }).collect())
            }
            Self::Folder(folder) => {
                let mut found = Vec::new();
                list_folder(folder, "", &mut found)?;
                found.sort_by(|one, other| one.name.cmp(&other.name));
                Ok(found)
            }
        }
    }

    /// Opens an object, and returns its stamp. This blocks, as reading does.
    pub(super) fn open(&self, name: &str) -> io::Result<(Box<dyn Read>, String)> {
        match self {
            Self::Url(url) => {
                let (reader, stamp) = open_stamped(Path::new(&format!("{url}{name}")))?;
                Ok((reader, stamp.to_string()))
            }
            Self::Folder(folder) => {
                let file = std::fs::File::open(folder.join(name))?;
                let stamp = stamp_of(&file.metadata()?)?;
                Ok((Box::new(file), stamp))
            }
        }
    }

    /// Whether an object is known not to exist. This blocks.
    pub(super) fn is_missing(&self, name: &str) -> bool {
        match self {
            Self::Url(url) => matches!(object_exists(Path::new(&format!("{url}{name}"))), Ok(false)),
            Self::Folder(folder) => matches!(folder.join(name).try_exists(), Ok(false)),
        }
    }
}

fn stamp_of(about: &Metadata) -> io::Result<String> {
    let since = about.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(format!("{} at {}", about.len(), since.as_nanos()))
}

/// The files of a folder and of those in it, without hidden ones and those that may still be written.
fn list_folder(folder: &Path, prefix: &str, found: &mut Vec<ListedObject>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{prefix}{name}");
        let about = match std::fs::metadata(entry.path()) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if about.is_dir() && entry.file_type()?.is_dir() {
            list_folder(&entry.path(), &format!("{name}/"), found)?;
        } else if about.is_file() && about.modified()?.elapsed().is_ok_and(|age| age >= MIN_FILE_AGE) {
            found.push(ListedObject { name, stamp: stamp_of(&about)? });
        }
    }
    Ok(())
}
