//! States are restored bit for bit; bad input is refused in one sentence and changes nothing.

use super::*;
use crate::plan::Plan;
use crate::privacy::Values;
use crate::sketch::{Estimate, Shape, Table};

/// Saves after some steps, restores, and continues with both.
macro_rules! comes_back {
    ($sketch:ident, $shape:expr, $sampling:expr, $ask:expr) => {{
        let plan = plan($shape, 50, gaussian(), $sampling);
        let mut sketch = $sketch::new(plan.clone(), &key(6), named("state")).unwrap();
        let ask: &dyn Fn(&mut $sketch) -> Vec<Estimate> = &$ask;
        for step in [1u64, 2, 9, 30, 50] {
            for item in 0..40u64 {
                sketch.add(item % 16, 1).unwrap();
            }
            let saved = sketch.save();
            let mut back = $sketch::restore(plan.clone(), &key(6), named("state"), &saved).unwrap();
            assert_eq!(back.save(), saved);
            sketch.tick_through(step).unwrap();
            back.tick_through(step).unwrap();
            assert_eq!(ask(&mut back), ask(&mut sketch));
            assert_eq!((back.save(), back.touched(), back.step()), (sketch.save(), sketch.touched(), step));
            assert!(back.memory_bytes() > 0);
        }
        let saved = sketch.save();
        let restore = |plan: SketchPlan, seed| $sketch::restore(plan, &key(seed), named("state"), &saved);
        assert!(restore(plan.clone(), 7).unwrap_err().is_state());
        let request = PlanRequest::count(51, gaussian());
        let other = SketchPlan::new(request, $shape.parse().unwrap(), $sampling).unwrap();
        assert!(restore(other, 6).unwrap_err().is_state());
        assert!(format!("{sketch:?}").starts_with(stringify!($sketch)));
    }};
}

#[test]
fn states_come_back_bit_for_bit() {
    for sampling in [LazySampling::Float, LazySampling::Keyed, LazySampling::Integer] {
        comes_back!(CountSketch, "count-sketch(rows=3,width=30)", sampling, |s| {
            [s.second_moment().unwrap()].into_iter().chain((0..20u64).map(|item| s.estimate(item).unwrap())).collect()
        });
        comes_back!(CountMin, "count-min(rows=3,width=30)", sampling, |s| {
            (0..20u64).map(|item| s.estimate(item).unwrap()).collect()
        });
        comes_back!(DyadicCounts, "dyadic(bits=4,branching=4)", sampling, |s| {
            (0..15u64).map(|end| s.count(..end).unwrap()).collect()
        });
        comes_back!(DyadicSketch, "dyadic-sketch(bits=20,branching=4,rows=3,width=30)", sampling, |s| {
            (0..15u64).map(|end| s.count(..end).unwrap()).collect()
        });
    }
}

#[test]
fn bad_input_changes_nothing() {
    let plan_of = |shape| plan(shape, 5, gaussian(), LazySampling::Float);
    let mut sketch = CountSketch::new(plan_of("count-sketch(rows=3,width=30)"), &key(1), named("bad")).unwrap();
    let refused = |result: crate::Result<Estimate>, word: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    };
    refused(sketch.estimate(1), "before the first step");
    refused(sketch.second_moment(), "before the first step");
    let before = sketch.save();
    for value in [2, -2, i64::MIN] {
        assert!(sketch.add(1, value).unwrap_err().to_string().contains("bounds -1 to 1"), "{value}");
    }
    assert_eq!(sketch.save(), before);
    let mut other = CountSketch::new(plan_of("count-sketch(rows=3,width=30)"), &key(1), named("other")).unwrap();
    refused(sketch.inner_product(&mut other), "one hash name");
    let mut same = CountSketch::new(plan_of("count-sketch(rows=3,width=30)"), &key(1), named("bad")).unwrap();
    refused(sketch.inner_product(&mut same), "the same noise");

    let mut counts = DyadicCounts::new(plan_of("dyadic(bits=4,branching=4)"), &key(1), named("bad")).unwrap();
    refused(counts.count(3..3), "before the first step");
    assert!(counts.quantile(0.5, 0.9).unwrap_err().to_string().contains("before the first step"));
    assert!(counts.add(16, 1).unwrap_err().to_string().contains("more than 4 bits"));
    counts.tick().unwrap();
    for (q, confidence, word) in [(-0.1, 0.9, "share"), (f64::NAN, 0.9, "share"), (0.5, 1.0, "between 0 and 1")] {
        assert!(counts.quantile(q, confidence).unwrap_err().to_string().contains(word));
    }
    for threshold in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(counts.heavy_hitters(threshold).unwrap_err().to_string().contains("above 0"));
    }
    let mut min = CountMin::new(plan_of("count-min(rows=3,width=30)"), &key(1), named("bad")).unwrap();
    min.tick().unwrap();
    assert!(min.upper_end(1, 1.0).unwrap_err().to_string().contains("confidence"));
    let request = PlanRequest::count(5, gaussian()).with_values(Values::Sum { lower: -1, upper: 1 });
    let signed = |shape: &str| SketchPlan::new(request.clone(), shape.parse().unwrap(), LazySampling::Float).unwrap();
    let mut min = CountMin::new(signed("count-min(rows=3,width=30)"), &key(1), named("bad")).unwrap();
    min.tick().unwrap();
    assert!(min.upper_end(1, 0.9).unwrap_err().to_string().contains("negative"));
    let mut counts = DyadicCounts::new(signed("dyadic(bits=4,branching=4)"), &key(1), named("bad")).unwrap();
    counts.tick().unwrap();
    assert!(counts.quantile(0.5, 0.9).unwrap_err().to_string().contains("negative"));
}

/// A threshold within the noise would visit most of a tree of 2^39 keys: it ends in an error.
#[test]
fn descents_into_the_noise_end() {
    let plan = plan("dyadic(bits=39,branching=256)", 5, gaussian(), LazySampling::Keyed);
    let mut counts = DyadicCounts::new(plan, &key(1), named("low")).unwrap();
    counts.tick().unwrap();
    assert!(counts.heavy_hitters(1e-9).unwrap_err().to_string().contains("raise it"));
}

#[test]
fn senseless_shapes_and_plans_are_refused() {
    for (text, word) in [
        ("count-sketch(rows=4,width=9)", "odd number"),
        ("count-sketch(rows=33,width=9)", "1 to 31"),
        ("count-sketch(rows=0,width=9)", "odd number"),
        ("count-sketch(rows=3,width=0)", "cells"),
        ("count-sketch(rows=3,width=4294967297)", "cells"),
        ("count-min(rows=3,width=1)", "at least 2"),
        ("dyadic(bits=40,branching=4)", "at most 39"),
        ("dyadic(bits=9,branching=5)", "power of two"),
        ("dyadic(bits=9)", "not a shape"),
        ("dyadic(bits=9,branching=4,rows=3)", "not a shape"),
        ("dyadic-sketch(bits=9,branching=4,rows=3)", "not a shape"),
        ("bloom(rows=3,width=9)", "not a shape"),
        ("count-sketch(rows=3,width=x)", "not a shape"),
        ("count-sketch", "not a shape"),
    ] {
        let message = text.parse::<Shape>().unwrap_err().to_string();
        assert!(message.contains(word), "{text}: {message}");
    }
    assert!(Shape::CountMin(Table::new(1, 1).unwrap()).request(PlanRequest::count(9, gaussian())).is_err());
    let shape: Shape = "count-sketch(rows=3,width=9)".parse().unwrap();
    let twice = shape.request(shape.request(PlanRequest::count(9, gaussian())).unwrap());
    assert!(twice.unwrap_err().to_string().contains("one running sum"));
    let widest = PlanRequest::count(9, gaussian()).with_values(Values::Sum { lower: i64::MIN, upper: 0 });
    assert!(shape.request(widest).unwrap_err().is_overflow());
    // Plans that were not made for a sketch, or whose text states more cells than their noise
    // covers.
    let made = |request: PlanRequest| SketchPlan::from_plan(request.plan().unwrap(), LazySampling::Float);
    let path_sum = || PlanRequest::count(9, gaussian()).with_mechanism("path-sum".parse().unwrap());
    assert!(made(path_sum()).unwrap_err().to_string().contains("not made for a sketch"));
    let request = shape.request(path_sum()).unwrap();
    assert!(made(request.clone()).is_ok());
    for wrong in [request.clone().with_sums_per_event(2), request.clone().with_values(Values::Count)] {
        assert!(made(wrong).unwrap_err().to_string().contains("does not cover"));
    }
    let count_min = plan("count-min(rows=3,width=9)", 9, gaussian(), LazySampling::Float);
    assert!(
        CountSketch::new(count_min.clone(), &key(1), named("a"))
            .unwrap_err()
            .to_string()
            .contains("not for a count sketch")
    );
    assert!(DyadicCounts::new(count_min.clone(), &key(1), named("a")).is_err());
    assert!(DyadicSketch::new(count_min.clone(), &key(1), named("a")).is_err());
    let signed = plan("count-sketch(rows=3,width=9)", 9, gaussian(), LazySampling::Float);
    assert!(CountMin::new(signed, &key(1), named("a")).is_err());
}

/// A plan that was written and read back makes the same sketch.
#[test]
fn plans_come_back_from_files() {
    let plan = SketchPlan::sharing_hashes(
        PlanRequest::count(100, pure()),
        "count-sketch(rows=3,width=9)".parse().unwrap(),
        LazySampling::Float,
        &named("shared"),
    )
    .unwrap();
    let text = serde_json::to_string(plan.plan()).unwrap();
    let read: Plan = serde_json::from_str(&text).unwrap();
    let back = SketchPlan::from_plan(read, LazySampling::Float).unwrap();
    assert_eq!((back.shape(), back.plan().digest()), (plan.shape(), plan.plan().digest()));
    assert_eq!(back.hash_name(), Some(&named("shared")));
}

/// If a request names no mechanism, it is chosen among those that support the requested sampling.
#[test]
fn open_mechanisms_are_chosen_by_error() {
    for (budget, sampling) in
        [(gaussian(), LazySampling::Float), (pure(), LazySampling::Float), (pure(), LazySampling::Keyed)]
    {
        let chosen = plan("count-sketch(rows=3,width=9)", 1 << 20, budget, sampling);
        let chosen_name = chosen.plan().mechanism().name();
        let mut sketch = CountSketch::new(chosen.clone(), &key(1), named("a")).unwrap();
        sketch.tick_through(1 << 20).unwrap();
        assert!(sketch.estimate(5).unwrap().noise_std_error > 1.0);
        for other in ["path-sum", "subtract(k=13)", "smooth"] {
            let request = PlanRequest::count(1 << 20, budget)
                .with_mechanism(other.parse().unwrap())
                .with_noise(chosen.plan().noise_kind());
            if let Ok(other) = SketchPlan::new(request, chosen.shape(), sampling) {
                assert!(other.plan().max_std_error() >= chosen.plan().max_std_error() * (1.0 - 1e-9), "{chosen_name}");
            }
        }
    }
}
