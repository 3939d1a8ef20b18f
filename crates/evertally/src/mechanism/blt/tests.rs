//! BLT.
use super::*;
use std::time::Instant;

#[test]
fn show() {
    for (t, counts) in [(1024u64, 2..=6usize), (1 << 20, 3..=8)] {
        for normalized in [false, true] {
            for mean in [false, true] {
                for d in counts.clone() {
                    let start = Instant::now();
                    match Blt::optimised(t, d, normalized, mean) {
                        Ok(b) => println!(
                            "{t} {normalized} mean {mean} d {d}: max {:.5} mean {:.5} {:?} segs {} {}",
                            b.figure(false),
                            b.figure(true),
                            start.elapsed(),
                            b.constants.segments().len(),
                            b.columns.l2_squared
                        ),
                        Err(e) => println!("{t} {normalized} {mean} {d}: {e}"),
                    }
                }
            }
        }
    }
}
