//! The noiseless table never changes by more than the plan was calibrated for.

use super::*;
use crate::privacy::{Neighbours, Sensitivity, Values};
use crate::sketch::Shape;
use crate::sketch::cells::SketchCells;

/// The noiseless table of one event: the reads with it less those without it, as the noise is the same.
fn table_of(cells: &mut SketchCells, silent: &mut SketchCells) -> Vec<i64> {
    cells.vector.tick().unwrap();
    silent.vector.tick().unwrap();
    (0..cells.plan.shape().coordinates())
        .map(|cell| {
            let (with, without) = (cells.vector.read(cell).unwrap(), silent.vector.read(cell).unwrap());
            let difference = with.value() - without.value();
            // Values are shown with four digits of a finer grid.
            assert!((difference - difference.round()).abs() < 1e-3);
            difference.round() as i64
        })
        .collect()
}

/// A sketch of this plan, with one event.
type OfEvent<'a> = &'a dyn Fn(SketchPlan, Option<(u64, i64)>) -> SketchCells;

fn count_sketch(plan: SketchPlan, event: Option<(u64, i64)>) -> SketchCells {
    let mut sketch = CountSketch::new(plan, &key(4), named("one")).unwrap();
    event.into_iter().for_each(|(item, value)| sketch.add(item, value).unwrap());
    sketch.cells
}

fn count_min(plan: SketchPlan, event: Option<(u64, i64)>) -> SketchCells {
    let mut sketch = CountMin::new(plan, &key(4), named("one")).unwrap();
    event.into_iter().for_each(|(item, value)| sketch.add(item, value).unwrap());
    sketch.cells
}

fn dyadic(plan: SketchPlan, event: Option<(u64, i64)>) -> SketchCells {
    let mut sketch = DyadicCounts::new(plan, &key(4), named("one")).unwrap();
    event.into_iter().for_each(|(key, value)| sketch.add(key, value).unwrap());
    sketch.cells
}

fn dyadic_sketch(plan: SketchPlan, event: Option<(u64, i64)>) -> SketchCells {
    let mut sketch = DyadicSketch::new(plan, &key(4), named("one")).unwrap();
    event.into_iter().for_each(|(key, value)| sketch.add(key, value).unwrap());
    sketch.cells
}

/// All events of up to 60 items and all values: no table exceeds the sensitivity, and one attains it; the distance
/// of any two tables is at most the sensitivity of replacement.
#[test]
fn one_event_moves_the_table_by_no_more_than_planned() {
    let kinds: [(&str, OfEvent<'_>); 5] = [
        ("count-sketch(rows=3,width=4)", &count_sketch),
        ("count-min(rows=3,width=4)", &count_min),
        ("dyadic(bits=5,branching=4)", &dyadic),
        ("dyadic-sketch(bits=6,branching=4,rows=1,width=10)", &dyadic_sketch),
        ("dyadic-sketch(bits=6,branching=2,rows=3,width=4)", &dyadic_sketch),
    ];
    for (shape, of_event) in kinds {
        for (values, all) in [
            (Values::Count, vec![1]),
            (Values::Sum { lower: 0, upper: 3 }, vec![1, 3]),
            (Values::Sum { lower: -2, upper: 1 }, vec![-2, 1]),
        ] {
            let request = |neighbours| {
                let shape: Shape = shape.parse().unwrap();
                let mechanism = "path-sum".parse().ok();
                shape
                    .request(
                        PlanRequest::count(4, gaussian())
                            .with_values(values)
                            .with_neighbours(neighbours)
                            .with_optional_mechanism(mechanism),
                    )
                    .unwrap()
            };
            let sensitivity = |neighbours| request(neighbours).sensitivity().unwrap();
            let plan =
                SketchPlan::from_plan(request(Neighbours::AddRemove).plan().unwrap(), LazySampling::Keyed).unwrap();
            let tables: Vec<Vec<i64>> = (0..30u64)
                .flat_map(|item| all.iter().map(move |value| (item, *value)))
                .map(|event| table_of(&mut of_event(plan.clone(), Some(event)), &mut of_event(plan.clone(), None)))
                .collect();
            let norms = |table: &[i64]| -> (u128, u128) {
                table.iter().map(|x| u128::from(x.unsigned_abs())).fold((0, 0), |(a, b), x| (a + x, b + x * x))
            };
            let within = |table: &[i64], bound: &Sensitivity| {
                let (l1, squared) = norms(table);
                assert!(
                    l1 <= bound.l1 && squared <= bound.event_squared,
                    "{shape} {values:?}: {l1} {squared} {bound:?}"
                );
                l1 == bound.l1 && squared == bound.event_squared
            };
            let one = sensitivity(Neighbours::AddRemove);
            let reached = tables.iter().filter(|table| within(table, &one)).count();
            assert!(reached > 0, "{shape} {values:?}: {one:?} is more than any event causes");
            let replaced = sensitivity(Neighbours::ReplaceOne);
            for a in &tables {
                for b in &tables {
                    within(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>(), &replaced);
                }
            }
        }
    }
}

/// The noise is that of the number of cells: `r` times the variance under zCDP, `r` times the scale under pure ε.
#[test]
fn noise_covers_every_cell_of_an_event() {
    for (budget, power) in [(gaussian(), 1), (pure(), 2)] {
        let single = |horizon| {
            let mechanism = Some(if power == 1 { "path-sum" } else { "subtract(k=5)" }.parse().unwrap());
            PlanRequest::count(horizon, budget).with_optional_mechanism(mechanism)
        };
        let alone = single(100).plan().unwrap().node_variance();
        for (shape, cells) in [
            ("count-sketch(rows=5,width=9)", 5.0f64),
            ("count-min(rows=5,width=9)", 6.0),
            ("dyadic(bits=8,branching=4)", 5.0),
            // Levels of 1, 4 and 16 nodes are kept node by node, those of 64 and 256 in three rows.
            ("dyadic-sketch(bits=8,branching=4,rows=3,width=10)", 9.0),
        ] {
            let plan = SketchPlan::new(single(100), shape.parse().unwrap(), LazySampling::Float).unwrap();
            let ratio = plan.plan().node_variance() / alone / cells.powi(power);
            assert!((ratio - 1.0).abs() < 1e-2, "{shape}: {ratio}");
        }
    }
}

/// Sketches of other shapes have other noise under the same name.
#[test]
fn shapes_are_part_of_the_plan() {
    let of = |width| {
        plan(&format!("count-sketch(rows=3,width={width})"), 9, gaussian(), LazySampling::Float).plan().digest()
    };
    assert_ne!(of(10), of(11));
    assert_eq!(of(10), of(10));
}

/// Items share cells, so a bound per group does not bound a cell: it must not reduce the noise.
#[test]
fn bounds_by_group_are_refused() {
    let shape: crate::sketch::Shape = "count-sketch(rows=3,width=10)".parse().unwrap();
    let person = crate::privacy::Unit::person(9);
    let plan = |unit| SketchPlan::new(PlanRequest::count(8, pure()).with_unit(unit), shape, LazySampling::Keyed);
    assert!(plan(person.per_step(2).apart(2).per_period(4)).is_ok());
    for unit in [person.per_group(1), person.in_groups(2)] {
        assert!(plan(unit).unwrap_err().to_string().contains("the items of a sketch share its cells"));
    }
}
