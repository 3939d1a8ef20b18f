//! The files that a run reads and writes.

use crate::failure::usage;
use crate::progress::ProgressOnTerminal;
use anyhow::Result;
use evertally_declare::declaration::{self, Delimiter, Parameter, needed};
use evertally_declare::format::Format;
use evertally_declare::policy::BadRows;
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;
use evertally_ledger::ledger::ledger_path;
use evertally_tables::input::{DEFAULT_MEMORY, ReadOptions};
use evertally_tables::output::{format_of, is_stream};
use evertally_tables::progress::Progress;
use std::num::NonZero;
use std::path::PathBuf;

/// More than any machine can use.
const MAX_THREADS: u64 = 1024;

/// In MiB. With less, not even common files can be read.
const MIN_MEMORY_MIB: u64 = 16;

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
    /// Where rows go that cannot be read; `None` if they are refused.
    pub(crate) bad_file: Option<PathBuf>,
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
        let out = match named.out {
            None if plan_only => PathBuf::from("-"),
            out => needed(out, Parameter::Out, "the file for the table")?,
        };
        let output_format = named.output_format.map_or_else(|| format_of(&out), Ok)?;
        let inputs = named.input.unwrap_or_default().0;
        let inputs = if plan_only { inputs } else { super::inputs::files(inputs)? };
        if inputs.is_empty() && !plan_only && !going_on.is_wanted {
            return Err(usage("no input file was given"));
        }
        let delimiter = delimiter(named.delimiter)?;
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
            reading: ReadOptions {
                format: named.input_format.map(|format| format.0),
                delimiter,
                missing: missing_text,
                threads: threads(named.threads)?,
                memory: memory(named.read_memory)?,
                ..ReadOptions::default()
            },
            key_path,
            create_key: named.create_key == Some(true),
            budget_file: named.budget_file,
            plot: named.no_plot != Some(true) && !is_stream(&out),
            out,
            output_format,
            leaders: false,
            side_inputs: [named.config, named.groups_file].into_iter().flatten().collect(),
            bad_file: named.bad_file.filter(|_| named.bad_rows == Some(BadRows::SideFile)),
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

fn threads(given: Option<u64>) -> Result<Option<NonZero<usize>>> {
    let fits = |threads: u64| Some(threads as usize).filter(|_| threads <= MAX_THREADS).and_then(NonZero::new);
    given.map_or(Ok(None), |threads| {
        let problem = format!(" {threads} is not a number of threads from 1 to {MAX_THREADS}");
        fits(threads).map(Some).ok_or_else(|| usage(sentence![Parameter::Threads, problem]))
    })
}

/// Bytes of memory for reading.
fn memory(given: Option<u64>) -> Result<u64> {
    let Some(mebibytes) = given else { return Ok(DEFAULT_MEMORY) };
    let bytes = mebibytes.checked_mul(1 << 20).filter(|_| mebibytes >= MIN_MEMORY_MIB);
    let problem = format!(" {mebibytes} is not a valid number of MiB; give at least {MIN_MEMORY_MIB}");
    bytes.ok_or_else(|| usage(sentence![Parameter::ReadMemory, problem]))
}

fn delimiter(given: Option<Delimiter>) -> Result<u8> {
    match given.map(|delimiter| delimiter.0) {
        None => Ok(b','),
        Some(c) if c.is_ascii() && c != '"' && c != '\n' && c != '\r' => Ok(c as u8),
        Some(c) => {
            let problem = format!(" {} is not an ASCII character that can separate cells", quoted(&c.to_string()));
            Err(usage(sentence![Parameter::Delimiter, problem]))
        }
    }
}
