//! Training options: the noise and the order of the examples, ranked by error.
//!
//! A run is described as usual: number of examples, batch size, epochs. All options have the same number of steps and
//! the same expected batch size, so that errors can be compared: those of the running sums, or of the parameters under
//! an [`Optimizer`].

use super::{VectorCandidate, VectorPlan, VectorRequest};
use crate::Sampling;
use evertally::mechanism::{MechanismName, Participation};
use evertally::privacy::Neighbours;
use evertally::{Error, Result};

/// A training run and its budget. Start from the request for its plans ([`VectorRequest`], whose horizon,
/// participation, sampling and mechanism do not matter).
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Order, Training, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-5)?);
/// // 6000 examples in batches of 100, two epochs.
/// let training = Training::new(6000, 100, 2.0, VectorRequest::new(1, budget, 1.0))?;
/// let ways = training.ways()?;
/// assert_eq!((training.steps(), ways[0].plan.horizon()), (120, 120));
/// assert!(ways.iter().any(|way| way.order == Order::Fixed) && ways.iter().any(|way| way.order == Order::Sampled));
/// assert!(ways.windows(2).all(|pair| pair[0].plan.max_std_error() <= pair[1].plan.max_std_error()));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Training {
    examples: u64,
    batch: u64,
    steps: u64,
    request: VectorRequest,
}

/// Maximum number of bins that are accounted for.
const BINS: std::ops::RangeInclusive<u64> = 2..=2048;

/// Fresh bins are tried for at most this many epochs. For many short epochs they are close to Poisson sampling, and
/// planning takes minutes.
const MOST_EPOCHS: u64 = 64;

/// The order in which examples take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// In batches of one size, which are the same, in the same order, in every epoch. Nothing is sampled, and the
    /// batches need not be secret.
    Fixed,
    /// Poisson subsampling by [`Batches`](crate::Batches), for every step separately. The batches must stay
    /// secret.
    Sampled,
    /// Random allocation, drawn once: every example is in one of the batches of an epoch, the same in every epoch. The
    /// batches must stay secret.
    Bins,
    /// Per-epoch random allocation: in every epoch each example is put into one of its batches, at least some steps
    /// after its previous one. The batches must stay secret.
    FreshBins,
}

/// A training option.
#[derive(Clone, Debug)]
pub struct Way {
    /// The order of the examples.
    pub order: Order,
    /// The plan of this option.
    pub plan: VectorPlan,
    /// Number of vectors of memory or of fresh noise that a step needs; 0 if the number grows with the logarithm of the
    /// horizon.
    pub vectors: u64,
    /// Whether that number is within the request's limit.
    pub fits: bool,
}

impl Training {
    /// A run over this many examples, with this batch size, for this many epochs.
    ///
    /// # Errors
    /// If the batch is larger than the data, or a number is out of range.
    pub fn new(examples: u64, batch: u64, epochs: f64, request: VectorRequest) -> Result<Self> {
        if batch == 0 || batch > examples {
            return Err(Error::invalid(format!("a batch must hold 1 to all {examples} examples, got {batch}")));
        }
        let steps = (epochs * examples as f64 / batch as f64).round();
        if !(1.0..=2f64.powi(62)).contains(&steps) {
            return Err(Error::invalid(format!(
                "{epochs} epochs of {examples} examples in batches of {batch} do not give 1 to 2^62 steps"
            )));
        }
        Ok(Self { examples, batch, steps: steps as u64, request })
    }

    /// Number of steps: epochs times examples over the batch, rounded.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// All options, smallest error first, including those that need more memory than the request allows. Takes some
    /// seconds; one or two minutes for thousands of steps and hundreds of bins.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    pub fn ways(&self) -> Result<Vec<Way>> {
        let mut ways = self.of_order(Order::Fixed)?;
        if self.can_be_sampled() {
            ways.extend(self.of_order(Order::Sampled)?);
            // The number of whole batches, if that keeps the expected batch size.
            let (bins, batch) = (self.apart(), self.batch as f64);
            let expected = self.examples as f64 / bins as f64;
            if BINS.contains(&bins) && self.steps >= bins && expected - batch < 1.0 {
                ways.extend(self.of_order(Order::Bins)?);
                if (2..=MOST_EPOCHS).contains(&self.steps.div_ceil(bins)) {
                    ways.extend(self.of_order(Order::FreshBins)?);
                }
            }
        }
        let error = |way: &Way| self.request.objective.of(way.plan.max_std_error(), way.plan.mean_std_error());
        ways.sort_by(|a, b| error(a).total_cmp(&error(b)));
        Ok(ways)
    }

    /// The best option that fits the memory.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    pub fn best(&self) -> Result<Way> {
        let best = self.ways()?.into_iter().find(|way| way.fits);
        best.ok_or_else(|| Error::invalid("no training option fits the memory limit"))
    }

    /// Sampling is accounted for in (ε, δ), with examples added or removed.
    fn can_be_sampled(&self) -> bool {
        matches!(self.request.budget, evertally::privacy::Budget::Approximate(..))
            && self.request.neighbours == Neighbours::AddRemove
    }

    /// Whole batches in an epoch.
    fn apart(&self) -> u64 {
        self.examples / self.batch
    }

    fn of_order(&self, order: Order) -> Result<Vec<Way>> {
        let open = self.request.clone().with_horizon(self.steps).with_optional_mechanism(None);
        let request = match order {
            Order::Fixed => {
                let apart = self.apart();
                let most = self.steps.div_ceil(apart);
                open.with_optional_sampling(None).with_participation(Participation::new(most, apart)?)
            }
            Order::Sampled => {
                let fraction = self.batch as f64 / self.examples as f64;
                open.with_sampling(Sampling::new(fraction)?).with_participation(Participation::ONCE)
            }
            Order::Bins => open.with_sampling(Sampling::in_bins(self.apart())?).with_participation(Participation::ONCE),
            Order::FreshBins => {
                open.with_sampling(Sampling::in_fresh_bins(self.apart())?).with_participation(Participation::ONCE)
            }
        };
        let found = request.candidates()?;
        let most = request.most_vectors;
        let mut kept: Vec<&VectorCandidate> = match order {
            Order::Sampled | Order::Bins | Order::FreshBins => found.iter().collect(),
            // From the many competing candidates: the best, the best that fits, and independent noise.
            Order::Fixed => {
                let best = found.iter().find(|candidate| candidate.vectors <= most);
                let input = found.iter().find(|candidate| candidate.name == MechanismName::Input);
                found.first().into_iter().chain(best).chain(input).collect()
            }
        };
        kept.dedup_by_key(|candidate| candidate.name);
        let way = |candidate: &VectorCandidate| Way {
            order,
            vectors: candidate.vectors,
            fits: candidate.vectors <= most,
            plan: VectorPlan::build(request.clone(), candidate.clone()),
        };
        Ok(kept.into_iter().map(way).collect())
    }
}

impl Way {
    /// A short description.
    ///
    /// ```
    /// # use evertally::privacy::{Budget, Delta, Epsilon};
    /// # use evertally_training::{Training, VectorRequest};
    /// # let budget = Budget::Approximate(Epsilon::new(0.1)?, Delta::new(1e-5)?);
    /// let training = Training::new(1000, 100, 1.0, VectorRequest::new(1, budget, 1.0))?;
    /// let ways = training.ways()?;
    /// assert!(ways.iter().any(|way| way.in_words() == "Poisson sampling, independent noise (DP-SGD)"));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn in_words(&self) -> String {
        let name = self.plan.name().brief();
        match (self.order, self.plan.groups().unwrap_or(1), name) {
            (Order::Fixed, _, MechanismName::Input) => "fixed order, independent noise".into(),
            (Order::Fixed, ..) => format!("fixed order, {name}"),
            (Order::Sampled, _, MechanismName::Input) => "Poisson sampling, independent noise (DP-SGD)".into(),
            (Order::Sampled, 1, _) => format!("Poisson sampling, {name}"),
            (Order::Sampled, groups, _) => format!("cyclic Poisson sampling in {groups} groups, {name}"),
            (Order::Bins, _, MechanismName::Input) => "random bins, independent noise".into(),
            (Order::Bins, ..) => format!("random bins, {name}"),
            (Order::FreshBins, _, MechanismName::Input) => "fresh random bins, independent noise".into(),
            (Order::FreshBins, ..) => format!("fresh random bins, {name}"),
        }
    }
}
