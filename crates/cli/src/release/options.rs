//! Flags of `evertally release`, and the same names in a TOML file.

use crate::stream::{ConfigFile, StreamArgs, resolve};
use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Flags of `evertally release`. Every long flag can also stand in the `--config` file under its own name; a flag on
/// the command line wins.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ReleaseArgs {
    /// The flags that every published stream has.
    #[command(flatten)]
    #[serde(skip)]
    pub stream: StreamArgs,

    /// Column that names the group of an event, or several, separated by commas.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Groups")]
    pub group_by: Option<Vec<String>>,
    /// The groups to release, for one --group-by column: names separated by commas, without blanks around them. For names
    /// that hold a comma use --groups-file.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Groups")]
    pub groups: Option<Vec<String>>,
    /// CSV file with one column for each --group-by column and one row for each group to release.
    #[arg(long, value_name = "FILE", help_heading = "Groups")]
    pub groups_file: Option<PathBuf>,
    /// The groups to release, one text for each --group-by column. No flag: for callers of the library.
    #[arg(skip)]
    pub group_tuples: Option<Vec<Vec<String>>>,
    /// Release events of undeclared groups under this name instead of refusing them.
    #[arg(long, value_name = "NAME", help_heading = "Groups")]
    pub rest: Option<String>,

    /// Draw the true counts too and stamp the picture: for your eyes only, it is NOT PRIVATE.
    #[arg(long, help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub unsafe_show_truth: Option<bool>,
}

impl ReleaseArgs {
    /// Fills what the command line leaves open from the configuration file, if one is named.
    pub fn with_config(self) -> Result<Self> {
        let Some(path) = &self.stream.config else { return Ok(self) };
        let config = ConfigFile::read::<Self>(path)?;
        let mut file: Self = config.part()?;
        file.stream = config.stream()?;
        file.groups_file.iter_mut().for_each(|path| resolve(path, config.folder()));
        // The two ways to declare groups are one thing.
        let own_groups = self.groups.is_some() || self.groups_file.is_some();
        let (groups, groups_file) =
            if own_groups { (self.groups, self.groups_file) } else { (file.groups, file.groups_file) };
        Ok(Self {
            stream: self.stream.or(file.stream),
            group_by: self.group_by.or(file.group_by),
            groups,
            groups_file,
            group_tuples: self.group_tuples.or(file.group_tuples),
            rest: self.rest.or(file.rest),
            unsafe_show_truth: self.unsafe_show_truth.or(file.unsafe_show_truth),
        })
    }
}
