use super::*;
use std::time::Instant;
#[test]
#[ignore]
fn whole() {
    let horizons: Vec<u64> = std::env::var("T").unwrap().split(',').map(|x|x.parse().unwrap()).collect();
    for horizon in horizons {
        for mean in [true, false] {
            if std::env::var("ONLY").is_ok_and(|o| (o=="mean")!=mean) {continue}
            let t = Instant::now();
            let verbose = std::env::var("V").is_ok();
            let mut last = 0.0;
            let found = PureOptimum::search(horizon, mean, &mut |best, done| if verbose && done-last>0.03 {last=done; println!("  {done:.3} {best:.4} {:.1}s", t.elapsed().as_secs_f64())}).unwrap();
            let s1 = found.column_norms().l1;
            println!("{horizon},{},{:.4},{:.4},{},{:.1}", if mean {"mean"} else {"max"}, 2.0*s1*s1*found.mean_row_norm_squared(), 2.0*s1*s1*found.max_row_norm_squared(), found.shape.bumps.len(), t.elapsed().as_secs_f64());
            if let Ok(d)=std::env::var("DUMP") { std::fs::write(format!("{d}/{horizon}_{mean}.bin"), found.to_bytes()).unwrap();
              let rows: Vec<String> = std::iter::once((0,found.shape.diagonal.clone())).chain(found.shape.bumps.iter().map(|b|(b.first as usize,b.weights.iter().map(|w|*w as u32).collect()))).map(|(f,w):(usize,Vec<u32>)|format!("{f} {}",w.iter().map(|x|x.to_string()).collect::<Vec<_>>().join(" "))).collect();
              std::fs::write(format!("{d}/{horizon}_{mean}.txt"), rows.join("\n")).unwrap(); }
        }
    }
}
