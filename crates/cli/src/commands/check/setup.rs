//! The part of a declaration that determines how events are read, completed where it is not declared.

use evertally_declare::declaration::{Declaration, Written};
use evertally_declare::steps::Every;
use std::ffi::OsStr;

/// Whether the beginning, the width and the number of the steps are declared.
pub(super) fn has_horizon(declared: &Declaration) -> bool {
    let has_end = declared.end.is_some() || declared.steps.is_some() || declared.unbounded == Some(true);
    declared.start.is_some() && declared.every.is_some() && has_end
}

/// Whether it is declared how much of a person counts.
pub(super) fn is_bounded(declared: &Declaration) -> bool {
    declared.max_events.is_some()
        || declared.max_total.is_some()
        || (declared.max_events_per_group.is_some() && declared.max_groups.is_some())
        || (declared.max_events_per_step.is_some() && declared.per.is_some())
}

/// The declaration of how events are read, which resolves even if the release is not completely declared: the rest has
/// values that change nothing about reading. Without `has_horizon`, the steps are one arbitrary step.
pub(super) fn reading(written: &Written, has_horizon: bool) -> Declaration {
    use evertally_declare::declaration::Parameter::Bounds;
    let given = written.declaration.clone();
    let is_grouped = given.groups.is_some() || given.discover_groups == Some(true);
    let mut reading = Declaration {
        time: given.time,
        date: given.date,
        time_of_day: given.time_of_day,
        time_format: given.time_format,
        century_from: given.century_from,
        date_only: given.date_only,
        time_zone: given.time_zone,
        r#where: given.r#where,
        thousands: given.thousands,
        decimal_mark: given.decimal_mark,
        number_affixes: given.number_affixes,
        missing_text: given.missing_text,
        normalise_ids: given.normalise_ids,
        missing: given.missing,
        outside: given.outside,
        unknown_group: given.unknown_group,
        value: given.value,
        bounds: given.bounds,
        grid: given.grid,
        out_of_bounds: given.out_of_bounds,
        person: given.person,
        group_by: given.group_by.filter(|_| is_grouped),
        groups: given.groups,
        rest: given.rest.filter(|_| is_grouped),
        scales: given.scales.filter(|_| is_grouped),
        rest_scale: given.rest_scale.filter(|_| is_grouped),
        discover_groups: given.discover_groups,
        every: given.every.or_else(|| Every::new(1, evertally_declare::steps::StepUnit::Day)),
        ..Declaration::default()
    };
    if has_horizon {
        (reading.start, reading.end, reading.steps) = (given.start, given.end, given.steps);
        (reading.unbounded, reading.per) = (given.unbounded, given.per.filter(|_| reading.person.is_some()));
    } else {
        (reading.start, reading.steps) = (Some("2000-01-01".to_owned()), Some(1));
    }
    reading.max_events = reading.person.as_ref().map(|_| 1);
    if reading.discover_groups == Some(true) {
        (reading.selection_delta, reading.rho) = (Some(1e-9), Some(1.0));
    } else {
        reading.epsilon = Some(1.0);
    }
    if reading.value.is_some() && reading.bounds.is_none() {
        // Wide enough for any value; a check without bounds refuses none.
        let set = reading.set(Bounds, &[OsStr::new("-1000000000000"), OsStr::new("1000000000000")]);
        debug_assert_eq!(set, Ok(true));
    }
    reading
}
