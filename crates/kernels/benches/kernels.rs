//! Cost of the kernels on every path of this processor: `cargo bench -p evertally-kernels --bench kernels [-- PART]` prints the
//! rows whose name contains PART.
//!
//! Times are medians over short rounds: other work on the machine moves the median little.

use evertally_kernels::{BlockName, Cipher, Keystream, Path};
use std::hint::black_box;
use std::time::Instant;

/// Words, or values, in a buffer: it stays in the first-level cache.
const LENGTH: usize = 4096;

fn main() {
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    println!("{:24} {:>10} {:>10}", "kernel", "path", "ns/item");
    for path in Path::available() {
        let row = |kernel: &str, call: &mut dyn FnMut()| {
            if kernel.contains(&part) {
                println!("{kernel:24} {:>10} {:>10.3}", path.name(), nanoseconds(call) / LENGTH as f64);
            }
        };
        keystreams(path, &row);
    }
}

/// Per word of 32 bits.
fn keystreams(path: Path, row: &dyn Fn(&str, &mut dyn FnMut())) {
    for cipher in Cipher::ALL {
        let stream = Keystream::new(cipher, &[7; 32], path);
        let mut words = vec![0; LENGTH];
        let mut index = 0;
        row(&format!("keystream {cipher}"), &mut || {
            stream.fill(BlockName { level: 0, index }, 0, black_box(&mut words));
            index += 1;
        });
    }
}

/// The median time of a call.
fn nanoseconds(call: &mut dyn FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..1000)
        .map(|_| {
            let start = Instant::now();
            (0..20).for_each(|_| call());
            start.elapsed().as_nanos() as f64 / 20.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
