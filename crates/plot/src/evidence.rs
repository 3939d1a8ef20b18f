//! The evidence against a plan during an audit.

#![expect(clippy::disallowed_methods, reason = "places in a picture")]

use crate::axis::{Axis, Spacing};
use crate::lines::{Panel, PanelLine, panels};
use crate::sheet::SheetTexts;
use crate::style::dash::{DASHED, SOLID};
use crate::style::{LineStyle, Marker, ink};

/// The least and the greatest factor that is drawn: evidence beyond them is drawn at the edge.
const SHOWN: (f64, f64) = (1e-4, 1e40);

/// An audit of a run: the evidence against its plan after each step, and the level of an alarm.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// The headline.
    pub title: String,
    /// The natural logarithm of the evidence after each step.
    pub logarithms: Vec<f64>,
    /// The number of steps to watch.
    pub watched: u64,
    /// The maximum probability of an alarm in a run that keeps its plan. Its inverse is the level of an alarm.
    pub significance: f64,
    /// Whether the run was refuted.
    pub is_refuted: bool,
}

impl Evidence {
    /// Draws the picture as SVG.
    pub fn svg(&self) -> String {
        // Before the first step nothing speaks for or against the plan: the factor is 1.
        let factors = [0.0].iter().chain(&self.logarithms).map(|log| log.exp().clamp(SHOWN.0, SHOWN.1));
        let points: Vec<(f64, f64)> = (0u32..).map(f64::from).zip(factors).collect();
        let (alarm, end) = (1.0 / self.significance, self.watched.max(1) as f64);
        let low = points.iter().map(|point| point.1).fold(0.1, f64::min);
        let high = points.iter().map(|point| point.1).fold(10.0 * alarm, f64::max);
        let look = LineStyle::new(if self.is_refuted { ink::VERMILION } else { ink::BLUE }, SOLID, Marker::None);
        let level = LineStyle::new(ink::BLACK, DASHED, Marker::None);
        let lines = vec![
            PanelLine { label: "evidence".into(), look, points },
            PanelLine { label: "alarm".into(), look: level, points: vec![(0.0, alarm), (end, alarm)] },
        ];
        let texts = SheetTexts {
            title: self.title.clone(),
            subtitle: "The factor by which the observed sums speak against the plan, after each step.".into(),
            footer: format!(
                "A run that keeps its plan raises an alarm with probability at most {}. The absence of an alarm proves \
                 nothing.",
                self.significance
            ),
        };
        let x = Axis { spacing: Spacing::Linear, range: (0.0, end), caption: "step".into() };
        let y = Axis { spacing: Spacing::Decades, range: (low, high), caption: "evidence".into() };
        panels(&texts, &[Panel { x, y, lines, height: 240.0 }])
    }
}

#[cfg(all(test, feature = "raster"))]
mod tests {
    use super::*;

    fn evidence(logarithms: Vec<f64>, is_refuted: bool) -> String {
        let title = "Evidence <against> the plan & more".into();
        Evidence { title, logarithms, watched: 40, significance: 0.01, is_refuted }.svg()
    }

    /// Corners of the solid line in this colour.
    fn corners(svg: &str, colour: &str) -> Vec<(f64, f64)> {
        let mark = format!("stroke=\"{colour}\"");
        let is_line = |line: &&str| line.contains(&mark) && !line.contains("dasharray");
        let paths = svg.lines().filter(is_line).filter_map(|line| line.split("d=\"M").nth(1)?.split('"').next());
        let longest = paths.max_by_key(|path| path.len()).expect("the line is drawn");
        let corner = |text: &str| text.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()));
        longest.split(['L', ' ']).filter_map(corner).collect()
    }

    #[test]
    fn the_picture_has_every_step_and_the_level_of_an_alarm() {
        let rising: Vec<f64> = (1..=40).map(|step| 0.3 * f64::from(step)).collect();
        let svg = evidence(rising, true);
        crate::raster::parse(&svg).expect("well-formed XML");
        for text in
            [">evidence<", ">alarm<", ">step<", ">Evidence &lt;against&gt; the plan &amp; more<", ">40<", ">100<"]
        {
            assert!(svg.contains(text), "{text} is missing in {svg}");
        }
        assert!(svg.contains("stroke-dasharray=\"7 3\""), "the level of an alarm is dashed");
        let corners = corners(&svg, ink::VERMILION.0);
        assert_eq!(corners.len(), 41, "the start, and one corner a step");
        assert!(corners.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 > pair[1].1), "evidence grows");
    }

    #[test]
    fn any_evidence_can_be_drawn() {
        for logarithms in [vec![], vec![0.0], vec![f64::INFINITY, f64::NEG_INFINITY], vec![800.0; 40], vec![-800.0; 40]]
        {
            let svg = evidence(logarithms.clone(), false);
            crate::raster::parse(&svg).expect("well-formed XML");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{logarithms:?}: {svg}");
        }
    }
}
