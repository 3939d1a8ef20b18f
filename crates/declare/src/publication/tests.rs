//! Checks slots against the steps that rows read, and units in slots against all data that a unit in steps allows.

use super::{Publication, Slots};
use crate::reading::Reading;
use crate::steps::{Horizon, Instant, Period, Periods, StepCalendar, TimeFormat, TimeParser};
use evertally::mechanism::Workload;
use evertally::privacy::{PersonBounds, Unit};
use std::collections::BTreeSet;

fn calendar(start: &str, steps: u64, every: &str, zone: &str) -> StepCalendar {
    let start: Instant = TimeParser::new(TimeFormat::Auto, zone.parse().unwrap()).parse_text(start).unwrap();
    StepCalendar::new(start, Horizon::Steps(steps), every.parse().unwrap(), zone.parse().unwrap()).unwrap()
}

fn planned(steps: &StepCalendar, publish: &str, reading: &str) -> (Publication, Workload) {
    let rows = Publication::new(steps, publish.parse().unwrap()).unwrap();
    let reading: Reading = reading.parse().unwrap();
    let widths = (Some(steps.every()), Some(rows.rows().every()));
    let (slots, workload) = Slots::reading(reading, rows.row_width(), widths).unwrap();
    (rows.with_slots(slots), workload)
}

/// The steps of every slot, from the steps at whose end a slot ends.
fn steps_of_slots(publication: &Publication, steps: u64) -> Vec<BTreeSet<u64>> {
    let mut slots = vec![BTreeSet::new()];
    for step in 1..=steps {
        slots.last_mut().unwrap().insert(step);
        if let Some(slot) = publication.slot_ending(step) {
            assert_eq!(slot, slots.len() as u64, "step {step}");
            slots.push(BTreeSet::new());
        }
        assert_eq!(publication.slots_through(step), slots.len() as u64 - 1, "step {step}");
    }
    assert!(slots.pop().unwrap().is_empty(), "the last slot ends with the horizon");
    assert_eq!(publication.slot_count(), slots.len() as u64);
    slots
}

/// At each row, the slots that the mechanism reads contain exactly the steps that the workload reads at its last step.
#[test]
fn rows_read_whole_slots() {
    let (hours, days) = (calendar("2024-01-01", 24 * 14, "1h", "UTC"), calendar("2024-01-01", 366, "1d", "UTC"));
    let (set_clock, weeks) =
        (calendar("2024-03-04", 28, "1d", "America/New_York"), calendar("2024-01-01", 52, "1w", "UTC"));
    for (steps, publish, reading, width, slots) in [
        (&hours, "1d", "sum", None, Slots::Rows),
        (&hours, "24", "window(48)", Some(48), Slots::Rows),
        (&hours, "1d", "window(2d)", Some(48), Slots::Rows),
        (&hours, "24", "window(7)", Some(7), Slots::Halves(7)),
        (&hours, "1d", "window(30h)", Some(30), Slots::Halves(6)),
        (&hours, "7d", "window(100)", Some(100), Slots::Halves(100)),
        (&days, "6", "window(7)", Some(7), Slots::Halves(1)),
        (&days, "6", "window(11d)", Some(11), Slots::Halves(5)),
        (&days, "1mo", "sum", None, Slots::Rows),
        (&days, "1mo", "window(30)", Some(30), Slots::Steps),
        (&days, "2", "window(7)", Some(7), Slots::Halves(1)),
        (&set_clock, "1w", "window(14)", Some(14), Slots::Rows),
        (&weeks, "4w", "window(6)", Some(6), Slots::Halves(2)),
    ] {
        let (publication, workload) = planned(steps, publish, reading);
        let case = format!("{reading} every {publish} of {}", steps.every());
        assert_eq!(publication.slots(), slots, "{case}");
        let of_slot = steps_of_slots(&publication, steps.steps());
        let mut rows = 0;
        for step in 1..=steps.steps() {
            let Some(row) = publication.row_ending(step) else { continue };
            rows += 1;
            assert_eq!((row, publication.last_step_of(row)), (rows, step), "{case}");
            assert_eq!(publication.rows().end_of(row), steps.end_of(step), "{case}");
            let slot = publication.slot_of_row(row);
            assert_eq!(
                (publication.slot_ending(step), publication.row_of_slot(slot)),
                (Some(slot), Some(row)),
                "{case}"
            );
            let first = workload.reach(slot).min(slot);
            let read: BTreeSet<u64> = (slot - first..slot).flat_map(|slot| of_slot[slot as usize].clone()).collect();
            let meant: BTreeSet<u64> = (width.map_or(1, |width: u64| step.saturating_sub(width) + 1)..=step).collect();
            assert_eq!(read, meant, "{case}, row {row}");
        }
        assert_eq!(rows, publication.rows().steps(), "{case}");
        let shown = (1..=publication.slot_count()).filter_map(|slot| publication.row_of_slot(slot));
        assert_eq!(shown.collect::<Vec<_>>(), (1..=rows).collect::<Vec<_>>(), "{case}");
    }
}

/// Windows of months work for months of any length, and a decay over days keeps steps as slots.
#[test]
fn calendars_are_read_by_their_own_widths() {
    let days = calendar("2024-01-01", 366, "1d", "UTC");
    let (quarters, workload) = planned(&days, "1mo", "window(3mo)");
    assert_eq!((quarters.slots(), workload), (Slots::Rows, Workload::Window(3)));
    assert_eq!((quarters.row_width(), quarters.longest_row(), quarters.slot_count()), (None, 31, 12));
    let (fading, workload) = planned(&days, "6", "decay(30)");
    assert_eq!((fading.slots(), workload, fading.slot_count()), (Slots::Steps, Workload::Decay(30), 366));
    assert_eq!(fading.row_of_slot(6), Some(1));
    assert_eq!(fading.row_of_slot(7), None);
}

#[test]
fn what_cannot_be_published_says_so() {
    let days = calendar("2024-01-01", 366, "1d", "UTC");
    for (publish, says) in [
        ("1w", "between two publications; the nearest are at 2024-12-30 and 2025-01-06"),
        ("1d", "every step"),
        ("12h", "cut a step"),
        ("4294967295", "leaves the calendar"),
        ("99999999999", "too long"),
    ] {
        let problem = Publication::new(&days, publish.parse().unwrap()).unwrap_err().to_string();
        assert!(problem.contains(says), "{publish}: {problem}");
    }
    let hours = calendar("2024-03-01", 24 * 31 - 1, "1h", "America/New_York");
    let (daily, _) = planned(&hours, "1d", "sum");
    assert_eq!((daily.row_width(), daily.longest_row(), daily.rows().steps()), (None, 24, 31), "one day has 23 hours");
}

/// All sums of steps that a person may have under these bounds in a range of steps, which lies within one period.
fn placements(bounds: PersonBounds, steps: std::ops::RangeInclusive<u64>) -> Vec<Vec<(u64, u64)>> {
    let mut open: Vec<(Vec<(u64, u64)>, u64)> = vec![(Vec::new(), bounds.max_events)];
    for step in steps {
        let mut more = Vec::new();
        for (placed, left) in &open {
            let apart = placed.last().is_none_or(|(last, _)| step - last >= bounds.min_gap.unwrap_or(1));
            let most = bounds.max_events_per_step.unwrap_or(u64::MAX).min(*left);
            for events in 1..=if apart { most } else { 0 } {
                more.push(([placed.clone(), vec![(step, events)]].concat(), left - events));
            }
        }
        open.extend(more);
    }
    open.into_iter().map(|(placed, _)| placed).collect()
}

/// All data that respect the bounds on steps respect those on slots, and some reach the bound of a slot.
#[test]
fn bounds_of_slots_hold_for_all_that_bounds_of_steps_allow() {
    let days = calendar("2024-01-01", 24, "1d", "UTC");
    let mut reached = 0;
    for (publish, reading) in [("4", "sum"), ("4", "window(6)"), ("4", "window(7)"), ("8", "window(2)"), ("3", "sum")] {
        let (publication, _) = planned(&days, publish, reading);
        for (max_events, per_step, min_gap, period) in [
            (3, Some(1), None, None),
            (4, Some(2), Some(2), None),
            (4, Some(1), Some(3), None),
            (3, Some(1), Some(5), None),
            (3, Some(2), Some(9), Some(12)),
            (3, Some(1), None, Some(5)),
            (4, None, Some(2), Some(8)),
        ] {
            let bounds =
                PersonBounds { max_events, max_events_per_step: per_step, min_gap, period, ..PersonBounds::default() };
            let periods = period.map_or(Periods::default(), |steps| Periods::new(&days, Period::Steps(steps)).unwrap());
            let touched = publication.touched(&periods);
            let of_slots = publication.slots().unit(Unit::Person(bounds), publication.longest_row(), touched);
            let of_slots = of_slots.bounds().unwrap();
            assert_eq!((of_slots.max_events, of_slots.period.is_some()), (max_events, period.is_some()));
            let mut first = 1;
            while first <= 24 {
                let last = (periods.of(first).end - 1).min(24);
                for placed in placements(bounds, first..=last) {
                    let mut sums = std::collections::BTreeMap::new();
                    for (step, events) in placed {
                        let slot = publication.slots_through(step - 1) + 1;
                        *sums.entry(slot).or_insert(0) += events;
                    }
                    let most = sums.values().copied().max().unwrap_or(0);
                    let bound = of_slots.max_events_per_step.unwrap_or(max_events);
                    assert!(most <= bound, "{sums:?} under {of_slots:?}");
                    reached += u64::from(most == bound.min(max_events));
                    let slots: Vec<u64> = sums.keys().copied().collect();
                    let gap = of_slots.min_gap.unwrap_or(1);
                    assert!(slots.windows(2).all(|pair| pair[1] - pair[0] >= gap), "{slots:?} under {of_slots:?}");
                    let span = slots.last().zip(slots.first()).map_or(0, |(last, first)| last - first + 1);
                    assert!(of_slots.period.is_none_or(|most| span <= most), "{slots:?} under {of_slots:?}");
                }
                first = periods.of(first).end;
            }
        }
    }
    assert!(reached > 1000, "the bounds are not idle: {reached}");
}

/// Calendar months of persons, published by weeks and by months.
#[test]
fn periods_touch_as_many_rows_as_they_do() {
    let days = calendar("2024-01-01", 364, "1d", "UTC");
    let months = Periods::new(&days, "month".parse().unwrap()).unwrap();
    let weekly = Publication::new(&days, "1w".parse().unwrap()).unwrap();
    assert_eq!(weekly.touched(&months), Some(6), "September 2024 began on a Sunday");
    let year = calendar("2024-01-01", 366, "1d", "UTC");
    let monthly = Publication::new(&year, "1mo".parse().unwrap()).unwrap();
    assert_eq!(monthly.touched(&Periods::new(&year, "month".parse().unwrap()).unwrap()), Some(1));
    assert_eq!(monthly.touched(&Periods::new(&year, "week".parse().unwrap()).unwrap()), Some(2));
    assert_eq!(monthly.touched(&Periods::default()), None);
}

/// A window of calendar months reads the days since the same day of an earlier month, for months of any length.
#[test]
fn windows_of_months_begin_on_the_same_day() {
    for (start, every, zone, per_day, window, months) in [
        ("2023-12-10", "1d", "UTC", 1, "1mo", 1),
        ("2023-12-31", "1d", "Europe/Berlin", 1, "3mo", 3),
        ("2023-01-01", "1d", "UTC", 1, "1y", 12),
        ("2024-01-20T06:00", "6h", "UTC", 4, "1mo", 1),
        ("2023-01-30T03:30", "12h", "UTC", 2, "2mo", 2),
    ] {
        let steps = calendar(start, 800, every, zone);
        let (slots, workload) = Slots::from_months(&steps, window.parse().unwrap()).unwrap();
        assert_eq!((slots, workload), (Slots::Months(per_day), Workload::Window(31 * per_day * months)), "{start}");
        let publication = Publication::all_steps(&steps, slots);
        assert!(publication.is_every_step());
        let slot = |step| publication.slot_ending(step).unwrap();
        // Month, day and time of day, in the order of dates.
        let place = |step: u64, back: i64| {
            let civil = steps.zone().time_zone().to_datetime(steps.start_of(step).timestamp().unwrap());
            (i64::from(civil.year()) * 12 + i64::from(civil.month()) - back, civil.day(), civil.time())
        };
        for step in 1..=800 {
            assert_eq!(publication.row_of_slot(slot(step)), Some(step));
            let closed = publication.slots_through(step);
            assert!(if step < 800 { closed + 1 == slot(step + 1) } else { closed == slot(step) });
            (slot(step) + 1..=closed).for_each(|empty| assert_eq!(publication.row_of_slot(empty), None));
            let reach = workload.reach(u64::MAX);
            for other in 1..=step {
                let is_read = slot(step) - slot(other) < reach;
                assert_eq!(is_read, place(other, 0) > place(step, months as i64), "{start}: {other} of {step}");
            }
        }
        let weeks = Periods::new(&steps, Period::Steps(7 * per_day)).unwrap();
        let most = (0..).map_while(|week| {
            let first = 1 + week * 7 * per_day;
            (first <= 800).then(|| slot((first + 7 * per_day - 1).min(800)) - slot(first) + 1)
        });
        assert_eq!(publication.touched(&weeks), most.max());
    }
    for (every, zone) in [("1w", "UTC"), ("1h", "Europe/Berlin"), ("2d", "UTC"), ("7h", "UTC"), ("1mo", "UTC")] {
        assert_eq!(
            Slots::from_months(&calendar("2024-01-01", 5, every, zone), "1mo".parse().unwrap()),
            None,
            "{every}"
        );
    }
    assert_eq!(Slots::from_months(&calendar("2024-01-01", 5, "1d", "UTC"), "7d".parse().unwrap()), None);
}
