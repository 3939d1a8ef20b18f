use super::*;

#[test]
#[ignore]
fn explore() {
    for mean in [false, true] {
        for horizon in [1u64, 2, 3, 16, 256, 1024, 2048, 4096] {
            let start = std::time::Instant::now();
            let weights = Weights::optimal(horizon as usize, mean);
            let a = start.elapsed();
            let factor = Factor::of(&weights);
            let b = start.elapsed();
            let m = DenseOptimum::solve(horizon, mean).unwrap();
            let min = (0..horizon as usize).flat_map(|t| factor.row(t)).fold(9.0, f64::min);
            println!(
                "{} {horizon} {:?} gap {:e} {a:?} {b:?} {:?} poles {} min {min} s2 {} {}",
                m.name(),
                m.certificate(),
                m.certificate().gap(),
                start.elapsed(),
                weights.poles.len(),
                m.column_norms.l2_squared,
                m.l2_squared as f64 * m.noise_unit().powi(2)
            );
        }
    }
}
