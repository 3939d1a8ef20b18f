//! Configuration files: the long flags of a command, without dashes, as TOML.

use super::StreamArgs;
use crate::failure::usage;
use anyhow::Result;
use evertally_publish::words::quoted;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// A configuration file that has no unknown name.
///
/// Every part of a command's flags is read from the whole text, so that messages name line and column; serde cannot both
/// flatten parts and refuse unknown names, which are therefore held against the command's own list of flags.
pub(crate) struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// Reads a file for the command with these flags.
    pub(crate) fn read<Flags: clap::Args>(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => usage(format!("--config {shown}: there is no such file; check the path")),
            _ => usage(format!("cannot read --config {shown}: {e}")),
        })?;
        let file = Self { path: path.to_owned(), text };
        let command = Flags::augment_args(clap::Command::new("evertally"));
        let flags = command.get_arguments().filter_map(|flag| flag.get_long()).filter(|name| *name != "config");
        let known: Vec<&str> = flags.chain(["input"]).collect();
        for name in file.part::<toml::Table>()?.keys() {
            if !known.contains(&name.as_str()) {
                let near = known.iter().map(|flag| (strsim::jaro_winkler(flag, name), flag));
                let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
                let hint = near.map_or(String::new(), |(_, flag)| format!("; did you mean {}?", quoted(flag)));
                return Err(usage(format!("{shown}: there is no flag --{name} that {} could set{hint}", quoted(name))));
            }
        }
        Ok(file)
    }

    /// The folder that paths in the file are relative to.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// The flags of one part of the command.
    pub(crate) fn part<T: DeserializeOwned>(&self) -> Result<T> {
        toml::from_str(&self.text).map_err(|e| usage(format!("{}: {}", self.path.display(), e.to_string().trim_end())))
    }

    /// The flags that every published stream has.
    pub(crate) fn stream(&self) -> Result<StreamArgs> {
        let mut args = StreamArgs { budget: self.part()?, ..self.part()? };
        args.resolve_paths(self.folder());
        Ok(args)
    }
}
