//! The search over mechanisms: exact finite-T error decides.

use super::VectorRequest;
use super::calibrate::calibrated;
use crate::mechanism::{Blt, BufferChoice, DigitTree, LevelChoice, Mechanism, MechanismName, NamedShape, Smooth};
use crate::plan::{Objective, ranked};
use crate::privacy::Spread;
use crate::{Error, Result};
use std::sync::Arc;

/// A mechanism with the noise it needs, and its error under a request.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally::vector::VectorRequest;
/// let request = VectorRequest::new(64, Budget::Zcdp(Rho::new(0.5)?), 1.0);
/// let request = request.with_mechanism("binary".parse()?);
/// let binary = &request.candidates()?[0];
/// assert!((binary.sensitivity - 7f64.sqrt()).abs() < 1e-12); // seven levels
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct VectorCandidate {
    /// The factorization.
    pub mechanism: Arc<dyn Mechanism>,
    /// Its name, with every parameter.
    pub name: MechanismName,
    /// How far one example that is added or removed moves the releases, in standard deviations of a variable, for a norm of 1 and
    /// `σ = 1`: never too small.
    pub sensitivity: f64,
    /// Standard deviation of one variable.
    pub sigma: f64,
    /// Largest standard error of a running sum, per coordinate.
    pub max_std: f64,
    /// Root of the mean variance of the running sums, per coordinate.
    pub mean_std: f64,
    /// Whether a step needs no more than 64 vectors of memory or of fresh noise, whatever the horizon. Square roots hold the noise
    /// of `2 √T` steps and more (see [`Memory`](crate::vector::Memory)), banded ones need as many vectors as bands. Only mechanisms
    /// that stream lightly are chosen by default.
    pub streams_lightly: bool,
}

/// Most vectors of a mechanism that streams lightly.
const LIGHT: u64 = 64;

/// The families that compete where no mechanism is named.
pub(super) const FAMILIES: [MechanismName; 12] = [
    MechanismName::Input,
    MechanismName::Output,
    MechanismName::Binary,
    MechanismName::HonakerOnline,
    MechanismName::Kary(None),
    MechanismName::Subtract(None),
    MechanismName::Smooth(None),
    MechanismName::PathSum(LevelChoice::Best),
    MechanismName::Blt(BufferChoice::Best),
    MechanismName::NormalizedBlt(BufferChoice::Best),
    MechanismName::Sqrt,
    MechanismName::NormalizedSqrt,
];

/// Whether vectors can be streamed with this mechanism.
///
/// # Errors
/// If not, naming those that can.
///
/// ```
/// use evertally::vector::streams;
/// assert!(streams(&"blt".parse()?).is_ok());
/// assert!(streams(&"dense".parse()?).unwrap_err().to_string().contains("normalized-blt"));
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn streams(name: &MechanismName) -> Result<()> {
    use MechanismName::*;
    match name {
        Input | Output | Binary | HonakerOnline | Kary(_) | Subtract(_) | Smooth(_) | PathSum(_) | Sqrt
        | NormalizedSqrt | Blt(_) | NormalizedBlt(_) | BandedSqrt(_) | BandedInverseSqrt(_) => Ok(()),
        other => Err(Error::invalid(format!(
            "`{}` cannot stream the noise of vectors; take one of input, output, binary, kary, subtract, smooth, path-sum, \
             honaker-online, blt, normalized-blt, banded-sqrt(bands=…), banded-inverse-sqrt(bands=…), sqrt or normalized-sqrt",
            other.brief()
        ))),
    }
}

fn streams_lightly(name: MechanismName, horizon: u64) -> bool {
    match name {
        MechanismName::Sqrt | MechanismName::NormalizedSqrt => horizon <= LIGHT,
        MechanismName::BandedSqrt(bands) | MechanismName::BandedInverseSqrt(bands) => bands <= LIGHT,
        _ => true,
    }
}

pub(super) fn candidates(request: &VectorRequest) -> Result<Vec<VectorCandidate>> {
    // Refuse senseless requests before any search hides them behind "no candidate".
    request.check()?;
    let attempts = competitors(request)?.into_iter().map(|built| built.and_then(|m| candidate(request, m)));
    ranked(attempts, request.objective, |candidate| (candidate.max_std, candidate.mean_std))
}

/// The mechanism that is asked for, or those that compete.
fn competitors(request: &VectorRequest) -> Result<Vec<Result<Arc<dyn Mechanism>>>> {
    if let Some(name) = request.mechanism {
        streams(&name)?;
        return Ok(vec![best(request, name)]);
    }
    let reached = FAMILIES.into_iter().filter(|name| request.horizon <= name.longest_searched());
    Ok(reached.chain(banded(request)).map(|name| best(request, name)).collect())
}

/// Banded inverse square roots compete where examples come back: with a band up to their return, or a light one.
fn banded(request: &VectorRequest) -> impl Iterator<Item = MechanismName> {
    let (horizon, separation) = (request.horizon, request.participation.separation());
    let reached = horizon <= MechanismName::BandedInverseSqrt(1).longest_searched();
    let returning = request.participation.within(horizon) > 1 && reached;
    let light = [4, 16, LIGHT].into_iter().filter(move |bands| *bands < separation);
    let all = light.chain([separation]).filter(move |bands| returning && *bands <= horizon);
    all.map(MechanismName::BandedInverseSqrt)
}

/// The mechanism of a name, what it leaves open chosen for the least error under the request.
fn best(request: &VectorRequest, name: MechanismName) -> Result<Arc<dyn Mechanism>> {
    let horizon = request.horizon;
    let tried: Vec<Result<Arc<dyn Mechanism>>> = match name {
        MechanismName::Kary(None) => (2..=64).map(|k| shared(DigitTree::additive(horizon, k))).collect(),
        MechanismName::Subtract(None) => (3..=64).map(|k| shared(DigitTree::subtractive(horizon, k))).collect(),
        MechanismName::Smooth(None) => {
            let total = request.participation.within(horizon);
            let several = shape(request).with_spread(Spread { total, per_step: 1 });
            let shapes = if total == 1 { vec![several.exact()] } else { vec![shape(request).exact(), several] };
            shapes.iter().map(|shape| shared(Smooth::best(horizon, shape))).collect()
        }
        MechanismName::Blt(BufferChoice::Best) => vec![buffered(request, false)],
        MechanismName::NormalizedBlt(BufferChoice::Best) => vec![buffered(request, true)],
        _ => vec![name.build(horizon, &shape(request).exact())],
    };
    let mut best: Option<(f64, Arc<dyn Mechanism>)> = None;
    for mechanism in tried {
        let mechanism = mechanism?;
        let figure = figure(request, &*mechanism);
        if best.as_ref().is_none_or(|(least, _)| figure < *least) {
            best = Some((figure, mechanism));
        }
    }
    Ok(best.expect("every name has something to try").1)
}

fn shared<M: Mechanism + 'static>(mechanism: Result<M>) -> Result<Arc<dyn Mechanism>> {
    mechanism.map(|mechanism| Arc::new(mechanism) as _)
}

fn buffered(request: &VectorRequest, normalized: bool) -> Result<Arc<dyn Mechanism>> {
    let mean = request.objective == Objective::Mean;
    shared(Blt::best_for(request.horizon, normalized, mean, request.participation))
}

fn shape(request: &VectorRequest) -> NamedShape {
    NamedShape::gaussian_max().by_mean(request.objective == Objective::Mean)
}

/// The squared error that is minimised, up to a factor that all mechanisms share.
fn figure(request: &VectorRequest, mechanism: &dyn Mechanism) -> f64 {
    let row = match request.objective {
        Objective::Max => mechanism.max_row_norm_squared(),
        Objective::Mean => mechanism.mean_row_norm_squared(),
    };
    mechanism.participation_squared(request.participation) * row
}

fn candidate(request: &VectorRequest, mechanism: Arc<dyn Mechanism>) -> Result<VectorCandidate> {
    let (sensitivity, sigma) = calibrated(request, &*mechanism)?;
    let name: MechanismName = mechanism.name().parse()?;
    Ok(VectorCandidate {
        name,
        sensitivity,
        sigma,
        max_std: sigma * mechanism.max_row_norm_squared().sqrt(),
        mean_std: sigma * mechanism.mean_row_norm_squared().sqrt(),
        streams_lightly: streams_lightly(name, request.horizon),
        mechanism,
    })
}
