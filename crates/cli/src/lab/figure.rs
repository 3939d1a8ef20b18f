//! `evertally lab figure`: figures that compare mechanisms, with their data.

#![expect(clippy::disallowed_methods, reason = "the folder of the figures, removed again if it stays empty")]

use crate::failure::usage;
use crate::lab::figures::{Figure, FigureContext, FigureFiles, FigureSettings};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use evertally::privacy::Epsilon;
use evertally_ledger::protected::check_output;
use evertally_tables::output::{OutputError, RunOutputs};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pixels of a PNG per unit of its SVG: enough for print at column width.
const PNG_SCALE: f32 = 2.5;

/// Flags of `evertally lab figure`.
#[derive(Args, Debug)]
pub(crate) struct FigureArgs {
    /// The figure: variance-over-time, max-variance-by-horizon, time-and-space, pure-error-by-horizon, crossover,
    /// ratio-to-lower-bound, sketches, unbounded, pure-windows; or all of them, each at its own horizon.
    #[arg(value_name = "NAME", value_parser = chosen)]
    name: FigureChoice,
    /// The folder for NAME.svg, NAME.png and NAME.csv; it is created if its parent exists.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of steps, or the largest horizon for figures by horizon.
    #[arg(long, value_name = "T")]
    horizon: Option<u64>,
    /// ε for `crossover`.
    #[arg(long, value_name = "E", default_value_t = 1.0, allow_negative_numbers = true)]
    epsilon: f64,
    /// How long to run each mechanism at each horizon of `time-and-space`, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 30)]
    timing: u64,
}

#[derive(Clone, Copy, Debug)]
enum FigureChoice {
    All,
    One(Figure),
}

fn chosen(text: &str) -> Result<FigureChoice, String> {
    if text == "all" {
        return Ok(FigureChoice::All);
    }
    Figure::from_str(text, false).map(FigureChoice::One).map_err(|_| {
        let names = Figure::ALL.map(Figure::name).join(", ");
        format!("unknown figure; choose one of: {names}, all")
    })
}

impl FigureArgs {
    /// Draws the figures, then writes all files together.
    pub(super) fn run(self) -> Result<()> {
        let figures = match self.name {
            FigureChoice::All => Figure::ALL.to_vec(),
            FigureChoice::One(figure) => vec![figure],
        };
        let settings = self.settings(&figures)?;
        check_folder(&self.out)?;
        let bar = ProgressBar::new(0); // shown on a terminal only
        bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {msg} {elapsed}")?);
        let mut studio = FigureContext::new(settings, &bar);
        let mut drawn = Vec::new();
        for figure in figures {
            bar.set_message(figure.name());
            drawn.push((figure.name(), studio.draw(figure).with_context(|| format!("cannot draw {}", figure.name()))?));
        }
        bar.finish_and_clear();
        publish(&self.out, &drawn)?;
        for (name, _) in &drawn {
            eprintln!("wrote {}.svg, .png and .csv", self.out.join(name).display());
        }
        Ok(())
    }

    fn settings(&self, figures: &[Figure]) -> Result<FigureSettings> {
        for figure in figures {
            let longest = figure.max_horizon();
            if let Some(horizon) = self.horizon.filter(|horizon| !(2..=longest).contains(horizon)) {
                return Err(usage(format!(
                    "--horizon {horizon}: {} can be drawn for 2 to {longest} steps",
                    figure.name()
                )));
            }
        }
        let epsilon = Epsilon::new(self.epsilon).map_err(|error| usage(format!("--epsilon: {error}")))?;
        Ok(FigureSettings { horizon: self.horizon, epsilon, timing: Duration::from_millis(self.timing) })
    }
}

/// Refuses an invalid folder before minutes of work.
fn check_folder(folder: &Path) -> Result<()> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() || (!folder.exists() && parent.is_dir()) {
        return Ok(());
    }
    let problem =
        if folder.exists() { "is a file, not a folder" } else { "has no parent folder; create the parent first" };
    Err(usage(format!("--out {}: it {problem}", folder.display())))
}

/// Writes three files per figure, all together or not at all.
fn publish(folder: &Path, drawn: &[(&str, FigureFiles)]) -> Result<()> {
    check_output(folder, &[])?;
    let made = !folder.exists();
    if made {
        std::fs::create_dir(folder).map_err(|error| usage(format!("--out {}: {error}", folder.display())))?;
    }
    let written = write_all(folder, drawn);
    if written.is_err() && made {
        // Best effort: the error that matters is the earlier one.
        let _ = std::fs::remove_dir(folder);
    }
    written
}

fn write_all(folder: &Path, drawn: &[(&str, FigureFiles)]) -> Result<()> {
    let mut publication = RunOutputs::new(&[], true);
    for (name, figure) in drawn {
        let png = evertally_plot::png(&figure.svg, PNG_SCALE)?;
        for (ending, bytes) in [("svg", figure.svg.as_bytes()), ("png", &png), ("csv", &figure.csv)] {
            let path = folder.join(format!("{name}.{ending}"));
            let mut file = publication.add(&path)?;
            file.write_all(bytes).map_err(|error| OutputError::new(&path, error))?;
            file.finish()?;
        }
    }
    Ok(publication.commit()?)
}
