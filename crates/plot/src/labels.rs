//! Labels at the ends of lines.

/// Moves positions apart until labels of height `label` fit, in their order, between `low` and `high`.
pub(crate) fn apart(wished: &[f64], label: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wished.len()).collect();
    order.sort_by(|&a, &b| wished[a].total_cmp(&wished[b]));
    let mut places = wished.to_vec();
    let mut above = low - label;
    for &index in &order {
        places[index] = places[index].max(above + label);
        above = places[index];
    }
    let mut below = high + label;
    for &index in order.iter().rev() {
        places[index] = places[index].min(below - label);
        below = places[index];
    }
    places
}
