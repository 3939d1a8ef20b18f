//! placeholder
use super::*;
#[test]
fn explore() {
    for t in [1u64, 2, 5, 100, 1024, 16384, 1 << 17] {
        for n in [4, 8, 12, 16] {
            let s = std::time::Instant::now();
            let f = OptimalFilter::solve(t, Some(n), false).unwrap();
            println!("{t} {} col-1={:e} fig={:.5} mean={:.5} slack/sqrt T-1={:e} {:.3}s", f.name(), f.columns.l2_squared-1.0,
                f.columns.l2_squared*f.row_norms.max(), f.columns.l2_squared*f.row_norms.mean(), f.slack/(t as f64).sqrt()-1.0, s.elapsed().as_secs_f64());
        }
    }
}
