//! Training options: the noise and the order of the examples, ranked by error.
//!
//! A run is described as usual: number of examples, batch size, epochs. An option keeps to it as closely as its order
//! of the examples allows:
//!
//! * **Poisson sampling**: batches of the expected size, and epochs times examples over that size as the number of
//!   steps, rounded;
//! * **random allocation**: an epoch is a whole number `b` of steps, the nearest to examples over the batch size. Every
//!   example is allocated independently of all others, so `b` need not divide the number of examples: the expected
//!   batch is the `b`-th part of it, and the steps are epochs times `b`, rounded;
//! * **fixed order**: batches of exactly the size, and epochs of as many as there are whole ones.
//!
//! So numbers of steps and expected batches differ a little if the batch size does not divide the number of examples.
//! Options are ranked by error over expected batch: that of a mean gradient.

mod option;
mod order;
mod progress;

pub use option::{OmittedOption, TrainingOption, TrainingOptions};

use super::VectorRequest;
use evertally::number::threads;
use evertally::plan::SearchObserver;
use evertally::{Error, Result};
use order::{ExampleOrder, TrainingRun};
use progress::SharedProgress;
use std::sync::{Mutex, PoisonError};

/// A training run and its budget. Start from the request for its plans ([`VectorRequest`], whose horizon,
/// participation, sampling and mechanism do not matter).
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{SamplingScheme, Training, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-5)?);
/// // 6000 examples in batches of 100, two epochs.
/// let training = Training::new(6000, 100, 2.0, VectorRequest::new(1, budget, 1.0))?;
/// let found = training.options()?.available;
/// assert_eq!((training.steps(), found[0].plan.horizon()), (120, 120));
/// for sampling in [None, Some(SamplingScheme::Poisson), Some(SamplingScheme::RandomAllocation)] {
///     assert!(found.iter().any(|option| option.sampling == sampling));
/// }
/// assert!(found.windows(2).all(|pair| pair[0].relative_error() <= pair[1].relative_error()));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Training(TrainingRun);

impl Training {
    /// A run over this many examples, with this batch size, for this many epochs. Its search is quick; see
    /// [`VectorRequest::with_effort`].
    ///
    /// # Errors
    /// If the batch is larger than the data, or a number is out of range.
    pub fn new(examples: u64, batch: u64, epochs: f64, request: VectorRequest) -> Result<Self> {
        if batch == 0 || batch > examples {
            return Err(Error::invalid(format!("a batch must hold 1 to all {examples} examples, got {batch}")));
        }
        let steps = (epochs * examples as f64 / batch as f64).round();
        if !(1.0..=libm::exp2(62.0)).contains(&steps) {
            return Err(Error::invalid(format!(
                "{epochs} epochs of {examples} examples in batches of {batch} do not give 1 to 2^62 steps"
            )));
        }
        Ok(Self(TrainingRun { examples, batch, epochs, steps: steps as u64, request }))
    }

    /// Number of steps: epochs times examples over the batch, rounded. Options with whole epochs may have a few more or
    /// less.
    pub fn steps(&self) -> u64 {
        self.0.steps
    }

    /// The same run, whose searches report to this observer, which may cancel them. The total of reports is an
    /// estimate until the search ends.
    pub fn with_observer(self, observer: SearchObserver) -> Self {
        let Self(run) = self;
        Self(TrainingRun { request: run.request.with_observer(observer), ..run })
    }

    /// All options, smallest error first, including those that need more memory than the request allows; and those out
    /// of reach, with the reason. Takes up to about ten seconds, or with
    /// [`SearchEffort::Thorough`](super::SearchEffort) some minutes for thousands of steps.
    ///
    /// # Errors
    /// If the request is invalid, the search is cancelled, or no option is available.
    pub fn options(&self) -> Result<TrainingOptions> {
        let orders = ExampleOrder::all(&self.0);
        let progress = SharedProgress::new(self.0.request.observer.clone(), orders.len());
        let search = |place: usize, rival: f64| {
            let own = orders[place].options(rival, progress.observer(place));
            progress.finish(place);
            own
        };
        // The first ones at the same time. An allocation uses all processors, and is compared with those before it.
        let (quick, allocated): (Vec<usize>, Vec<usize>) =
            (0..orders.len()).partition(|place| !orders[*place].is_allocated());
        let found = Mutex::new(vec![]);
        threads::share(threads::asked(0).min(quick.len()), quick.into_iter(), |tasks| {
            for place in tasks {
                let own = search(place, f64::INFINITY);
                found.lock().unwrap_or_else(PoisonError::into_inner).push((place, own));
            }
        });
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        found.sort_by_key(|(place, _)| *place);
        let mut options = TrainingOptions::default();
        for (_, own) in found {
            options.extend(own?);
        }
        for place in allocated {
            options.extend(search(place, options.least_error())?);
        }
        options.ranked()
    }

    /// The best option that fits the memory.
    ///
    /// # Errors
    /// As [`options`](Self::options).
    pub fn best(&self) -> Result<TrainingOption> {
        let best = self.options()?.available.into_iter().find(|option| option.fits);
        best.ok_or_else(|| Error::invalid("no training option fits the memory limit"))
    }
}
