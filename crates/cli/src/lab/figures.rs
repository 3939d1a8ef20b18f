//! Figures that compare mechanisms: data computed by the library, drawn as SVG and PNG and saved as CSV.
//!
//! They reproduce the comparisons of the papers from our own computation: variance over time and largest variance by
//! horizon (Andersson, Pagh 2023, arXiv 2306.09666, figure 4), time and space (figure 5), the pure-ε error of trees
//! with subtraction and the map of where Laplace noise beats Gaussian noise, whose asymptotic shape is known
//! (Andersson, Pagh, Steiner, Torkamani, "Count on Your Elders: Laplace vs Gaussian Noise").
//!
//! Families come from the library's list, so a new mechanism appears automatically.

#![expect(clippy::disallowed_methods, reason = "figures of research: last digits may differ between systems")]

mod by_delta;
mod crossover;
mod curves;
mod efficiency;
#[cfg(test)]
mod literature;
mod over_time;
mod sketches;
mod style;
pub(crate) mod survey;
pub(crate) mod timing;
mod unbounded;
mod windows;

use anyhow::Result;
use evertally::privacy::Epsilon;
use indicatif::ProgressBar;
use std::time::Duration;

use survey::Survey;

/// The figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Figure {
    /// Variance of the release of each step, under ρ-zCDP.
    VarianceOverTime,
    /// Largest variance of any step by horizon, under ρ-zCDP.
    MaxVarianceByHorizon,
    /// Measured time of a release, and memory, by horizon.
    TimeAndSpace,
    /// Mean variance by horizon, under pure ε.
    PureErrorByHorizon,
    /// Where Laplace and where Gaussian noise has the smaller error, by horizon and δ.
    Crossover,
    /// Mean variance of Laplace and of Gaussian noise by δ, with the calibrations of the literature.
    ErrorByDelta,
    /// Largest variance over the proven lower bound by horizon, under ρ-zCDP.
    RatioToLowerBound,
    /// Time and error of a query of a private sketch, by its width and by horizon.
    Sketches,
    /// Variance for an unbounded horizon over the best for a bounded one, by step, under ρ-zCDP.
    Unbounded,
    /// Largest variance of windows by their width, under pure ε.
    PureWindows,
}

/// The settings of the figures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FigureSettings {
    /// Number of steps, or the largest, or the widest window; by default each figure has its own.
    pub(crate) horizon: Option<u64>,
    /// ε for the crossover and for errors by δ.
    pub(crate) epsilon: Epsilon,
    /// How long each mechanism runs for its measured time.
    pub(crate) timing: Duration,
}

/// A finished figure.
#[derive(Debug)]
pub(crate) struct FigureFiles {
    pub(crate) svg: String,
    pub(crate) csv: Vec<u8>,
}

/// State shared by the figures of one run.
pub(crate) struct FigureContext<'a> {
    survey: Survey,
    settings: FigureSettings,
    /// Counts pieces of work.
    bar: &'a ProgressBar,
}

impl Figure {
    /// All figures, in the order of the help text.
    pub(crate) const ALL: [Figure; 10] = [
        Self::VarianceOverTime,
        Self::MaxVarianceByHorizon,
        Self::TimeAndSpace,
        Self::PureErrorByHorizon,
        Self::Crossover,
        Self::ErrorByDelta,
        Self::RatioToLowerBound,
        Self::Sketches,
        Self::Unbounded,
        Self::PureWindows,
    ];

    /// The name, also used for the files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::VarianceOverTime => "variance-over-time",
            Self::MaxVarianceByHorizon => "max-variance-by-horizon",
            Self::TimeAndSpace => "time-and-space",
            Self::PureErrorByHorizon => "pure-error-by-horizon",
            Self::Crossover => "crossover",
            Self::ErrorByDelta => "error-by-delta",
            Self::RatioToLowerBound => "ratio-to-lower-bound",
            Self::Sketches => "sketches",
            Self::Unbounded => "unbounded",
            Self::PureWindows => "pure-windows",
        }
    }

    /// The default horizon.
    fn default_horizon(self) -> u64 {
        match self {
            Self::VarianceOverTime => 250, // as in the paper
            Self::Crossover => 1 << 30,
            Self::Unbounded => 1 << 40,
            Self::PureWindows => 1 << 13,
            _ => 1 << 20,
        }
    }

    /// The longest horizon that can be drawn in reasonable time.
    pub(crate) fn max_horizon(self) -> u64 {
        match self {
            Self::VarianceOverTime => 1 << 14, // every step is a row of the CSV
            Self::ErrorByDelta => 1 << 20,     // the longest of the square root
            Self::Sketches => 1 << 24,         // streams are run to their end
            Self::PureWindows => 1 << 16,      // the widest window
            _ => 1 << 40,
        }
    }
}

impl<'a> FigureContext<'a> {
    pub(crate) fn new(settings: FigureSettings, bar: &'a ProgressBar) -> Self {
        Self { survey: Survey::default(), settings, bar }
    }

    /// Draws a figure. The caller has checked the horizon.
    pub(crate) fn draw(&mut self, figure: Figure) -> Result<FigureFiles> {
        let horizon = self.settings.horizon.unwrap_or(figure.default_horizon());
        match figure {
            Figure::VarianceOverTime => over_time::draw(self, horizon),
            Figure::MaxVarianceByHorizon => curves::max_variance(self, horizon),
            Figure::TimeAndSpace => efficiency::draw(self, horizon),
            Figure::PureErrorByHorizon => curves::pure_error(self, horizon),
            Figure::Crossover => crossover::draw(self, horizon),
            Figure::ErrorByDelta => by_delta::draw(self, horizon),
            Figure::RatioToLowerBound => curves::ratio_to_bound(self, horizon),
            Figure::Sketches => sketches::draw(self, horizon),
            Figure::Unbounded => unbounded::draw(self, horizon),
            Figure::PureWindows => windows::draw(self, horizon),
        }
    }
}

/// A table of text cells as CSV.
fn csv<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    Ok(writer.into_inner()?)
}

/// A number for a cell; empty if there is none.
fn cell(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}
