//! Cost of the kernels on every instruction set of this processor:
//! `cargo bench -p evertally-kernels --bench kernels [-- PART]` prints the rows whose name contains PART.
//!
//! Times are medians over short rounds: other work on the machine hardly moves the median.

use evertally_kernels::transform::{LaneTransform, multiply_add};
use evertally_kernels::{BlockName, Cipher, FirstBlocks, InstructionSet, Keystream, Real};
use std::hint::black_box;
use std::time::Instant;

/// Words, or values, in a buffer: it stays in the first-level cache.
const LENGTH: usize = 4096;

/// Times a kernel with a name that processes this many items per call.
type Row<'a> = dyn Fn(&str, usize, &mut dyn FnMut()) + 'a;

fn main() {
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    println!("{:24} {:>10} {:>10}", "kernel", "instructions", "ns/item");
    for instructions in InstructionSet::available() {
        let row = |kernel: &str, items: usize, call: &mut dyn FnMut()| {
            if kernel.contains(&part) {
                println!("{kernel:24} {:>10} {:>10.3}", instructions.name(), nanoseconds(call) / items as f64);
            }
        };
        keystreams(instructions, &row);
        transforms::<f32>(instructions, &row);
        transforms::<f64>(instructions, &row);
    }
}

/// Per word of 32 bits; the first blocks of nodes per block.
fn keystreams(instructions: InstructionSet, row: &Row) {
    for cipher in Cipher::ALL {
        let stream = Keystream::new(cipher, &[7; 32], instructions);
        let mut words = vec![0; LENGTH];
        let mut index = 0;
        row(&format!("keystream {cipher}"), LENGTH, &mut || {
            stream.fill(BlockName { level: 0, index }, 0, black_box(&mut words));
            index += 1;
        });
    }
    let (mut blocks, mut names) = (FirstBlocks::default(), std::array::from_fn(|i| (i as u32, i as u64)));
    row("first blocks", names.len(), &mut || {
        names.iter_mut().for_each(|(_, index)| *index += 1);
        blocks.compute(instructions, black_box(&[7; 8]), black_box(&names));
        black_box(&blocks);
    });
}

/// The parts of noise in blocks of steps, each per real number of a block.
fn transforms<F: Real>(instructions: InstructionSet, row: &Row) {
    for block in [64, 256, 2048] {
        let transform = LaneTransform::<F>::new(2 * block);
        let stride = 2 * F::LANES;
        let items = block * stride;
        let mut rows = vec![F::of(0.25); items];
        let mut spectrum = vec![F::of(0.25); transform.numbers()];
        row(&format!("forward f{} {block}", F::BITS), items, &mut || {
            transform.forward_padded(instructions, black_box(&rows), stride, &mut spectrum);
        });
        let spectra = vec![spectrum.clone(); 4];
        let spectra: Vec<&[F]> = spectra.iter().map(Vec::as_slice).collect();
        let factors = vec![[F::of(0.1), F::of(0.2)]; 2 * block];
        row(&format!("product f{} {block}", F::BITS), 4 * items, &mut || {
            spectrum.fill(F::default());
            multiply_add(instructions, black_box(&mut spectrum), &spectra, &[factors.as_slice(); 4]);
        });
        row(&format!("inverse f{} {block}", F::BITS), items, &mut || {
            spectrum.fill(F::of(0.5));
            transform.inverse_half(instructions, &mut spectrum, black_box(&mut rows), stride);
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
