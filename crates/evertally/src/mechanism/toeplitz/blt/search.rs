//! Good buffers for a horizon and a unit.

use super::{Blt, BufferChoice, Buffers, LoopSearch, MAX_BUFFERS, MAX_HORIZON, Scaling, optimise, runs};
use crate::mechanism::{ColumnScaling, Criterion, Mechanism, Objective, Participation, SearchWatch, check_horizon};
use crate::{Error, Result};

/// `best` adds another buffer if that lowers the variance by at least this part.
const MIN_RELATIVE_GAIN: f64 = 5e-4;
/// A search for a unit does not take more buffers for less.
const NEGLIGIBLE_GAIN: f64 = 1e-4;
/// `best_for` tries at most this many stretches of steps.
const MAX_STRETCHES: usize = 6;
/// And optimises for participation in up to this many steps; over long horizons in fewer, because weights for patterns
/// are better there.
const MAX_OPTIMISED_STEPS: u64 = 1 << 12;
const MAX_OPTIMISED_LONG_STEPS: u64 = 1 << 9;
/// The numbers of buffers that a search for a unit tries: more hardly help, because memory that lasts longer than the
/// time until the unit returns costs more than it saves.
const BUFFERS_OF_UNITS: std::ops::RangeInclusive<usize> = 1..=5;
/// It ends earlier if this many in a row have not helped.
const MAX_FAILURES: usize = 2;
/// The same over horizons beyond [`runs::MAX_TABLE_STEPS`], where memory may last much longer than a pattern: until one
/// more lowers the variance by less than this part.
const BUFFERS_OF_LONG_RUNS: std::ops::RangeInclusive<usize> = 3..=7;
const MIN_LONG_GAIN: f64 = 2e-3;
/// `LoopSearch` descends from the best buffers for sums up to the first horizon, and up to the second also from this
/// many buffers.
const MAX_DESCENT_HORIZON: u64 = 1 << 15;
const MAX_SECOND_DESCENT_HORIZON: u64 = 1 << 12;
const SECOND_DESCENT_BUFFERS: usize = 4;

impl Blt {
    /// With `buffers` buffers, 1 ..= 8, optimised for the largest or the mean variance. Takes a few milliseconds.
    ///
    /// # Errors
    /// If a number is out of range, or the horizon is too short for that many buffers.
    ///
    /// ```
    /// use evertally::mechanism::{Blt, ColumnScaling, Mechanism, Objective};
    /// let blt = Blt::optimised(1024, ColumnScaling::Normalized, 4, Objective::Max)?;
    /// assert!(blt.max_row_norm_squared() * blt.column_norms().l2_squared < 9.5); // the square root has 10.71
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn optimised(horizon: u64, columns: ColumnScaling, buffers: usize, objective: Objective) -> Result<Self> {
        Self::optimised_watched(horizon, columns, buffers, (objective, SearchWatch::NONE))
    }

    fn optimised_watched(
        horizon: u64,
        columns: ColumnScaling,
        buffers: usize,
        aim: (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, Scaling::new(columns).stem())?;
        if buffers == 0 || buffers > MAX_BUFFERS {
            return Err(Error::invalid(format!("a BLT has 1 to {MAX_BUFFERS} buffers, got {buffers}")));
        }
        let too_many = || Error::invalid(format!("{buffers} buffers are too many for {horizon} steps; use fewer"));
        let found = optimise::buffers(horizon, columns, buffers, aim);
        Self::new(horizon, columns, found.map_err(|error| if error.is_cancelled() { error } else { too_many() })?)
    }

    /// With as many buffers as are worth their time: until one more is expected to lower the variance by less than 0.05
    /// %, if the gains keep falling at the last ratio.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, columns: ColumnScaling, objective: Objective) -> Result<Self> {
        Self::best_watched(horizon, columns, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(in crate::mechanism) fn best_watched(
        horizon: u64,
        columns: ColumnScaling,
        (objective, watch): (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        let mut best = Self::optimised_watched(horizon, columns, 1, (objective, watch))?;
        let mut last_gain = 1.0;
        for count in 2..=MAX_BUFFERS {
            let Ok(next) = Self::optimised_watched(horizon, columns, count, (objective, watch)) else { break };
            let gain = 1.0 - next.figure(objective) / best.figure(objective);
            if gain < MIN_RELATIVE_GAIN {
                break;
            }
            best = next;
            if gain * gain / last_gain < MIN_RELATIVE_GAIN {
                break;
            }
            last_gain = gain;
        }
        watch.check()?;
        Ok(best)
    }

    /// With the best of several sets of buffers for units that take part in several steps, which [`best`](Self::best)
    /// does not consider. Optimised for the [participation](Mechanism::participation_squared) (of the plain
    /// factorization), for stretches of steps up to the horizon, starting with one in which a unit takes part once, and
    /// for the horizon. Up to a second.
    ///
    /// # Errors
    /// If the horizon is out of range.
    ///
    /// ```
    /// use evertally::mechanism::{Blt, ColumnScaling, Mechanism, Objective, Participation};
    /// let epochs = Participation::new(20, 100)?;
    /// let any = Blt::best(2000, ColumnScaling::Plain, Objective::Max)?;
    /// let best = Blt::best_for(2000, ColumnScaling::Plain, Objective::Max, epochs)?;
    /// let figure = |blt: &Blt| blt.participation_squared(epochs) * blt.max_row_norm_squared();
    /// assert!(figure(&best).sqrt() < 0.85 * figure(&any).sqrt());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn best_for(
        horizon: u64,
        columns: ColumnScaling,
        objective: Objective,
        participation: Participation,
    ) -> Result<Self> {
        Self::chosen_for(horizon, columns, BufferChoice::Best, (objective, SearchWatch::NONE), participation)
    }

    /// The same with as many buffers as a choice says.
    fn chosen_for(
        horizon: u64,
        columns: ColumnScaling,
        choice: BufferChoice,
        (objective, watch): (Objective, SearchWatch<'_>),
        participation: Participation,
    ) -> Result<Self> {
        let aim = (objective, watch);
        let mut tried = vec![Self::chosen_watched(horizon, columns, choice, aim)?];
        let times = participation.within(horizon);
        let mut stretch = participation.separation();
        while times > 1 && stretch < horizon && tried.len() <= MAX_STRETCHES && !watch.is_cancelled() {
            // Searches fail for stretches that are too short, here and below.
            let found = Self::chosen_watched(stretch, columns, choice, aim);
            tried.extend(found.and_then(|blt| Self::new(horizon, columns, blt.buffers())));
            stretch = stretch.saturating_mul(2);
        }
        let longest = if horizon > runs::MAX_TABLE_STEPS { MAX_OPTIMISED_LONG_STEPS } else { MAX_OPTIMISED_STEPS };
        if (2..=longest).contains(&times) {
            let found = optimise::buffers_for(horizon, counts(choice), aim, participation);
            tried.extend(found.into_iter().filter_map(|buffers| Self::new(horizon, columns, buffers).ok()));
        }
        let figure = |blt: &Self| {
            let squared = blt.participation_squared_watched(participation, watch).unwrap_or(f64::INFINITY);
            squared * objective.of(blt.figures.max(), blt.figures.mean())
        };
        Ok(least(tried, figure).expect("the first was tried"))
    }

    /// The normalized one for patterns of a unit, with `buffers` buffers, 1 ..= 8, optimised for the largest or the
    /// mean variance; fewer if the horizon is too short for that many.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn optimised_for_runs(horizon: u64, runs: Participation, buffers: usize, objective: Objective) -> Result<Self> {
        Self::up_to_for_runs(horizon, runs, buffers, (objective, SearchWatch::NONE))
    }

    pub(in crate::mechanism::toeplitz) fn up_to_for_runs(
        horizon: u64,
        runs: Participation,
        buffers: usize,
        aim: (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "normalized-blt(run=…)")?;
        if buffers == 0 || buffers > MAX_BUFFERS {
            return Err(Error::invalid(format!("a BLT has 1 to {MAX_BUFFERS} buffers, got {buffers}")));
        }
        let (mut best, mut fewer) = (None, None);
        for count in (1..=buffers).take_while(|_| !aim.1.is_cancelled()) {
            fewer = Self::one_more_for_runs(horizon, runs, (count, fewer), aim);
            best = fewer.clone().or(best);
        }
        best.ok_or_else(|| no_buffers(horizon, runs))
    }

    /// With this number of buffers, the best found from several starting points, among them one with a buffer less; if
    /// the horizon is too short for that many, `None`.
    fn one_more_for_runs(
        horizon: u64,
        runs: Participation,
        (count, fewer): (usize, Option<Self>),
        (objective, watch): (Objective, SearchWatch<'_>),
    ) -> Option<Self> {
        let runs = runs.over(horizon);
        let found = optimise::buffers_of_runs(horizon, count, (objective, watch), runs, fewer.map(|blt| blt.buffers));
        let built = found.into_iter().filter_map(|buffers| Self::for_runs(horizon, runs, buffers).ok());
        // By construction the patterns are equally long: in units of the last weight.
        least(built, |blt| blt.pattern_figure(objective))
    }

    /// The same with the best number of buffers, up to five, or over more than 2^20 steps up to seven; in a search that
    /// a watch may cancel.
    pub(in crate::mechanism::toeplitz) fn best_count_for_runs(
        horizon: u64,
        runs: Participation,
        aim: (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        check_horizon(horizon, MAX_HORIZON, "normalized-blt(run=…)")?;
        if horizon > runs::MAX_TABLE_STEPS {
            return Self::best_of_long_runs(horizon, runs, aim);
        }
        let (objective, watch) = aim;
        let (mut built, mut lowest, mut failures) = (Vec::<Self>::new(), f64::INFINITY, 0);
        for count in BUFFERS_OF_UNITS.take_while(|_| !watch.is_cancelled()) {
            let fewer = built.last().cloned();
            let Some(blt) = Self::one_more_for_runs(horizon, runs, (count, fewer), aim) else { break };
            let figure = blt.pattern_figure(objective);
            failures = if figure < lowest * (1.0 - NEGLIGIBLE_GAIN) { 0 } else { failures + 1 };
            lowest = lowest.min(figure);
            built.push(blt);
            if failures == MAX_FAILURES {
                break;
            }
        }
        least(built, |blt| blt.pattern_figure(objective)).ok_or_else(|| no_buffers(horizon, runs))
    }

    fn best_of_long_runs(horizon: u64, runs: Participation, aim: (Objective, SearchWatch<'_>)) -> Result<Self> {
        let (objective, watch) = aim;
        let mut best: Option<Self> = None;
        for count in BUFFERS_OF_LONG_RUNS.take_while(|_| !watch.is_cancelled()) {
            let Some(next) = Self::one_more_for_runs(horizon, runs, (count, best.clone()), aim) else { break };
            let gain =
                best.as_ref().map_or(1.0, |best| 1.0 - next.pattern_figure(objective) / best.pattern_figure(objective));
            if gain > 0.0 {
                best = Some(next);
            }
            if gain < MIN_LONG_GAIN {
                break;
            }
        }
        best.ok_or_else(|| no_buffers(horizon, runs))
    }

    /// The best for the unit of a criterion, which has events or vectors in several steps, with as many buffers as a
    /// choice says. Normalized columns are tried with one length, and with weights for the patterns of the unit.
    pub(super) fn best_of_unit(
        horizon: u64,
        columns: ColumnScaling,
        choice: BufferChoice,
        criterion: &Criterion,
    ) -> Result<Self> {
        let (unit, objective) = (criterion.unit(), criterion.objective());
        let aim = (objective, criterion.watch());
        if !columns.are_normalized() {
            return Self::chosen_for(horizon, columns, choice, aim, unit);
        }
        // Over long horizons only the buffers for single events: the others take seconds, and weights are better.
        let equal = if horizon > runs::MAX_TABLE_STEPS {
            Self::chosen_watched(horizon, columns, choice, aim)?
        } else {
            Self::chosen_for(horizon, columns, choice, aim, unit)?
        };
        let mut tried = vec![equal];
        // The same buffers, and those that are optimised for these weights.
        tried.extend(Self::for_runs(horizon, unit, tried[0].buffers()));
        tried.extend(match choice {
            BufferChoice::Count(count) => Self::up_to_for_runs(horizon, unit, count, aim),
            _ => Self::best_count_for_runs(horizon, unit, aim),
        });
        Ok(least(tried, |blt| criterion.figure(blt)).expect("the first was tried"))
    }

    /// 2ρ·variance, if patterns have the length that they have by construction.
    fn pattern_figure(&self, objective: Objective) -> f64 {
        self.pattern_squared() * objective.of(self.figures.max(), self.figures.mean())
    }

    /// The squared length of a pattern of the unit that the columns are weighted for, by construction.
    fn pattern_squared(&self) -> f64 {
        match self.scaling {
            Scaling::Plain | Scaling::Cut(_) => self.columns.l2_squared,
            Scaling::Equal(runs) => runs::shortest_squared(self.figures.response(), runs),
        }
    }

    /// With the buffers of a name; parameters that it leaves open are optimised for the largest or the mean variance.
    /// Uses fewer buffers than the name asks for if the horizon is too short for them.
    ///
    /// # Errors
    /// As [`Blt::new`] and [`Blt::optimised`].
    pub fn chosen(horizon: u64, columns: ColumnScaling, choice: BufferChoice, objective: Objective) -> Result<Self> {
        Self::chosen_watched(horizon, columns, choice, (objective, SearchWatch::NONE))
    }

    /// The same in a search that a watch may cancel.
    pub(super) fn chosen_watched(
        horizon: u64,
        columns: ColumnScaling,
        choice: BufferChoice,
        aim: (Objective, SearchWatch<'_>),
    ) -> Result<Self> {
        let (objective, watch) = aim;
        match choice {
            BufferChoice::Best => Self::best_watched(horizon, columns, aim),
            BufferChoice::Count(count) => {
                let all = Self::optimised_watched(horizon, columns, count, aim);
                if all.is_ok() || !(1..=MAX_BUFFERS).contains(&count) {
                    return all;
                }
                watch.check()?;
                // Over a few steps many buffers cannot be distinguished; then the largest number that can.
                let fewer = (1..count).filter_map(|count| Self::optimised_watched(horizon, columns, count, aim).ok());
                let best = fewer.min_by(|a, b| a.figure(objective).total_cmp(&b.figure(objective)));
                watch.check()?;
                best.map_or(all, Ok)
            }
            BufferChoice::Given(buffers) => Self::new(horizon, columns, buffers),
        }
    }

    /// 2ρ·variance.
    pub(super) fn figure(&self, objective: Objective) -> f64 {
        let row = objective.of(self.figures.max(), self.figures.mean());
        self.columns.l2_squared * row
    }
}

fn no_buffers(horizon: u64, runs: Participation) -> Error {
    Error::invalid(format!("no buffers were found for {horizon} steps and patterns of {}", runs.most()))
}

/// The numbers of buffers to try for a unit.
fn counts(choice: BufferChoice) -> std::ops::RangeInclusive<usize> {
    match choice {
        BufferChoice::Count(count) => count..=count,
        BufferChoice::Best | BufferChoice::Given(_) => BUFFERS_OF_UNITS,
    }
}

/// The one with the least figure, or one that is hardly above it and has fewer buffers.
fn least(tried: impl IntoIterator<Item = Blt>, figure: impl Fn(&Blt) -> f64) -> Option<Blt> {
    let figures: Vec<(f64, Blt)> = tried.into_iter().map(|blt| (figure(&blt), blt)).collect();
    let near = figures.iter().map(|(figure, _)| *figure).fold(f64::INFINITY, f64::min) * (1.0 + NEGLIGIBLE_GAIN);
    let count = |blt: &Blt| blt.buffers.echoes().len();
    let best = figures.into_iter().filter(|(figure, _)| *figure <= near);
    best.min_by(|(a, x), (b, y)| count(x).cmp(&count(y)).then(a.total_cmp(b))).map(|(_, blt)| blt)
}

impl LoopSearch<'_> {
    /// The best of several sets of buffers. Candidates are the best buffers for running sums; for up to 2^15 steps also
    /// a descent from them, and for up to 2^12 one from four buffers, and all of this for normalized columns with
    /// weights for the patterns of the unit. So it is never worse than [`Blt::best_for`].
    pub(super) fn best(&self, aim: (Objective, SearchWatch<'_>), unit: Participation) -> Result<Blt> {
        let Self { horizon, columns, choice, .. } = *self;
        let (objective, watch) = aim;
        let criterion = Criterion::from_vectors(objective, unit).with_watch(watch);
        let sums = Blt::chosen_for(horizon, columns, choice, aim, unit)?;
        let other = || Blt::optimised_watched(horizon, columns, SECOND_DESCENT_BUFFERS, aim);
        let other = (horizon <= MAX_SECOND_DESCENT_HORIZON && choice == BufferChoice::Best).then(other);
        let starts: Vec<Blt> = [sums].into_iter().chain(other.and_then(Result::ok)).collect();
        let mut tried = self.descended(starts, |buffers| Blt::new(horizon, columns, buffers));
        if columns.are_normalized() && unit.within(horizon) > 1 && horizon <= MAX_SECOND_DESCENT_HORIZON {
            let start = Blt::best_of_unit(horizon, columns, choice, &criterion)?;
            tried.extend(self.descended(vec![start], |buffers| Blt::for_runs(horizon, unit, buffers)));
        }
        let figures = tried.into_iter().filter_map(|blt| Some(((self.figure)(&blt)?, blt)));
        let best = figures.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, blt)| blt).ok_or_else(|| Error::invalid("no buffers were found for this criterion"))
    }

    /// The given ones, and descents from them.
    fn descended(&self, mut starts: Vec<Blt>, build: impl Fn(Buffers) -> Result<Blt>) -> Vec<Blt> {
        if self.horizon <= MAX_DESCENT_HORIZON {
            let of = |buffers| (self.figure)(&build(buffers).ok()?);
            let found: Vec<Buffers> =
                starts.iter().filter_map(|start| optimise::buffers_near(start.buffers(), of)).collect();
            starts.extend(found.into_iter().filter_map(|buffers| build(buffers).ok()));
        }
        starts
    }
}
