//! Configuration files: the long flags of a command, without dashes, as TOML.

use super::flags::Flags;
use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::{Use, Written, unknown_in_file};
use evertally_declare::url::is_url;
use std::path::{Path, PathBuf};

/// Fills in missing flags from the configuration file that they name, if any.
pub(crate) fn with_config(mut flags: impl Flags, user: Use) -> Result<Written> {
    let flags = std::mem::take(flags.written());
    match flags.files.config.clone() {
        Some(path) => Ok(flags.or(read(&path, user)?)),
        None => Ok(flags),
    }
}

/// Reads the flags of a configuration file. Error messages name line and column, or the unknown name.
fn read(path: &Path, user: Use) -> Result<Written> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => usage(format!("--config {shown}: there is no such file; check the path")),
        _ => usage(format!("cannot read --config {shown}: {e}")),
    })?;
    let damaged = |e: toml::de::Error| usage(format!("{shown}: {}", e.to_string().trim_end()));
    let names: toml::Table = toml::from_str(&text).map_err(damaged)?;
    if let Some(problem) = names.keys().find_map(|name| unknown_in_file(name, user)) {
        return Err(usage(format!("{shown}: {problem}")));
    }
    let mut written: Written = toml::from_str(&text).map_err(damaged)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let (files, questions) = (&mut written.files, &mut written.questions);
    let (budget, groups) = (&mut files.budget_file, &mut files.groups_file);
    let paths = [&mut files.key, budget, &mut files.out, groups, &mut questions.queries, &mut questions.candidates];
    if let Some(pattern) = files.expect.as_mut().filter(|pattern| !is_fixed(Path::new(pattern))) {
        // A pattern is also a path; a % in the name of its folder is literal.
        let folder = folder.join("").to_string_lossy().replace('%', "%%");
        pattern.insert_str(0, &folder);
    }
    let inputs = files.input.iter_mut().flat_map(|paths| &mut paths.0);
    inputs.for_each(|path| resolve(path, folder, super::inputs::inside));
    paths.into_iter().flatten().for_each(|path| resolve(path, folder, |folder, path| folder.join(path)));
    Ok(written)
}

/// Whether a path does not depend on a folder.
fn is_fixed(path: &Path) -> bool {
    path.is_absolute() || is_url(path)
}

/// Makes a path of a configuration file relative to the file's folder, unless it is standard input or output, or a URL.
fn resolve(path: &mut PathBuf, folder: &Path, join: impl Fn(&Path, &Path) -> PathBuf) {
    if path.as_os_str() != "-" && !is_fixed(path) {
        *path = join(folder, path.as_path());
    }
}
