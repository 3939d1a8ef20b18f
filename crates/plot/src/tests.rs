//! Tests of the pictures.

use crate::axis::time::label_end;
use crate::axis::{TimeLabels, ValueAxis};
use crate::canvas::Canvas;
use crate::release::WARNING;
use crate::style::TextStyle;
use crate::*;
use jiff::tz::TimeZone;

/// Hourly releases that climb by `rate`, with a half-width of 20, and true counts that differ from every release.
fn climbing(name: &str, steps: usize, rate: f64) -> Curve {
    let point = |step: usize| {
        let value = rate * step as f64 + (step % 7) as f64;
        let at = 1_356_998_400.0 + 3_600.0 * step as f64;
        Point { at, value, lower: value - 20.0, upper: value + 20.0, truth: Some(value + 0.5) }
    };
    Curve { name: name.into(), points: (1..=steps).map(point).collect(), ..Curve::default() }
}

fn plot(curves: Vec<Curve>) -> ReleasePlot {
    ReleasePlot {
        title: "Flights".into(),
        subtitle: "ρ = 0.5 for one aircraft".into(),
        y_label: "flights".into(),
        footer: "0.5-zCDP".into(),
        time_labels: TimeLabels::Calendar(TimeZone::UTC),
        confidence: 0.95,
        total_groups: curves.len(),
        group_word: "group",
        curves,
        apart: false,
        at_once: false,
        unsafe_truth: false,
    }
}

/// Draws, and checks that the result is a picture.
fn drawn(plot: &ReleasePlot) -> String {
    let svg = plot.svg().unwrap();
    let tree = raster::parse(&svg).unwrap();
    assert_eq!(tree.size().width(), 960.0);
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "a coordinate is not a number");
    svg
}

fn single(value: f64, half: f64) -> Curve {
    let point = Point { at: 1.0, value, lower: value - half, upper: value + half, truth: None };
    Curve { name: "one".into(), points: vec![point], ..Curve::default() }
}

#[test]
fn every_number_of_groups_and_steps_is_a_picture() {
    for groups in 1..=14 {
        for steps in [1, 2, 41, 3_000] {
            let curves =
                (0..groups).map(|group| climbing(&format!("group {group}"), steps, f64::from(group))).collect();
            drawn(&plot(curves));
        }
    }
}

#[test]
fn odd_values_are_pictures() {
    for value in [0.0, -5.0, 0.25, 1e-9, 1e7, -1e9, 1e15, 1e200, -1e200] {
        for half in [0.0, 1e-6, 3.0, 1e16] {
            for labels in [TimeLabels::Steps, TimeLabels::Calendar(TimeZone::UTC)] {
                let mut plot = plot(vec![single(value, half)]);
                plot.time_labels = labels;
                drawn(&plot);
                let later = Point { at: 1e17, ..plot.curves[0].points[0] };
                plot.curves[0].points.push(later);
                drawn(&plot);
            }
        }
    }
}

#[test]
fn refuses_what_it_cannot_draw() {
    let message = |plot: &ReleasePlot| plot.svg().unwrap_err().to_string();
    assert!(message(&plot(vec![])).contains("nothing to plot"));
    assert!(message(&plot(vec![Curve::default()])).contains("nothing to plot"));
    assert!(message(&plot(vec![single(f64::NAN, 1.0)])).contains("\"one\""));
    assert!(message(&plot(vec![single(0.0, f64::INFINITY)])).contains("not a finite number"));
    let mut backwards = climbing("b", 3, 1.0);
    backwards.points.swap(0, 2);
    assert!(message(&plot(vec![backwards])).contains("order of time"));
}

#[test]
fn names_cannot_inject_markup() {
    let names = [
        "</text><script>alert(1)</script>",
        "\" onload=\"alert(1)",
        "&lt;&amp;]]>",
        "\0\u{1}\u{8}\u{1b}[31m\u{fffe}\u{ffff}",
        "\u{202e}reversed\u{2066}",
        "line\nbreak\r\n\ttab",
        "שלום تجربة",
        "👩‍👩‍👧‍👦 🛫 北京",
        "Z̷̛͓a̸l̵g̷o̶",
        "",
        "   ",
    ];
    for name in names {
        for groups in [1, 6] {
            let mut plot = plot((0..groups).map(|_| climbing(name, 3, 1.0)).collect());
            (plot.title, plot.subtitle, plot.footer, plot.y_label) =
                (name.into(), name.into(), name.into(), name.into());
            let svg = drawn(&plot);
            assert!(!svg.contains("<script") && !svg.contains("onload=\""), "{name:?}");
            assert!(!svg.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{name:?}");
        }
    }
}

#[test]
fn long_names_stay_on_the_sheet() {
    let svg = drawn(&plot(vec![climbing(&"long name ".repeat(100_000), 5, 1.0)]));
    assert!(svg.len() < 20_000 && svg.contains('…'));
    for name in ["a".repeat(5_000), "W".repeat(5_000), "北".repeat(5_000), "e\u{301}".repeat(5_000)] {
        let cut = text::fit(&name, 150.0, 13.0, true);
        assert!(text::width(&cut, 13.0, true) <= 150.0, "{cut}");
        assert!(cut.chars().count() > 5);
    }
    assert_eq!(text::fit("short", 150.0, 13.0, false), "short");
}

#[test]
fn true_counts_leave_no_trace_unless_asked_for() {
    for groups in [1, 3, 7] {
        let with = plot((0..groups).map(|group| climbing(&format!("g{group}"), 30, 2.0)).collect());
        let mut without = with.clone();
        for point in without.curves.iter_mut().flat_map(|curve| &mut curve.points) {
            point.truth = None;
        }
        assert_eq!(drawn(&with), drawn(&without));
        // Not even if it is a number that cannot be drawn.
        without.curves[0].points[3].truth = Some(f64::NAN);
        assert_eq!(drawn(&with), drawn(&without));
    }
}

#[test]
fn stamped_if_and_only_if_not_private() {
    for groups in [1, 3, 7] {
        for steps in [1, 30, 5_000] {
            let mut plot = plot((0..groups).map(|group| climbing(&format!("g{group}"), steps, 2.0)).collect());
            let public = drawn(&plot);
            assert!(!public.contains("NOT PRIVATE") && !public.contains("stroke-dasharray"));
            plot.unsafe_truth = true;
            let unsafe_svg = drawn(&plot);
            // Title, description, banner and two watermarks.
            assert_eq!(unsafe_svg.matches(STAMP).count(), 5);
            assert_eq!(unsafe_svg.matches("rotate(").count(), 2);
            assert!(unsafe_svg.matches("stroke-dasharray").count() > groups);
            for point in plot.curves.iter_mut().flat_map(|curve| &mut curve.points) {
                point.truth = None;
            }
            assert_eq!(drawn(&plot).matches(STAMP).count(), 5, "stamped whether or not a true count came along");
        }
    }
}

#[test]
fn a_picture_with_true_counts_promises_nothing() {
    for groups in [1, 3, 7] {
        let mut plot = plot((0..groups).map(|group| climbing(&format!("g{group}"), 30, 2.0)).collect());
        plot.footer = "everything here is private".into();
        let public = drawn(&plot);
        // Under the picture and in its description.
        assert_eq!((public.matches(&plot.footer).count(), public.matches(WARNING).count()), (2, 0));
        plot.unsafe_truth = true;
        let unsafe_svg = drawn(&plot);
        assert_eq!((unsafe_svg.matches(&plot.footer).count(), unsafe_svg.matches(WARNING).count()), (0, 2));
        let description = &unsafe_svg[unsafe_svg.find("<desc").unwrap()..unsafe_svg.find("</desc>").unwrap()];
        assert!(description.ends_with(WARNING));
    }
}

#[test]
fn a_series_without_a_name_is_labelled_by_its_number() {
    let mut plot = plot(vec![climbing("", 30, 2.0)]);
    let svg = drawn(&plot);
    assert!(svg.contains(">62 ± 20</text>") && !svg.contains("(no name)") && !svg.contains("1 group"));
    // The caption names the quantity, and nothing repeats it; the description has it, too.
    assert_eq!(svg.matches("flights").count(), 2);
    // Among groups, an empty name is a name in the data.
    plot.total_groups = 2;
    assert!(drawn(&plot).contains(">(no name)</text>"));
}

/// The left and right ends of every horizontal text, as rasterised.
fn text_extents(svg: &str) -> Vec<(String, f32, f32)> {
    use resvg::usvg::Node;
    let tree = raster::parse(svg).unwrap();
    let mut nodes: Vec<&Node> = tree.root().children().iter().collect();
    let mut extents = Vec::new();
    while let Some(node) = nodes.pop() {
        match node {
            Node::Group(group) => nodes.extend(group.children()),
            Node::Text(text) if text.abs_transform().is_identity() => {
                let words = text.chunks().iter().map(|chunk| chunk.text()).collect();
                extents.push((words, text.abs_bounding_box().left(), text.abs_bounding_box().right()));
            }
            _ => {}
        }
    }
    extents
}

#[test]
fn texts_end_before_the_right_margin() {
    let zones = ["UTC", "Europe/Copenhagen", "America/Argentina/ComodRivadavia"].map(TimeZone::get);
    let zones = zones.into_iter().map(|zone| TimeLabels::Calendar(zone.unwrap_or(TimeZone::UTC)));
    let names = ["g", "All the other groups together", "WWWWWWWWWWWWWWWWWWWWWWWW", "Щупальцеобразный мощный шёлк", ""];
    for labels in zones.chain([TimeLabels::Steps]) {
        for (name, rate) in names.into_iter().zip([2.0, 1e3, 1e6, 1e11, -1e4]) {
            for groups in 1..=12 {
                // Twelve months and a hundred hours.
                for (steps, stretch) in [(12, 730.5), (100, 1.0), (1, 1.0)] {
                    let mut plot = plot((0..groups).map(|g| climbing(name, steps, rate * f64::from(g + 1))).collect());
                    for point in plot.curves.iter_mut().flat_map(|curve| &mut curve.points) {
                        point.at = 1_356_998_400.0 + (point.at - 1_356_998_400.0) * stretch;
                        (point.lower, point.upper) = (point.value - rate.abs() * 2.0, point.value + rate.abs() * 2.0);
                    }
                    (plot.title, plot.time_labels) = (format!("{name} ").repeat(30), labels.clone());
                    plot.unsafe_truth = groups % 3 == 0;
                    for (text, left, right) in text_extents(&drawn(&plot)) {
                        assert!(left >= 0.0 && right <= 932.5, "{text:?} from {left} to {right}, {groups} groups");
                    }
                }
            }
        }
    }
}

#[test]
fn foreign_names_are_numbered_in_a_png_and_whole_in_the_svg() {
    assert_eq!(text::fit("北京 🛫", 100.0, 13.0, true), "北京 🛫");
    let image = |draw: &dyn Fn(&mut Canvas)| {
        let mut canvas = Canvas::new(200.0, 20.0, "", "");
        draw(&mut canvas);
        png(&canvas.finish(), 1.0).unwrap()
    };
    let style = TextStyle::new(12.0, "#000000");
    let text = |text: &'static str| image(&|canvas| canvas.text(5.0, 15.0, text, style));
    assert_eq!(text("北京 🛫\u{fe0f}é"), text("… …é"));
    let named = |name: &'static str| image(&|canvas| canvas.text_or(5.0, 15.0, name, "group <2>", style));
    assert_eq!(named("北京 & so on"), text("group <2>"));
    assert_eq!(named("\" data-plain=\"北"), text("group <2>"), "a name cannot pretend to be a mark");
    assert_eq!(named("Zürich & so on"), text("Zürich & so on"));
    // In every kind of picture: side by side, in panels, and below each other at one instant.
    for (groups, steps) in [(3, 5), (7, 5), (5, 1)] {
        let curves = (0..groups).map(|group| climbing("東京", steps, group as f64)).collect();
        let svg = drawn(&plot(curves));
        assert_eq!(svg.matches(">東京</text>").count(), groups, "{groups} groups, {steps} steps");
        assert!(svg.contains(&format!("data-plain=\"group {groups}\"")));
    }
    let latin = drawn(&plot(vec![climbing("Kopenhagen", 3, 1.0), climbing("東", 3, 1.0)]));
    assert_eq!(latin.matches("data-plain").count(), 1);
}

#[test]
fn groups_at_one_instant_stand_below_each_other() {
    let curves: Vec<Curve> = (0..20).map(|group| climbing(&format!("group {group}"), 1, f64::from(group))).collect();
    let svg = drawn(&plot(curves));
    assert_eq!(svg.matches("<circle").count(), 20);
    for part in [">group 19</text>", "20 ± 20", "released, with 95 % interval", "up to "] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let mut many = plot((0..40).map(|group| climbing(&format!("g{group}"), 1, 1.0)).collect());
    many.total_groups = 50;
    assert!(drawn(&many).contains("30 of 50 groups shown"));
    many.unsafe_truth = true;
    many.curves.truncate(3);
    assert!(drawn(&many).contains(STAMP), "true counts keep their stamp");
}

#[test]
fn long_series_give_small_pictures() {
    let mut plot = plot((0..4).map(|group| climbing(&format!("g{group}"), 1 << 20, f64::from(group))).collect());
    plot.unsafe_truth = true;
    let mut wild = 1u64;
    for point in plot.curves.iter_mut().flat_map(|curve| &mut curve.points) {
        wild = wild.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        point.value += (wild >> 40) as f64;
    }
    let size = drawn(&plot).len();
    assert!(size < 1_000_000, "{size} bytes");
}

#[test]
fn only_so_many_groups_are_drawn_and_the_picture_says_so() {
    let mut plot = plot((0..30).map(|group| climbing(&format!("group-{group:02}"), 10, 1.0)).collect());
    plot.total_groups = 10_000;
    let svg = drawn(&plot);
    assert!(svg.contains("12 of 10,000 groups shown"));
    assert!(svg.contains("group-11") && !svg.contains("group-12"));
}

#[test]
fn thinning_keeps_the_extremes_of_every_column() {
    let wave = |index: usize| ((index * 7_919) % 10_007) as f64;
    let points: Vec<(f64, f64)> = (0..100_000).map(|index| (index as f64 / 200.0, wave(index))).collect();
    let thin = decimate::line(points.iter().copied(), 500.0);
    assert!(thin.len() <= 4 * 500);
    assert!(thin.windows(2).all(|pair| pair[0].0 <= pair[1].0), "order is kept");
    let band: Vec<(f64, f64, f64)> = points.iter().map(|&(x, y)| (x, y - 10.0, y + 5.0)).collect();
    let envelope = decimate::envelope(band.iter().copied(), 500.0);
    assert!(envelope.len() <= 501);
    for column in 0..500 {
        let inside = |x: f64| x.floor() == f64::from(column);
        let ys = |points: &[(f64, f64)]| -> Vec<f64> {
            points.iter().filter(|point| inside(point.0)).map(|point| point.1).collect()
        };
        let (all, kept) = (ys(&points), ys(&thin));
        let low = |ys: &[f64]| ys.iter().copied().fold(f64::INFINITY, f64::min);
        let high = |ys: &[f64]| ys.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!((low(&all), high(&all)), (low(&kept), high(&kept)));
        assert_eq!((all[0], all.last()), (kept[0], kept.last()));
        let drawn = envelope.iter().find(|column| inside(column.0)).unwrap();
        assert_eq!((drawn.1, drawn.2), (low(&all) - 10.0, high(&all) + 5.0));
    }
    assert_eq!(envelope.last().unwrap().0, points.last().unwrap().0);
    let few = &points[..900];
    assert_eq!(decimate::line(few.iter().copied(), 500.0), few, "few points are left alone");
}

#[test]
fn calendar_ticks_fit_the_span() {
    let zone = TimeZone::get("America/New_York").unwrap_or(TimeZone::UTC);
    let utc = TimeLabels::Calendar(TimeZone::UTC);
    let labels = |labels: &TimeLabels, low: f64, span: f64| -> Vec<String> {
        labels.ticks(low, low + span, 740.0).into_iter().map(|tick| tick.label).collect()
    };
    let year = 1_356_998_400.0;
    assert_eq!(labels(&utc, year, 364.9 * 86_400.0).join(" "), "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec");
    assert_eq!(labels(&utc, year, 4.0 * 86_400.0)[..3], ["00:00", "12:00", "00:00"]);
    assert_eq!(labels(&utc, year, 10.0 * 86_400.0)[..3], ["1 Jan", "2 Jan", "3 Jan"]);
    assert_eq!(labels(&utc, year, 30.0 * 86_400.0)[..2], ["7 Jan", "14 Jan"], "weeks begin on Monday");
    assert_eq!(labels(&utc, year, 0.0), ["1 Jan 2013 00:00"]);
    assert_eq!(TimeLabels::Calendar(zone.clone()).caption(), "America/New_York");
    let february = year + 31.0 * 86_400.0;
    assert_eq!(utc.before(february, february + 28.0 * 86_400.0), year, "a month, whatever its days");
    assert_eq!(TimeLabels::Steps.before(10.0, 20.0), 0.0);
    // A small panel.
    let small = |labels: &TimeLabels, days: f64| labels.ticks(year, year + days * 86_400.0, 190.0);
    assert_eq!(small(&utc, 31.0)[1].label, "11 Jan");
    for length in 2..1_500 {
        let days = (year, year + f64::from(length) * 86_400.0);
        for (labels, times) in [(&utc, days), (&TimeLabels::Steps, (0.0, f64::from(length)))] {
            let ticks = labels.ticks(times.0, times.1, 190.0);
            let inside = ticks.iter().filter(|tick| label_end(tick, times, 190.0) <= 190.0).count();
            let least = if length > 2 { 3 } else { 2 };
            assert!((least..=6).contains(&inside), "{length}: {ticks:?}");
        }
    }
    for exponent in 0..15 {
        for low in [year, 0.0, -3e9, 1e20] {
            let ticks = TimeLabels::Calendar(zone.clone()).ticks(low, low + 10f64.powi(exponent), 740.0);
            assert!(!ticks.is_empty() && ticks.len() < 20);
            assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }
}

#[test]
fn ticks_of_values_are_told_apart() {
    let ranges =
        [(0.0, 120_000.0), (-3.0, 3.0), (0.0, 1e15), (1e15, 1e15 + 20.0), (0.0, 0.004), (-2e9, 5.0), (1e-7, 9e-7)];
    for (low, high) in ranges {
        let axis = ValueAxis::new(low, high, 6, false);
        let mut labels: Vec<String> = axis.ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert!((3..=8).contains(&labels.len()), "{labels:?}");
        assert!(labels.iter().all(|label| label.chars().count() <= 9), "{labels:?}");
        labels.dedup();
        assert_eq!(labels.len(), axis.ticks.len(), "{labels:?}");
    }
    let axis = ValueAxis::new(0.0, 2.5e7, 5, false);
    assert_eq!((axis.label(5e6).as_str(), axis.unit().as_str()), ("5", "in millions"));
}

#[test]
fn numbers_read_well() {
    let cases = [
        (0.0, "0"),
        (-0.0, "0"),
        (1_234_567.4, "1,234,567"),
        (-1_234.0, "−1,234"),
        (0.125, "0.125"),
        (3.456, "3.46"),
        (34.56, "34.6"),
        (1.5e15, "1.50 × 10¹⁵"),
        (-2e-7, "−2.00 × 10⁻⁷"),
    ];
    for (value, text) in cases {
        assert_eq!(text::number(value), text);
    }
    assert_eq!(text::release(120_846.0, 42.3), "120,846 ± 43");
    assert_eq!(text::release(1e15, 42.3), "1,000,000,000,000,000 ± 43");
    assert_eq!(text::release(1234.5678, 0.051), "1,234.568 ± 0.051");
    assert_eq!(text::release(0.25, 0.5), "0.25 ± 0.50");
    assert_eq!(text::release(-3.0, 0.0121), "−3.000 ± 0.013");
    assert_eq!((text::percent(0.95), text::percent(0.999)), ("95 %".into(), "99.9 %".into()));
}

#[test]
fn makes_png_of_any_sensible_size() {
    let svg = drawn(&plot(vec![climbing("g", 30, 1.0)]));
    let image = png(&svg, 2.0).unwrap();
    assert_eq!(image[..8], *b"\x89PNG\r\n\x1a\n");
    assert_eq!(u32::from_be_bytes(image[16..20].try_into().unwrap()), 1_920);
    assert_eq!(image, png(&svg, 2.0).unwrap());
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY, 1e6] {
        assert!(png(&svg, scale).is_err());
    }
    assert!(png("no picture", 1.0).is_err());
}

#[test]
fn widths_are_those_of_the_fonts() {
    for text in ["Running count", "WWW iii", "Щука Ωμέγα", "12,345 ± 67"] {
        for bold in [false, true] {
            let mut svg = Canvas::new(400.0, 40.0, "", "");
            let style = TextStyle::new(20.0, "#000000");
            svg.text(0.0, 30.0, text, if bold { style.bold() } else { style });
            let drawn = f64::from(text_extents(&svg.finish())[0].2);
            let ours = text::width(text, 20.0, bold);
            assert!((-0.1..4.0).contains(&(ours - drawn)), "{text:?}: {ours} instead of {drawn}");
        }
    }
}

#[test]
fn letters_have_glyphs_of_our_own() {
    // Text that the fonts cannot draw would leave no path.
    for word in ["EWR", "Überlingen", "Αθήνα", "Київ", "שלום", "تجربة", "± → ε ≤ δ ρ × 10⁻⁹"]
    {
        let mut svg = Canvas::new(100.0, 20.0, "", "");
        svg.text(5.0, 15.0, word, TextStyle::new(12.0, "#000000").bold());
        let image = png(&svg.finish(), 1.0).unwrap();
        let mut blank = Canvas::new(100.0, 20.0, "", "");
        blank.text(5.0, 15.0, " ", TextStyle::new(12.0, "#000000"));
        assert_ne!(image, png(&blank.finish(), 1.0).unwrap(), "{word}");
    }
}
