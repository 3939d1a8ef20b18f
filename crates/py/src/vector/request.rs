//! Plans of vectors: a declaration in JSON, and the keywords that only Python has.

use crate::error::{OrRaise, invalid};
use crate::options::Options;
use crate::request::meaning;
use crate::vector::names::{cipher, sampling_scheme};
use crate::whole::Whole;
use evertally::mechanism::Participation;
use evertally::plan::Objective;
use evertally::privacy::Neighbours;
use evertally_declare::declaration::Declaration;
use evertally_training::{
    Cipher, IterateAverage, Optimizer, Rates, Sampling, SamplingScheme, SearchEffort, Series, VectorRequest,
};
use pyo3::prelude::*;

/// The request for a plan of this many vectors.
pub(crate) fn request(declared: &Declaration, options: &Options<'_>, horizon: u64) -> PyResult<VectorRequest> {
    let Whole(max_memory) = options.take("max_memory")?.unwrap_or(Whole(64));
    let effort: Option<String> = options.take("search")?;
    let effort = effort.map_or(Ok(SearchEffort::default()), |name| name.parse()).or_raise()?;
    let (sampling, participation) = (sampling(options)?, participation(options, horizon)?);
    if sampling.is_some() && participation == Some(Participation::ONCE) {
        return Err(invalid(
            "with sampling, the random draws decide in which steps an example takes part: omit participations and \
             separation",
        ));
    }
    Ok(VectorRequest::new(horizon, declared.budget().or_raise()?, options.take("norm")?.unwrap_or(1.0))
        .with_neighbours(declared.neighbours.unwrap_or(Neighbours::AddRemove))
        .with_participation(participation.unwrap_or(Participation::ONCE))
        .with_optional_mechanism(declared.mechanism)
        .with_objective(declared.objective.unwrap_or(Objective::Max))
        .with_series(options.word("series")?.unwrap_or(Series::Increments))
        .with_cipher(options.take::<String>("cipher")?.map_or(Ok(Cipher::default()), |word| cipher(&word))?)
        .with_meanings(meaning(options)?)
        .with_optional_optimizer(optimizer(options)?)
        .with_optional_sampling(sampling)
        .with_max_memory(max_memory)
        .with_effort(effort))
}

/// In which steps one example takes part, if given. With a separation alone, an example may take part as often as the
/// horizon allows at that distance.
fn participation(options: &Options<'_>, horizon: u64) -> PyResult<Option<Participation>> {
    let (most, separation) = (options.take("participations")?, options.take("separation")?);
    let given = match (most, separation) {
        (None, None) => return Ok(None),
        (None, Some(Whole(separation))) => Participation::at_least_apart(separation, horizon),
        (Some(Whole(most)), separation) => Participation::new(most, separation.map_or(1, |Whole(steps)| steps)),
    };
    given.map(Some).or_raise()
}

/// How examples are sampled, if they are.
fn sampling(options: &Options<'_>) -> PyResult<Option<Sampling>> {
    let scheme = options.take::<String>("sampling")?.map(|name| sampling_scheme(&name)).transpose()?;
    let fraction: Option<f64> = options.take("sampled_fraction")?;
    let steps: Option<u64> = options.take("steps_per_epoch")?.map(|Whole(steps)| steps);
    let examples: Option<u64> = options.take("examples")?.map(|Whole(examples)| examples);
    let max_batch: Option<u64> = options.take("max_batch_size")?.map(|Whole(size)| size);
    if scheme != Some(SamplingScheme::TruncatedPoisson) && (examples.is_some() || max_batch.is_some()) {
        return Err(invalid("examples and max_batch_size are for sampling=\"truncated-poisson\""));
    }
    let made = match (scheme, fraction, steps) {
        (None, None, None) => return Ok(None),
        (Some(SamplingScheme::Poisson), Some(fraction), None) => Sampling::poisson(fraction),
        (Some(SamplingScheme::CyclicPoisson), Some(fraction), None) => Sampling::cyclic_poisson(fraction),
        (Some(SamplingScheme::FixedSize), Some(fraction), None) => Sampling::fixed_size(fraction),
        (Some(SamplingScheme::TruncatedPoisson), Some(fraction), None) => {
            let Some(examples) = examples else {
                return Err(invalid(
                    "sampling=\"truncated-poisson\" needs examples, the largest number of examples, on which the \
                     probability of larger batches depends",
                ));
            };
            Sampling::truncated_poisson(fraction, examples, max_batch)
        }
        (Some(SamplingScheme::RandomAllocation), None, Some(steps)) => Sampling::random_allocation(steps),
        (Some(SamplingScheme::PerEpochRandomAllocation), None, Some(steps)) => {
            Sampling::per_epoch_random_allocation(steps)
        }
        (Some(scheme @ (SamplingScheme::RandomAllocation | SamplingScheme::PerEpochRandomAllocation)), ..) => {
            return Err(invalid(format!(
                "sampling=\"{scheme}\" needs steps_per_epoch, the number of batches in an epoch, and no \
                 sampled_fraction"
            )));
        }
        (Some(scheme), ..) => {
            return Err(invalid(format!(
                "sampling=\"{scheme}\" needs sampled_fraction, the batch size over the number of examples, and no \
                 steps_per_epoch"
            )));
        }
        (None, ..) => {
            return Err(invalid(
                "sampled_fraction and steps_per_epoch describe the sampling of examples: name it, such as \
                 sampling=\"cyclic-poisson\" or sampling=\"random-allocation\"",
            ));
        }
    };
    made.map(Some).or_raise()
}

/// A learning rate, or one for each step.
#[derive(FromPyObject)]
enum Rate {
    One(f64),
    Each(Vec<f64>),
}

/// The average of the iterates, if there is one.
fn average(options: &Options<'_>) -> PyResult<Option<IterateAverage>> {
    match (options.take("average_decay")?, options.take("average_steps")?) {
        (None, None) => Ok(None),
        (Some(decay), None) => Ok(Some(IterateAverage::Exponential(decay))),
        (None, Some(Whole(steps))) => Ok(Some(IterateAverage::Tail(steps))),
        (Some(_), Some(_)) => Err(invalid("give average_decay or average_steps: the iterates have one average")),
    }
}

/// What an optimizer does with the vectors, if one is described.
fn optimizer(options: &Options<'_>) -> PyResult<Option<Optimizer>> {
    let rate = options.take::<Rate>("learning_rate")?;
    let Whole(warmup) = options.take("warmup")?.unwrap_or(Whole(0));
    let schedule = options.take::<String>("schedule")?.unwrap_or("constant".into());
    let momentum = options.take("momentum")?.unwrap_or(0.0);
    let weight_decay = options.take("weight_decay")?.unwrap_or(0.0);
    let nesterov = options.take("nesterov")?.unwrap_or(false);
    let average = average(options)?;
    let counted = options.take::<Whole>("counted_steps")?.map(|Whole(steps)| steps);
    let is_plain = momentum == 0.0 && weight_decay == 0.0 && !nesterov && average.is_none() && counted.is_none();
    let rates = match (&rate, schedule.as_str(), warmup) {
        (None, "constant", 0) if is_plain => return Ok(None),
        (None, ..) => return Err(invalid("an optimizer needs a learning_rate: one number, or one for each step")),
        (Some(Rate::One(rate)), "constant", 0) => Rates::Constant(*rate),
        (Some(Rate::One(rate)), "cosine", warmup) => Rates::WarmupCosine { peak: *rate, warmup, last: 0.0 },
        (Some(Rate::Each(rates)), "constant", 0) => Rates::List(rates.clone()),
        (Some(_), "constant" | "cosine", _) => {
            return Err(invalid(
                "schedule=\"cosine\" needs a single learning_rate, and warmup needs that schedule; otherwise list one \
                 rate for each step",
            ));
        }
        _ => return Err(invalid(format!("schedule must be one of \"constant\", \"cosine\", got {schedule:?}"))),
    };
    let optimizer = Optimizer::new(rates).and_then(|made| made.with_momentum(momentum));
    let optimizer = optimizer.and_then(|made| made.with_weight_decay(weight_decay));
    let optimizer = optimizer.and_then(|made| made.with_nesterov(nesterov).with_average(average));
    optimizer.and_then(|made| made.with_counted_steps(counted)).or_raise().map(Some)
}
