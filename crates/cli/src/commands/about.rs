//! The program about itself: its version, completions for shells, and manual pages.

#![expect(clippy::disallowed_methods, reason = "manual pages, which can be written again at any time")]

use super::CommandLine;
use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The version; with `verbose` also what a report of a fault needs.
pub(super) fn version(verbose: bool) -> String {
    let short = format!("evertally {}", env!("CARGO_PKG_VERSION"));
    if !verbose {
        return short;
    }
    let known = |text: &'static str| if text.is_empty() { "unknown" } else { text };
    [
        short,
        format!("commit: {}", known(env!("EVERTALLY_COMMIT"))),
        format!("target: {}", known(env!("EVERTALLY_TARGET"))),
        format!("compiler: {}", known(env!("EVERTALLY_COMPILER"))),
        format!("profile: {}", known(env!("EVERTALLY_PROFILE"))),
        format!("instructions: {:?}", evertally_kernels::InstructionSet::best()),
    ]
    .join("\n")
}

/// `evertally completions`.
#[derive(Args, Debug)]
pub(super) struct CompletionsArgs {
    /// Shell that completes the words.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self) -> Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut CommandLine::command(), "evertally", &mut script);
        Ok(std::io::stdout().lock().write_all(&script)?)
    }
}

/// `evertally man`.
#[derive(Args, Debug)]
pub(super) struct ManArgs {
    /// Folder of the pages, created if missing.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl ManArgs {
    pub(super) fn run(&self) -> Result<()> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be created", folder.display()))?;
        let mut command = CommandLine::command();
        command.build();
        write_pages(&command, folder)
    }
}

/// Writes the page of a command, and those of its subcommands.
fn write_pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    let path = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(&path, text).with_context(|| format!("{}: cannot be written", path.display()))?;
    let shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    command.get_subcommands().filter(shown).try_for_each(|command| write_pages(command, folder))
}
