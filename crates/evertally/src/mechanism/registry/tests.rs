//! Rows compared with the properties of the mechanisms of their families.

use super::*;
use crate::mechanism::Objective;

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
        assert!(family.open.is_some() || family.competes == Competes::Never, "{} competes without a name", family.stem);
        assert!(family.open.is_none_or(|open| open.to_string() == family.stem), "{}", family.stem);
        assert!(!family.about.is_empty() && !family.examples.is_empty());
    }
}

#[test]
fn stems_and_lines_are_different() {
    let all: Vec<_> = MechanismName::all_families().collect();
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            assert_ne!(a.stem, b.stem);
            assert_ne!(a.line, b.line, "{} {}", a.stem, b.stem);
        }
    }
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

/// Abilities, noise distributions and names of built mechanisms.
#[test]
fn rows_say_what_mechanisms_can() {
    for name in names() {
        for horizon in [19, 60] {
            let Ok(mechanism) = name.build(horizon, &Criterion::new(name.family().usual_law, Objective::Max)) else {
                continue; // a shape for shorter horizons
            };
            let (family, abilities) = (name.family(), name.family().abilities);
            assert_eq!(mechanism.name().family().stem, family.stem);
            if horizon == 60 {
                assert_eq!(draws_of_the_last_step(&*mechanism) < 20, abilities.random_access, "{name}");
            }
            assert_eq!(abilities.random_access || mechanism.lazy().is_some(), abilities.lazy, "{name}");
            assert_eq!(mechanism.gaussian_shift().is_some(), abilities.exact_accounting, "{name}");
            assert_eq!(mechanism.has_random_access(), abilities.random_access, "{name}");
            assert_eq!(mechanism.streaming().is_some(), family.vectors.are_streamed(), "{name}");
            assert!(mechanism.laplace().is_ok() || !family.serves(Laplace), "{name}");
            assert!(family.serves(family.usual_law), "{name}");
        }
    }
}

/// A search has a horizon limit exactly if a step costs more the longer the horizon is; endless families have no
/// shorter one.
#[test]
fn heavy_families_have_a_longest_horizon() {
    for family in MechanismName::all_families() {
        let ends = family.reach.longest() < crate::mechanism::MAX_HORIZON;
        assert_eq!(family.is_heavy() && family.competes != Competes::WithoutEnd, ends, "{}", family.stem);
    }
}

#[test]
fn what_was_built_answers_the_name_it_was_asked_by() {
    for name in names() {
        let Ok(mechanism) = name.build(19, &Criterion::new(name.family().usual_law, Objective::Mean)) else { continue };
        assert!(mechanism.name().matches_request(mechanism.name(), Objective::Mean), "{name}");
        assert_eq!(mechanism.name().brief().brief(), mechanism.name().brief(), "{name}");
    }
}
