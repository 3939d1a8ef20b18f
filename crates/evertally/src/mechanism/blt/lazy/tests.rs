use super::super::Blt;
use crate::mechanism::Mechanism;
use super::super::tests::*;

#[test]
fn speed() {
    for normalized in [false, true] {
        for d in [1,3,4,5,7] {
        let blt = Blt::optimised(1<<20, d, normalized, false).unwrap();
        let t0 = std::time::Instant::now();
        let lazy = blt.lazy();
        println!("build {:?} segments {}", t0.elapsed(), lazy.stages.len());
        for gap in [1u64, 2, 3, 4, 8, 20, 100, 1000, 30000,300000] {
            let mut x = 1u64;
            let mut total = 0;
            let mut draws = 0u64;
            let mut sink = 0.0;
            let t0 = std::time::Instant::now();
            while total < 20000 {
                let mut state = [0.0; 9];
                let mut t = (x >> 40) % gap;
                while t + 2 * gap < 1 << 20 && total < 20000 {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let to = t + gap.div_ceil(2) + (x >> 40) % gap;
                    lazy.skip(&mut state, t, to, || { draws += 1; x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407); (x >> 12) as f64 * 2f64.powi(-51) - 1.0 });
                    sink += lazy.noise(&state);
                    t = to;
                    total += 1;
                }
            }
            println!("normalized {normalized} d {d} gap {gap}: {:?} ns {:.2} draws {sink:.1}", t0.elapsed().as_nanos() / total, draws as f64 / total as f64);
        }
    }}
}
