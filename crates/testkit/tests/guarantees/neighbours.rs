//! All possible changes of one unit, by enumeration: its additions to each group and step.

/// The bounds of a person, by steps of periods.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) events: u64,
    pub(crate) per_step: Option<u64>,
    pub(crate) per_group: Option<u64>,
    pub(crate) groups: Option<u64>,
    pub(crate) gap: u64,
    /// The smallest and the largest value of an event, in multiples of the grid.
    pub(crate) values: (i64, i64),
}

/// The number of a unit's events in every cell: groups first, then steps.
fn placements(kept: &Kept, steps: &[usize], groups: usize, horizon: usize) -> Vec<Vec<u64>> {
    let mut all = vec![];
    let mut open = vec![(0usize, vec![0u64; groups * horizon])];
    let cells: Vec<usize> =
        steps.iter().flat_map(|step| (0..groups).map(move |group| group * horizon + step)).collect();
    while let Some((place, counts)) = open.pop() {
        if place == cells.len() {
            if fits(kept, &counts, groups, horizon) {
                all.push(counts);
            }
            continue;
        }
        let had: u64 = counts.iter().sum();
        for events in 0..=kept.per_step.unwrap_or(kept.events).min(kept.events - had) {
            let mut next = counts.clone();
            next[cells[place]] = events;
            open.push((place + 1, next));
        }
    }
    all
}

fn fits(kept: &Kept, counts: &[u64], groups: usize, horizon: usize) -> bool {
    let of_step = |step: usize| -> u64 { (0..groups).map(|group| counts[group * horizon + step]).sum() };
    let of_group = |group: usize| -> u64 { counts[group * horizon..(group + 1) * horizon].iter().sum() };
    let active: Vec<usize> = (0..horizon).filter(|step| of_step(*step) > 0).collect();
    let in_groups = (0..groups).filter(|group| of_group(*group) > 0).count() as u64;
    active.iter().all(|step| of_step(*step) <= kept.per_step.unwrap_or(u64::MAX))
        && (0..groups).all(|group| of_group(group) <= kept.per_group.unwrap_or(u64::MAX))
        && in_groups <= kept.groups.unwrap_or(u64::MAX)
        && active.windows(2).all(|pair| (pair[1] - pair[0]) as u64 >= kept.gap)
}

/// The possible sums of these numbers of events per cell, each value at one of its bounds: convex functions are
/// largest there.
fn valued(counts: &[u64], (lower, upper): (i64, i64)) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for count in counts {
        let count = *count as i64;
        let of_cell: Vec<i64> = if lower == upper || count == 0 {
            vec![count * upper]
        } else {
            (0..=count).map(|high| high * upper + (count - high) * lower).collect()
        };
        all = all.iter().flat_map(|own| of_cell.iter().map(|sum| [&own[..], &[*sum]].concat())).collect();
    }
    all
}

/// Every change by one unit that has events only in these steps.
pub(crate) fn changes(kept: &Kept, replaced: bool, steps: &[usize], groups: usize, horizon: usize) -> Vec<Vec<i64>> {
    let placed = placements(kept, steps, groups, horizon);
    if !replaced {
        return placed.iter().flat_map(|counts| valued(counts, kept.values)).collect();
    }
    let sides: Vec<(u64, Vec<i64>)> = placed
        .iter()
        .flat_map(|counts| valued(counts, kept.values).into_iter().map(|sums| (counts.iter().sum(), sums)))
        .collect();
    let mut all = vec![];
    for (events, from) in &sides {
        for (others, to) in &sides {
            if events == others {
                all.push(from.iter().zip(to).map(|(from, to)| from - to).collect());
            }
        }
    }
    all
}

/// Every sum of one change of each of some of the periods, `active` of them.
pub(crate) fn over_periods(of_periods: &[Vec<Vec<i64>>], active: usize) -> Vec<Vec<i64>> {
    let cells = of_periods[0][0].len();
    let mut open = vec![(0usize, 0usize, vec![0i64; cells])];
    let mut all = vec![];
    while let Some((place, taken, sums)) = open.pop() {
        if place == of_periods.len() || taken == active {
            all.push(sums);
            continue;
        }
        open.push((place + 1, taken, sums.clone()));
        for change in &of_periods[place] {
            let with = sums.iter().zip(change).map(|(sum, more)| sum + more).collect();
            open.push((place + 1, taken + 1, with));
        }
    }
    all
}

#[test]
fn placements_are_all_that_fit() {
    let kept = Kept { events: 2, per_step: Some(1), per_group: None, groups: None, gap: 2, values: (1, 1) };
    let all = changes(&kept, false, &[0, 1, 2], 1, 3);
    assert_eq!(all.len(), 5, "none, one of three, and the first with the last: {all:?}");
    let replaced = changes(&kept, true, &[0, 1, 2], 1, 3);
    assert!(replaced.contains(&vec![1, -1, 0]) && !replaced.contains(&vec![1, 0, 0]));
    let sums = Kept { values: (-1, 3), ..kept };
    assert!(changes(&sums, false, &[0, 1, 2], 1, 3).contains(&vec![3, 0, -1]));
    assert_eq!(over_periods(&[vec![vec![1, 0]], vec![vec![0, 1]]], 2).iter().max(), Some(&vec![1, 1]));
}
