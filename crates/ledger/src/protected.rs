//! Files that no output may replace.
//!
//! The files next to a key are the only record of the noise that it has issued. If a table replaced them, the same
//! noise could be issued again over other data, so every command that writes calls [`check_output`] first. Files are
//! protected by name, whether or not they exist yet; by content, under any name; and by folder.

use evertally_declare::error::{Result, usage};
use evertally_declare::url::{is_url, without_secrets};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// The endings of the files next to a key, appended to the key's file name. New kinds of files next to keys must be
/// added here, and only here.
pub const KEY_FILE_SUFFIXES: [&str; 3] = [".ledger", ".uses", ".state"];

/// Endings of hidden files next to protected ones: locks, and new contents before they are renamed.
const HIDDEN_SUFFIXES: [&str; 3] = [".lock", ".tmp", ".new"];

/// The database in the folder of a service.
pub const STORE: &str = "store.redb";

/// The first bytes of protected files, and what these files are.
const PROTECTED_PREFIXES: [(&[u8], &str); 5] = [
    (b"evertally key", "a key"),
    (b"evertally sealed key", "a sealed key"),
    (b"evertally uses", "the record of a key's noise"),
    (b"evertally state", "a state"),
    (b"redb\x1a\x0a\xa9\x0d\x0a", "the database of a service"),
];

/// The fields of protected JSON files, and what these files are.
const FIELDS: [(&[&str], &str); 3] = [
    (&["version", "key_id", "streams"], "the ledger of a key"),
    (&["version", "name", "unit", "total", "costs"], "the budget of a data source"),
    (&["version", "counter", "writer", "streams"], "the witness of a service"),
];

/// JSON files above this size are not parsed: a ledger of a million streams is smaller.
const MAX_JSON_BYTES: u64 = 1 << 30;

/// Refuses a path that must not be written: the files of a key (the key, ledger, state and locks), the budget of a
/// source, the folder and the witness of a service, and all files that the run uses (`used`: inputs, configuration, key
/// and budget), under any name.
///
/// # Errors
/// If it must not be written, with the reason.
pub fn check_output(path: &Path, used: &[PathBuf]) -> Result<()> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    if is_url(path) {
        let shown = without_secrets(path);
        return Err(usage(format!("{shown}: outputs are written to files, not to URLs; name a file, and upload it")));
    }
    match protection_of(path, used) {
        Some(what) => Err(usage(format!("{}: {what}, and no output replaces it; give another name", path.display()))),
        None => Ok(()),
    }
}

/// Refuses a name for a new key that would be mistaken for a file next to a key. A sealed key may be anywhere,
/// including the folder of a service.
///
/// # Errors
/// If it is such a name.
pub fn check_key_name(path: &Path) -> Result<()> {
    match by_name(&resolved(path), &[]) {
        Some(what) => Err(usage(format!("{}: {what}; give the key another name", path.display()))),
        None => Ok(()),
    }
}

/// Why a path is protected, such as "this is a key"; `None` if it may be written.
pub fn protection_of(path: &Path, used: &[PathBuf]) -> Option<String> {
    let target = resolved(path);
    if let Some(used) = used.iter().find(|used| is_same(used, &target)) {
        return Some(format!("this is {}, which the run uses", used.display()));
    }
    // The name as given counts, too: a link could be replaced by its target.
    let names = [target.as_path(), path];
    if let Some(what) = names.into_iter().find_map(|path| by_name(path, used)) {
        return Some(what);
    }
    if let Some(folder) = target.ancestors().skip(1).find(|folder| folder.join(STORE).is_file()) {
        return Some(format!("{} is the folder of a service", folder.display()));
    }
    by_content(&target).map(|what| format!("this is {what}"))
}

/// Protected by its name, or by the name of a folder above it.
fn by_name(path: &Path, used: &[PathBuf]) -> Option<String> {
    for (depth, path) in path.ancestors().enumerate() {
        let Some(name) = path.file_name().map(lower) else { continue };
        let ending = KEY_FILE_SUFFIXES.iter().find(|ending| name.len() > ending.len() && name.ends_with(**ending));
        // Among folders, only those with the parts of a key's state: a folder may be named after a state of another
        // kind.
        if ending.is_some_and(|ending| depth == 0 || is_beside_key(path, ending)) {
            return Some(format!("files that end in {} belong to a key", KEY_FILE_SUFFIXES.join(", ")));
        }
        if depth > 0 {
            continue;
        }
        if let Some(inner) = HIDDEN_SUFFIXES.iter().find_map(|ending| name.strip_suffix(ending)) {
            // `.KEY.lock` and `.KEY.ledger.lock`, with and without the leading dot.
            let inner = inner.strip_prefix('.').unwrap_or(inner);
            let of_used = used.iter().filter_map(|used| used.file_name()).any(|used| lower(used) == inner);
            if of_used || KEY_FILE_SUFFIXES.iter().any(|ending| inner.ends_with(ending)) || protects_beside(path, inner)
            {
                return Some("this is the lock of a protected file, or its next version".into());
            }
        }
    }
    None
}

/// Whether the key to which such a file or folder belongs exists, or its ledger.
fn is_beside_key(path: &Path, ending: &str) -> bool {
    let Some(name) = path.file_name().and_then(OsStr::to_str) else { return false };
    let key = &name[..name.len() - ending.len()];
    [key.to_owned(), format!("{key}.ledger")].iter().any(|name| by_content(&path.with_file_name(name)).is_some())
}

/// Whether a protected file of this name is in the folder of a path.
fn protects_beside(path: &Path, name: &str) -> bool {
    let folder = crate::disk::folder_of(path);
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let same = entries.flatten().filter(|entry| lower(&entry.file_name()) == name);
    same.map(|entry| entry.path()).any(|path| by_content(&path).is_some())
}

/// Protected by its content, if it exists.
fn by_content(path: &Path) -> Option<&'static str> {
    let meta = std::fs::metadata(path).ok().filter(|meta| meta.is_file())?;
    let mut file = File::open(path).ok()?;
    let mut head = Vec::new();
    file.by_ref().take(64).read_to_end(&mut head).ok()?;
    if let Some((_, what)) = PROTECTED_PREFIXES.iter().find(|(beginning, _)| head.starts_with(beginning)) {
        return Some(what);
    }
    if head.trim_ascii_start().first() != Some(&b'{') || meta.len() > MAX_JSON_BYTES {
        return None;
    }
    let rest = std::io::Cursor::new(head).chain(file);
    let fields: Fields = serde_json::from_reader(std::io::BufReader::new(rest)).ok()?;
    let has_all = |names: &[&str]| names.iter().all(|name| fields.0.iter().any(|field| field == name));
    FIELDS.iter().find(|(names, _)| has_all(names)).map(|(_, what)| *what)
}

/// The names of the fields of a JSON object.
struct Fields(Vec<String>);

impl<'de> serde::Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> serde::de::Visitor<'de> for Names {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut names = Vec::new();
                while let Some((name, _)) = map.next_entry::<String, serde::de::IgnoredAny>()? {
                    // The protected fields are among the first.
                    if names.len() < 1000 {
                        names.push(name);
                    }
                }
                Ok(Fields(names))
            }
        }
        from.deserialize_map(Names)
    }
}

/// The target of a path, with links and `..` resolved as far as the path exists.
fn resolved(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if let Ok(found) = std::fs::canonicalize(&path) {
        return found;
    }
    // A dangling link stands for the name that it points to.
    if let Ok(target) = std::fs::read_link(&path) {
        let target = crate::disk::folder_of(&path).join(target);
        if target != path {
            let name = target.file_name().map(OsStr::to_owned).unwrap_or_default();
            return folder_resolved(&target).join(name);
        }
    }
    let name = path.file_name().map(OsStr::to_owned).unwrap_or_default();
    folder_resolved(&path).join(name)
}

fn folder_resolved(path: &Path) -> PathBuf {
    path.parent().map_or_else(|| path.to_owned(), without_links)
}

/// A path without links and `..`, of which the beginning exists.
fn without_links(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            other => {
                plain.push(other);
                if let Ok(found) = std::fs::canonicalize(&plain) {
                    plain = found;
                }
            }
        }
    }
    plain
}

/// Whether a path is inside a folder, through links and `..` too. Neither needs to exist.
pub fn is_inside(path: &Path, folder: &Path) -> bool {
    // Most disks of Apple's systems ignore case.
    is_below(&resolved(path), &resolved(folder), cfg!(target_vendor = "apple"))
}

fn is_below(path: &Path, folder: &Path, ignores_case: bool) -> bool {
    if ignores_case {
        let [path, folder] = [path, folder].map(|path| PathBuf::from(lower(path.as_os_str())));
        return path.starts_with(folder);
    }
    path.starts_with(folder)
}

/// Whether two paths are the same file: through links of either kind, or if only case differs, which many disks ignore.
fn is_same(used: &Path, target: &Path) -> bool {
    if used.as_os_str().is_empty() || used.as_os_str() == "-" {
        return false;
    }
    let used = resolved(used);
    if used == *target || is_same_inode(&used, target) {
        return true;
    }
    let is_other_case = || matches!((used.file_name(), target.file_name()), (Some(a), Some(b)) if lower(a) == lower(b));
    // If both exist, they are two files.
    used.parent() == target.parent() && is_other_case() && !(used.exists() && target.exists())
}

#[cfg(unix)]
fn is_same_inode(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (std::fs::metadata(a), std::fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && a.dev() == b.dev() && a.ino() == b.ino(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_inode(_: &Path, _: &Path) -> bool {
    false
}

fn lower(name: &OsStr) -> String {
    name.to_string_lossy().to_lowercase()
}

#[cfg(test)]
mod tests;
