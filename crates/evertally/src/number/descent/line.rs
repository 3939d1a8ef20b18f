//! The least value of a function of one variable.

/// A point between two ends where a function is least: on a grid of `places` points, then by golden sections of the
/// interval around the best of them, down to a length. For a function with one valley, or whose valley the grid finds.
pub(crate) fn minimise_between(
    low: f64,
    high: f64,
    places: u32,
    length: f64,
    mut function: impl FnMut(f64) -> f64,
) -> f64 {
    /// `(√5 - 1)/2`: of three sections in this proportion, two are reused in the next round.
    const SECTION: f64 = 0.618_033_988_749_894_8;
    let step = (high - low) / f64::from(places - 1);
    let grid = (0..places).map(|i| low + f64::from(i) * step);
    let best = grid.map(|x| (function(x), x)).min_by(|a, b| a.0.total_cmp(&b.0));
    let (mut least, mut place) = best.expect("the grid has points");
    let (mut left, mut right) = ((place - step).max(low), (place + step).min(high));
    let mut look = |x: f64| {
        let value = function(x);
        if value < least {
            (least, place) = (value, x);
        }
        value
    };
    let inner = |left: f64, right: f64| (right - SECTION * (right - left), left + SECTION * (right - left));
    let (mut near, mut far) = inner(left, right);
    let (mut at_near, mut at_far) = (look(near), look(far));
    while right - left > length {
        if at_near < at_far {
            (right, far, at_far) = (far, near, at_near);
            near = inner(left, right).0;
            at_near = look(near);
        } else {
            (left, near, at_near) = (near, far, at_far);
            far = inner(left, right).1;
            at_far = look(far);
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valleys_are_found() {
        for valley in [-1.9, 0.0, 0.3, 2.71, 4.999] {
            let found = minimise_between(-2.0, 5.0, 8, 1e-4, |x| (x - valley).abs());
            assert!((found - valley).abs() < 1e-4, "{found} {valley}");
        }
        // A second, smaller valley.
        let found = minimise_between(0.0, 10.0, 21, 1e-4, |x| (x - 7.1).powi(2).min(0.1 + (x - 2.0).powi(2)));
        assert!((found - 7.1).abs() < 1e-3, "{found}");
    }
}
