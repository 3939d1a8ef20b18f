//! Good buffers for a horizon and a unit.

use super::{Blt, BufferChoice, Buffers, MAX_BUFFERS, MAX_HORIZON, Scaling, optimise, runs};
use crate::mechanism::{ColumnScaling, Criterion, Mechanism, Objective, Participation, check_horizon};
use crate::privacy::Spread;
use crate::{Error, Result};

/// `best` adds another buffer if that lowers the variance by at least this part.
const MIN_RELATIVE_GAIN: f64 = 5e-4;
/// `best_for` tries at most this many stretches of steps.
const MAX_STRETCHES: usize = 6;
/// And optimises for participation in up to this many steps.
const MAX_OPTIMISED_STEPS: u64 = 1 << 12;
/// `best_by` descends from the best buffers for sums up to the first horizon, and up to the second also from this many
/// buffers.
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
        check_horizon(horizon, MAX_HORIZON, Scaling::new(columns).stem())?;
        if buffers == 0 || buffers > MAX_BUFFERS {
            return Err(Error::invalid(format!("a BLT has 1 to {MAX_BUFFERS} buffers, got {buffers}")));
        }
        let found = optimise::buffers(horizon, columns, buffers, objective)
            .map_err(|_| Error::invalid(format!("{buffers} buffers are too many for {horizon} steps; use fewer")))?;
        Self::new(horizon, columns, found)
    }

    /// With as many buffers as are worth their time: until one more is expected to lower the variance by less than 0.05
    /// %, if the gains keep falling at the last ratio.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best(horizon: u64, columns: ColumnScaling, objective: Objective) -> Result<Self> {
        let mut best = Self::optimised(horizon, columns, 1, objective)?;
        let mut last_gain = 1.0;
        for count in 2..=MAX_BUFFERS {
            let Ok(next) = Self::optimised(horizon, columns, count, objective) else { break };
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
        let mut tried = vec![Self::best(horizon, columns, objective)?];
        let times = participation.within(horizon);
        let mut stretch = participation.separation();
        while times > 1 && stretch < horizon && tried.len() <= MAX_STRETCHES {
            // Searches fail for stretches that are too short, here and below.
            tried
                .extend(Self::best(stretch, columns, objective).and_then(|b| Self::new(horizon, columns, b.buffers())));
            stretch = stretch.saturating_mul(2);
        }
        if (2..=MAX_OPTIMISED_STEPS).contains(&times) {
            let found = (2..=5).flat_map(|count| optimise::buffers_for(horizon, count, objective, participation));
            tried.extend(found.filter_map(|buffers| Self::new(horizon, columns, buffers).ok()));
        }
        let figure =
            |blt: &Self| blt.participation_squared(participation) * objective.of(blt.figures.max(), blt.figures.mean());
        let figures = tried.into_iter().map(|blt| (figure(&blt), blt));
        let best = figures.min_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(best.expect("the first was tried").1)
    }

    /// The best of several sets of buffers under any criterion; `figure` returns `None` if it does not apply.
    /// Candidates are the best buffers for running sums; for up to 2^15 steps also a descent from them, and for up to
    /// 2^12 one from four buffers. So it is never worse than [`Blt::best_for`].
    ///
    /// # Errors
    /// If the horizon is out of range, or the criterion applies to no candidate.
    pub fn best_by(
        horizon: u64,
        columns: ColumnScaling,
        objective: Objective,
        participation: Participation,
        figure: &dyn Fn(&Self) -> Option<f64>,
    ) -> Result<Self> {
        let sums = Self::best_for(horizon, columns, objective, participation)?;
        let mut tried = vec![sums.buffers()];
        if horizon <= MAX_DESCENT_HORIZON {
            let other = (horizon <= MAX_SECOND_DESCENT_HORIZON)
                .then(|| Self::optimised(horizon, columns, SECOND_DESCENT_BUFFERS, objective));
            let other = other.and_then(Result::ok).map(|blt| blt.buffers());
            let starts: Vec<Buffers> = tried.iter().copied().chain(other).collect();
            let of = |buffers| figure(&Self::new(horizon, columns, buffers).ok()?);
            tried.extend(starts.into_iter().filter_map(|start| optimise::buffers_near(start, of)));
        }
        let built = tried.into_iter().filter_map(|buffers| Self::new(horizon, columns, buffers).ok());
        let figures = built.filter_map(|blt| Some((figure(&blt)?, blt)));
        let best = figures.min_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, blt)| blt).ok_or_else(|| Error::invalid("no buffers were found for this criterion"))
    }

    /// The normalized one for patterns of a unit, with `buffers` buffers, 1 ..= 8, optimised for the largest or the
    /// mean variance; fewer if the horizon is too short for that many.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn optimised_for_runs(horizon: u64, runs: Participation, buffers: usize, objective: Objective) -> Result<Self> {
        check_horizon(horizon, runs::MAX_STEPS, "normalized-blt(run=…)")?;
        if buffers == 0 || buffers > MAX_BUFFERS {
            return Err(Error::invalid(format!("a BLT has 1 to {MAX_BUFFERS} buffers, got {buffers}")));
        }
        let runs = runs.over(horizon);
        let built = |count| {
            let found = optimise::buffers_of_runs(horizon, count, objective, runs);
            let built = found.into_iter().filter_map(|buffers| Self::for_runs(horizon, runs, buffers).ok());
            // By construction the patterns are equally long: in units of the last weight.
            let figure = |blt: &Self| blt.pattern_squared() * objective.of(blt.figures.max(), blt.figures.mean());
            built.map(|blt| (figure(&blt), blt)).min_by(|a, b| a.0.total_cmp(&b.0)).map(|best| best.1)
        };
        (1..=buffers).rev().find_map(built).ok_or_else(|| {
            Error::invalid(format!("no buffers were found for {horizon} steps and patterns of {}", runs.most()))
        })
    }

    /// The same with as many buffers as are worth their time.
    ///
    /// # Errors
    /// If the horizon is out of range.
    pub fn best_of_runs(horizon: u64, runs: Participation, objective: Objective) -> Result<Self> {
        let built = |count| {
            let blt = Self::optimised_for_runs(horizon, runs, count, objective)?;
            Ok::<_, Error>((blt.pattern_squared() * objective.of(blt.figures.max(), blt.figures.mean()), blt))
        };
        let mut best = built(1)?;
        let mut last_gain = 1.0;
        for count in 2..=MAX_BUFFERS {
            let next = built(count)?;
            let gain = 1.0 - next.0 / best.0;
            if gain < MIN_RELATIVE_GAIN {
                break;
            }
            best = next;
            if gain * gain / last_gain < MIN_RELATIVE_GAIN {
                break;
            }
            last_gain = gain;
        }
        Ok(best.1)
    }

    /// The best for a unit with events in several steps.
    pub(super) fn best_of_units(horizon: u64, columns: ColumnScaling, criterion: &Criterion) -> Result<Self> {
        let spread = criterion.spread_over_steps().unwrap_or(Spread::ONE);
        let runs = Participation::new(spread.per_group.div_ceil(spread.per_step).max(1), spread.separation)?;
        if columns.are_normalized() {
            Self::best_of_runs(horizon, runs, criterion.objective())
        } else {
            Self::best_for(horizon, columns, criterion.objective(), runs)
        }
    }

    /// The squared length of a pattern of the unit that the columns are weighted for, by construction.
    fn pattern_squared(&self) -> f64 {
        match self.scaling {
            Scaling::Plain => self.columns.l2_squared,
            Scaling::Equal(runs) => runs::last_squared(self.figures.response(), runs),
        }
    }

    /// With the buffers of a name; parameters that it leaves open are optimised for the largest or the mean variance.
    /// Uses fewer buffers than the name asks for if the horizon is too short for them.
    ///
    /// # Errors
    /// As [`Blt::new`] and [`Blt::optimised`].
    pub fn chosen(horizon: u64, columns: ColumnScaling, choice: BufferChoice, objective: Objective) -> Result<Self> {
        match choice {
            BufferChoice::Best => Self::best(horizon, columns, objective),
            BufferChoice::Count(count) => {
                let all = Self::optimised(horizon, columns, count, objective);
                if all.is_ok() || !(1..=MAX_BUFFERS).contains(&count) {
                    return all;
                }
                // Over a few steps many buffers cannot be distinguished; then the largest number that can.
                let fewer = (1..count).filter_map(|count| Self::optimised(horizon, columns, count, objective).ok());
                fewer.min_by(|a, b| a.figure(objective).total_cmp(&b.figure(objective))).map_or(all, Ok)
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
