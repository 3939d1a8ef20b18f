//! The files that a run reads and writes.

use super::reading::reading;
use crate::failure::usage;
use crate::progress::ProgressOnTerminal;
use anyhow::Result;
use evertally_declare::declaration::{self, Parameter, needed};
use evertally_declare::format::Format;
use evertally_ledger::ledger::ledger_path;
use evertally_tables::input::ReadOptions;
use evertally_tables::output::{format_of, is_stream};
use evertally_tables::progress::Progress;
use std::path::PathBuf;

/// What a run reads and writes, and how.
pub(crate) struct Files {
    pub(crate) inputs: Vec<PathBuf>,
    pub(crate) reading: ReadOptions,
    pub(crate) key_path: PathBuf,
    pub(crate) create_key: bool,
    /// The source budget that the run spends from.
    pub(crate) budget_file: Option<PathBuf>,
    pub(crate) out: PathBuf,
    pub(crate) output_format: Format,
    pub(crate) plot: bool,
    /// Whether the fastest-growing groups are written.
    pub(crate) leaders: bool,
    /// Files that were read in addition to the inputs.
    side_inputs: Vec<PathBuf>,
    pub(crate) plan_only: bool,
    pub(crate) quiet: bool,
    /// Do not ask for confirmation before finishing a stream.
    pub(crate) yes: bool,
    pub(crate) going_on: Continuation,
    /// Whether to print a JSON summary on standard output.
    pub(crate) json: bool,
}

/// How a stream continues from run to run.
pub(crate) struct Continuation {
    /// Whether it does so.
    pub(crate) is_wanted: bool,
    /// Whether all files are read again, from the first one.
    pub(crate) rebuild: bool,
    /// Whether the next stream begins after the end of the horizon.
    pub(crate) extend: bool,
    /// The file-name pattern for the file of a step.
    pub(crate) expect: Option<String>,
    /// Where late events go.
    pub(crate) late_file: Option<PathBuf>,
}

impl Continuation {
    fn new(named: &mut declaration::Files) -> Self {
        Self {
            rebuild: named.rebuild == Some(true),
            extend: named.extend == Some(true),
            expect: named.expect.take(),
            late_file: named.late_file.take(),
            is_wanted: named.r#continue == Some(true) || named.rebuild == Some(true),
        }
    }
}

impl Files {
    /// The files of a run; a run that only plans needs none.
    pub(crate) fn new(mut named: declaration::Files, missing_text: Vec<String>) -> Result<Self> {
        let plan_only = named.plan_only == Some(true);
        let going_on = Continuation::new(&mut named);
        let reading = reading(&named, missing_text)?;
        let out = match named.out {
            None if plan_only => PathBuf::from("-"),
            out => needed(out, Parameter::Out, "the file for the table")?,
        };
        let output_format = named.output_format.map_or_else(|| format_of(&out), Ok)?;
        let inputs = named.input.unwrap_or_default().0;
        if inputs.is_empty() && !plan_only && !going_on.is_wanted {
            return Err(usage("no input file was given"));
        }
        let json = named.json == Some(true);
        if json && out.as_os_str() == "-" && !plan_only {
            return Err(usage("--json and --out - both go to standard output; give --out a file name"));
        }
        let key_path = if plan_only {
            PathBuf::new()
        } else {
            needed(named.key, Parameter::Key, "create one with `evertally key new FILE`")?
        };
        Ok(Self {
            inputs,
            reading,
            key_path,
            create_key: named.create_key == Some(true),
            budget_file: named.budget_file,
            plot: named.no_plot != Some(true) && !is_stream(&out),
            out,
            output_format,
            leaders: false,
            side_inputs: [named.config, named.groups_file].into_iter().flatten().collect(),
            plan_only,
            quiet: named.quiet == Some(true),
            yes: named.yes == Some(true),
            going_on,
            json,
        })
    }

    /// A progress display for reading, unless `--quiet`.
    pub(crate) fn progress(&self) -> Box<dyn Progress> {
        if self.quiet { Box::new(()) } else { Box::new(ProgressOnTerminal::new()) }
    }

    /// Records a file that was read in addition to the inputs.
    pub(crate) fn add_side_input(&mut self, path: PathBuf) {
        self.side_inputs.push(path);
    }

    /// Whether only the table is written, because it goes to standard output or to a device.
    pub(crate) fn is_table_alone(&self) -> bool {
        is_stream(&self.out)
    }

    /// The file next to the table with another ending.
    pub(crate) fn sibling(&self, ending: &str) -> PathBuf {
        self.out.with_extension(ending)
    }

    /// The endings of the files that are written next to the table.
    pub(crate) fn endings(&self) -> Vec<&'static str> {
        if self.is_table_alone() {
            return Vec::new();
        }
        let mut endings = vec!["report.md", "report.json", "plan.toml"];
        if self.leaders {
            endings.push("top.csv");
        }
        if self.plot {
            endings.extend(["svg", "png"]);
        }
        endings
    }

    /// Those of them that exist: if no group is shown, there is no picture.
    pub(crate) fn written(&self) -> Vec<&'static str> {
        self.endings().into_iter().filter(|ending| self.sibling(ending).exists()).collect()
    }

    /// Files that no output may replace.
    pub(crate) fn protected_paths(&self) -> Vec<PathBuf> {
        let inputs = self.inputs.iter().chain(&self.side_inputs).cloned();
        let kept = [self.key_path.clone(), ledger_path(&self.key_path)];
        inputs.chain(kept).chain(self.budget_file.clone()).collect()
    }
}
