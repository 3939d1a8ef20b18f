//! The pictures of evertally, in one style for the program, the notebook and the page: SVG, and PNG with the feature
//! `raster`.
//!
//! | picture | content |
//! |---|---|
//! | [`ReleasePlot`] | a release: running counts of groups with their intervals |
//! | [`RankingChart`] | items below each other: a dot for each value, its interval as a line |
//! | [`ErrorCurve`] | a plan: the error of its release over the steps |
//! | [`Evidence`] | an audit: the evidence against a plan after each step |
//! | [`lines`] | a comparison: lines on common axes, in panels |
//!
//! ```text
//!  ReleasePlot   RankingChart   ErrorCurve   Evidence ─▶ lines      the pictures
//!       └───────────────┴────────────┴──────────────────────┘
//!                   sheet                          headline, body, footnote
//!                axis   frame                      from numbers to positions
//!                   canvas                         SVG elements
//!                style    text                     sizes, colours, looks; texts that fit
//! ```
//!
//! The same picture gives the same bytes on every machine: fonts are part of the crate, and coordinates have one
//! decimal. Texts are escaped, so they may contain any characters.
//!
//! ```
//! use evertally_plot::{Curve, Point, ReleasePlot, TimeLabels};
//!
//! let point = |at, value| Point { at, value, lower: value - 9.0, upper: value + 9.0, truth: None };
//! let plot = ReleasePlot {
//!     title: "Visits".into(),
//!     subtitle: "ρ = 0.5 for one visitor".into(),
//!     y_label: "visits since Monday".into(),
//!     footer: "The whole history is 0.5-zCDP.".into(),
//!     time_labels: TimeLabels::Steps,
//!     confidence: 0.95,
//!     curves: vec![Curve {
//!         name: "all".into(),
//!         points: vec![point(1.0, 40.0), point(2.0, 95.0)],
//!         ..Curve::default()
//!     }],
//!     total_groups: 1,
//!     group_word: "group",
//!     apart: false,
//!     at_once: false,
//!     unsafe_truth: false,
//! };
//! assert!(plot.svg()?.starts_with("<svg"));
//! # Ok::<(), evertally_plot::PlotError>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

pub mod axis;
pub mod canvas;
mod decimate;
mod error;
mod error_curve;
mod evidence;
mod font;
pub mod frame;
mod labels;
pub mod lines;
mod ranking;
#[cfg(feature = "raster")]
mod raster;
mod release;
pub mod sheet;
pub mod style;
pub mod text;

pub use axis::TimeLabels;
pub use error::PlotError;
pub use error_curve::ErrorCurve;
pub use evidence::Evidence;
pub use ranking::{RankedItem, RankingChart};
#[cfg(feature = "raster")]
pub use raster::png;
pub use release::{Curve, MAX_SHOWN, MAX_SHOWN_AT_ONCE, Point, ReleasePlot, STAMP};

#[cfg(all(test, feature = "raster"))]
mod tests;
