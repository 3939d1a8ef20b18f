//! Rows compared with the properties of the mechanisms of their families.

use super::*;
use crate::mechanism::{LaplaceDistance, Objective, Streaming};
use std::ops::ControlFlow;

fn names() -> impl Iterator<Item = MechanismName> {
    MechanismName::all_families().flat_map(|family| family.examples).map(|name| name.parse().unwrap())
}

#[test]
fn examples_and_open_names_are_of_their_family_and_read_back() {
    for family in MechanismName::all_families() {
        let examples = family.examples.iter().map(|text| text.parse::<MechanismName>().unwrap());
        for name in examples.chain(family.open) {
            assert_eq!(name.family().stem, family.stem);
            assert_eq!(name.to_string().parse::<MechanismName>().unwrap(), name);
            assert_eq!(serde_json::to_string(&name).unwrap(), format!("\"{name}\""));
        }
        assert!(
            family.open.is_some() || matches!(family.competes, Competes::Never | Competes::ForUnits(_)),
            "{} competes without a name",
            family.stem
        );
        assert!(family.open.is_none_or(|open| open.to_string() == family.stem), "{}", family.stem);
        assert!(!family.about.is_empty() && !family.examples.is_empty());
    }
}

#[test]
fn names_of_families_are_different() {
    let all: Vec<_> = MechanismName::all_families().flat_map(|family| [Some(family.stem), family.other_name]).collect();
    for (i, a) in all.iter().enumerate().filter(|(_, name)| name.is_some()) {
        assert!(!all[..i].contains(a), "{a:?}");
    }
}

#[test]
fn other_names_are_read() {
    let name: MechanismName = "independent".parse().unwrap();
    assert_eq!((name, name.to_string().as_str()), (MechanismName::Input, "input"));
}

/// A parameter that is given twice is not reported as one that the family lacks.
#[test]
fn parameters_are_given_once() {
    let refused = |name: &str| name.parse::<MechanismName>().unwrap_err().to_string();
    let twice = "`bands` is given twice in `epoch-bands(bands=4,bands=4)`; give it once";
    assert_eq!(refused("epoch-bands(bands=4,bands=4)"), twice);
    assert!(refused("smooth(zeros=3, h=6, zeros=4)").starts_with("`zeros` is given twice in `smooth("));
    assert!(refused("epoch-bands(bands=4,band=4)").contains("has no parameter `band`"));
}

/// How many nodes a cursor draws to reach the horizon from its start.
fn draws_of_the_last_step(mechanism: &dyn Mechanism) -> u64 {
    let mut draws = 0;
    mechanism.cursor().seek(mechanism.horizon(), &mut |_| {
        draws += 1;
        0
    });
    draws
}

/// Random access takes few draws over a long horizon.
#[test]
fn rows_say_which_steps_are_read_by_themselves() {
    for name in names().filter(|name| name.family().abilities.random_access) {
        let Ok(mechanism) = name.build(1 << 22, &Criterion::new(name.usual_law(), Objective::Max)) else {
            continue; // a shape for shorter horizons
        };
        assert!(draws_of_the_last_step(&*mechanism) < 1000, "{name}");
    }
}

/// Abilities, noise distributions and names of built mechanisms.
#[test]
fn rows_say_what_mechanisms_can() {
    for name in names() {
        for horizon in [19, 60] {
            let Ok(mechanism) = name.build(horizon, &Criterion::new(name.usual_law(), Objective::Max)) else {
                continue; // a shape for shorter horizons
            };
            let (family, abilities) = (name.family(), name.family().abilities);
            assert_eq!(mechanism.name().family().stem, family.stem);
            if horizon == 60 && !abilities.random_access {
                assert!(draws_of_the_last_step(&*mechanism) >= 20, "{name}");
            }
            assert_eq!(abilities.random_access || mechanism.lazy().is_some(), abilities.lazy, "{name}");
            assert_eq!(mechanism.gaussian_shift().is_some(), abilities.exact_accounting, "{name}");
            assert_eq!(mechanism.has_random_access(), abilities.random_access, "{name}");
            // Some names of a family for units that return are for single events.
            if !matches!(family.vectors, Vectors::ForUnits(_)) {
                assert_eq!(mechanism.streaming().is_some(), family.vectors.are_streamed(), "{name}");
            }
            assert!(mechanism.laplace().is_ok() || !mechanism.name().serves(Laplace), "{name}");
            assert!(name.serves(name.usual_law()) && mechanism.name().serves(name.usual_law()), "{name}");
        }
    }
}

/// What Laplace noise has to hide for an event is at most what plans scale it to, and reached by some event: of node
/// sums the L1 norm of a column, of path sums the least shift of the noise.
#[test]
fn events_are_as_far_apart_as_laplace_noise_is_scaled_to() {
    for name in names().filter(|name| name.serves(Laplace)) {
        for horizon in [1, 2, 5, 16, 21, 64] {
            let Ok(mechanism) = name.build(horizon, &Criterion::new(Laplace, Objective::Max)) else {
                continue; // a shape for other horizons
            };
            let (distance, steps) = (LaplaceDistance::new(mechanism.clone()), horizon as usize);
            let of_event = |place: usize| {
                let mut event = vec![0.0; steps];
                event[place] = 1.0;
                distance.of(&event)
            };
            let largest = (0..steps).map(of_event).fold(0.0, f64::max);
            let (l1, is_endless) =
                (mechanism.column_norms().l1, matches!(name.family().competes, Competes::WithoutEnd(_)));
            assert!(largest <= l1 * (1.0 + 1e-12), "{name} at {horizon}: {largest} of {l1}");
            assert!(largest >= l1 * (1.0 - 1e-12) || is_endless, "{name} at {horizon}: {largest} of {l1}");
            let unit = libm::exp2(f64::from(mechanism.noise_bits()));
            let sum = mechanism.laplace().unwrap().column_sum as f64;
            assert!((sum / (l1 * unit) - 1.0).abs() < 1e-12, "{name} at {horizon}: {sum} of {l1}");
        }
    }
}

/// Columns for sampled batches: families that always compete, or by their bands, have bands to account for.
#[test]
fn rows_say_how_families_compete_for_sampled_batches() {
    let built = |name: MechanismName| {
        name.build(40, &Criterion::from_vectors(Objective::Mean, Participation::new(4, 10).unwrap())).unwrap()
    };
    let mut open = 0;
    for family in MechanismName::all_families().filter(|family| family.vectors.are_streamed()) {
        let name = family.open.unwrap_or_else(|| family.examples[0].parse().unwrap());
        assert!(built(name).streaming().is_some(), "{name}");
        let is_independent = matches!(built(name).streaming(), Some(Streaming::Inputs));
        assert_eq!(family.is_independent, is_independent, "{name}");
        match family.sampled {
            SampledUse::Never => {}
            SampledUse::Always => assert_eq!(built(name).bands().map(|bands| bands.count), Some(1), "{name}"),
            SampledUse::AllocatedOnce => open += u32::from(family.open.is_some() && built(name).bands().is_none()),
            SampledUse::Banded(banded) => {
                let name = (banded.with_bands)(7);
                let counts = (name.bands(), built(name).bands().map(|bands| bands.count));
                assert_eq!((name.family().stem, counts), (family.stem, (Some(7), Some(7))));
                let sharp = name.with_sharpness(Sharpness::near(1.5));
                assert_eq!(sharp.is_some(), banded.are_optimised, "{name}");
                assert!(sharp.is_none_or(|sharp| sharp.with_sharpness(Sharpness::default()).is_none()));
            }
        }
    }
    assert_eq!(open, 1);
    let unstreamed = MechanismName::all_families().filter(|family| !family.vectors.are_streamed());
    assert!(unstreamed.into_iter().all(|family| matches!(family.sampled, SampledUse::Never) && !family.is_independent));
}

/// A search has a horizon limit below 2^40 exactly if a step costs more the longer the horizon is; endless families
/// have none.
#[test]
fn heavy_families_have_a_longest_horizon() {
    for name in names() {
        let ends = name.longest_searched() < 1 << 40;
        let is_endless = matches!(name.family().competes, Competes::WithoutEnd(_));
        assert_eq!(name.is_heavy() && !is_endless, ends, "{name}");
    }
}

#[test]
fn what_was_built_answers_the_name_it_was_asked_by() {
    for name in names() {
        let Ok(mechanism) = name.build(19, &Criterion::new(name.usual_law(), Objective::Mean)) else { continue };
        assert!(mechanism.name().matches_request(mechanism.name(), Objective::Mean), "{name}");
        assert_eq!(mechanism.name().brief().brief(), mechanism.name().brief(), "{name}");
    }
}

/// The row of a name that is left open says nothing that its members contradict.
#[test]
fn endless_competitors_serve_the_noise_they_compete_under() {
    for law in [NoiseKind::Gaussian, Laplace] {
        for name in MechanismName::endless(law) {
            let built = name.build(MAX_HORIZON, &Criterion::new(law, Objective::Max)).unwrap();
            assert!(name.reaches(MAX_HORIZON, law) && built.name().serves(law), "{name}");
            assert_eq!(built.name().usual_law(), law, "{name}");
        }
    }
}

/// Windows by the families that publish them: the row knows whether single ones can be drawn.
#[test]
fn rows_say_whether_single_windows_can_be_drawn() {
    for law in [NoiseKind::Gaussian, Laplace] {
        let criterion = Criterion::new(law, Objective::Max).with_workload(Workload::Window(5));
        let names: Vec<_> = MechanismName::readings(&criterion).collect();
        assert!(names.len() > 1);
        for name in names {
            let has_access = name.build(60, &criterion).unwrap().has_random_access();
            assert_eq!(has_access, name.family().abilities.random_windows, "{name}");
        }
    }
}

/// A search of minutes is kept as bytes and read back as what its name asks for.
#[test]
fn long_searches_are_read_back() {
    let mut searches = 0;
    for family in MechanismName::all_families() {
        let Some(search) = family.long_search else { continue };
        let open = family.open.expect("a family that is searched has a name without parameters");
        assert_eq!(open.longest_searched().min(search.longest), open.longest_searched());
        let mut done = 0.0;
        let mut notify = |share| {
            done = share;
            ControlFlow::Continue(())
        };
        let found = (search.run)(5, Objective::Mean, &mut notify).unwrap();
        let (found, read) = (found.mechanism, (search.read)(&found.bytes).unwrap());
        assert_eq!((read.name(), read.horizon()), (found.name(), 5));
        assert!(done > 0.0 && open.matches_request(read.name(), Objective::Mean));
        assert_eq!((search.objective)(open), None);
        assert_eq!((search.objective)(found.name()), Some(Objective::Mean));
        assert!((search.run)(search.longest + 1, Objective::Mean, &mut |_| ControlFlow::Continue(())).is_err());
        searches += 1;
    }
    assert!(searches > 0);
}
