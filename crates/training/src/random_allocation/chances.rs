//! Probabilities from counts, and normal quantiles.

use evertally::number::special::normal_cdf;

/// The largest probability under which a count this small occurs with probability `e^-surprise`, by Chernoff's
/// bound.
pub(super) fn share_at_most(seen: u64, of: u64, surprise: f64) -> f64 {
    let (share, count) = (seen as f64 / of as f64, of as f64);
    let part = |a: f64, b: f64| if a > 0.0 { a * libm::log(a / b) } else { 0.0 };
    let divergence = |chance: f64| part(share, chance) + part(1.0 - share, 1.0 - chance);
    let (mut low, mut high) = (share, 1.0);
    for _ in 0..60 {
        let middle = low + (high - low) / 2.0;
        if count * divergence(middle) >= surprise { high = middle } else { low = middle }
    }
    high
}

/// The normal quantile, to 10⁻⁹.
pub(super) fn quantile(chance: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if normal_cdf(middle) >= chance { high = middle } else { low = middle }
    }
    (low + high) / 2.0
}
