//! The vector lane's normal variables: a billion of them compared with the normal law, and neighbours compared with
//! each other. Levels: [`LEVEL`] = 10⁻⁹ per comparison, about 330 comparisons.
//!
//! The variables are those of [`Normals`], as `VectorNoise` uses them: names of blocks, ciphers, transforms and all.

use evertally_kernels::{BlockName, Cipher, InstructionSet, Normals};
use evertally_testkit::{LEVEL, chi_square, normal_cdf, normal_tail, poisson_tail};

/// Histogram cells per standard deviation, and the range of the histogram.
const CELLS: usize = 128;
const REACH: f64 = 8.0;
const LENGTH: usize = 2 * REACH as usize * CELLS;

/// Number of coordinates filled at once.
const CHUNK: usize = 1 << 16;

fn normals(cipher: Cipher, seed: u8) -> Normals {
    Normals::new(cipher, &[seed; 32], InstructionSet::best())
}

/// Counts in cells of equal width; the first and the last hold the tails.
struct Histogram {
    /// Eight of them in turn, so that equal cells in a row do not wait for each other.
    counts: Vec<[u64; 8]>,
    total: u64,
}

impl Histogram {
    fn new() -> Self {
        Self { counts: vec![[0; 8]; LENGTH], total: 0 }
    }

    fn add(&mut self, values: impl ExactSizeIterator<Item = f64>) {
        self.total += values.len() as u64;
        for (i, x) in values.enumerate() {
            // A negative number becomes 0: the first cell is the lower tail.
            let cell = ((x + REACH) * CELLS as f64) as usize;
            self.counts[cell.min(LENGTH - 1)][i % 8] += 1;
        }
    }

    /// (observed, expected) of every cell.
    fn cells(&self) -> Vec<(f64, f64)> {
        let edge = |cell: usize| cell as f64 / CELLS as f64 - REACH;
        let probability = |cell: usize| match cell {
            0 => normal_cdf(edge(1)),
            _ if cell == LENGTH - 1 => normal_cdf(-edge(cell)),
            // Differences of the smaller tail.
            _ if edge(cell) < 0.0 => normal_cdf(edge(cell + 1)) - normal_cdf(edge(cell)),
            _ => normal_cdf(-edge(cell)) - normal_cdf(-edge(cell + 1)),
        };
        let observed = |cell: usize| self.counts[cell].iter().sum::<u64>() as f64;
        (0..LENGTH).map(|cell| (observed(cell), self.total as f64 * probability(cell))).collect()
    }

    /// χ² of all cells, the Kolmogorov–Smirnov distance at their edges, and the counts far out.
    fn check(&self, what: &str) {
        let cells = self.cells();
        let p = chi_square(cells.iter().copied());
        assert!(p > LEVEL, "{what}: χ² has p = {p:e}");

        // P(sup |F_n − F| > d) ≤ 2 exp(−2 n d²) (Dvoretzky, Kiefer, Wolfowitz; Massart 1990).
        let (mut observed, mut expected, mut distance) = (0.0, 0.0, 0.0f64);
        for (o, e) in &cells {
            (observed, expected) = (observed + o, expected + e);
            distance = distance.max((observed - expected).abs());
        }
        let p = 2.0 * (-2.0 * distance * distance / self.total as f64).exp();
        assert!(p > LEVEL, "{what}: distance {distance} of {} draws has p = {p:e}", self.total);

        for beyond in [4, 5, 6] {
            let outside = (REACH as usize - beyond) * CELLS;
            let tails = [&cells[..outside], &cells[LENGTH - outside..]];
            for (tail, side) in tails.iter().zip(["below", "above"]) {
                let (observed, expected) = tail.iter().fold((0.0, 0.0), |sum, cell| (sum.0 + cell.0, sum.1 + cell.1));
                let p = poisson_tail(observed as u64, expected);
                assert!(p > LEVEL, "{what}: {observed} draws {side} {beyond}σ, {expected} expected: p = {p:e}");
            }
        }
    }
}

/// Draws this many f32 variables, half of them from many coordinates of few nodes and half from many nodes.
fn singles(cipher: Cipher, seed: u8, draws: u64) -> Histogram {
    let normals = normals(cipher, seed);
    let (mut histogram, mut values) = (Histogram::new(), vec![0.0f32; CHUNK]);
    for chunk in 0..draws / CHUNK as u64 {
        let (node, first) = if chunk % 2 == 0 { (7, chunk * CHUNK as u64) } else { (chunk, 12_345) };
        normals.fill_f32(BlockName { level: (chunk % 3) as u8, index: node }, first, &mut values);
        histogram.add(values.iter().map(|&x| f64::from(x)));
    }
    histogram
}

#[test]
fn a_billion_single_precision_normals_have_the_normal_law() {
    singles(Cipher::Aes128Ctr, 1, 1_000_000_000).check("aes-128-ctr, f32");
}

#[test]
fn normals_of_all_ciphers_and_precisions_have_the_normal_law() {
    for cipher in [Cipher::ChaCha8, Cipher::ChaCha20] {
        singles(cipher, 2, 50_000_000).check(&format!("{cipher}, f32"));
    }
    for cipher in Cipher::ALL {
        let normals = normals(cipher, 3);
        let (mut histogram, mut values) = (Histogram::new(), vec![0.0f64; CHUNK]);
        for chunk in 0..50_000_000 / CHUNK as u64 {
            normals.fill_f64(BlockName { level: 0, index: chunk % 5 }, chunk * CHUNK as u64, &mut values);
            histogram.add(values.iter().copied());
        }
        histogram.check(&format!("{cipher}, f64"));
    }
}

/// The mean product of two rows of variables and of their squares minus 1, as normal statistics.
fn correlations(a: &[f32], b: &[f32]) -> [f64; 2] {
    let (mut products, mut squares) = (0.0, 0.0);
    for (&x, &y) in a.iter().zip(b) {
        let (x, y) = (f64::from(x), f64::from(y));
        products += x * y;
        squares += (x * x - 1.0) * (y * y - 1.0);
    }
    let n = a.len().min(b.len()) as f64;
    // Var(x y) = 1 and Var((x² − 1)(y² − 1)) = 4.
    [products / n.sqrt(), squares / (2.0 * n.sqrt())]
}

#[test]
fn neighbours_are_independent() {
    const N: usize = 1 << 21;
    for cipher in Cipher::ALL {
        let normals = normals(cipher, 4);
        let row = |level, index, first| {
            let mut values = vec![0.0; N];
            normals.fill_f32(BlockName { level, index }, first, &mut values);
            values
        };
        let base = row(1, 1, 0);
        // Coordinates of one node, at the distances of blocks, lanes, groups and chunks.
        for lag in (1..=18).chain([31, 32, 48, 63, 64, 128, 255, 256, 257, 512, 1024, 4096, 65_536]) {
            for z in correlations(&base[lag..], &base) {
                assert!(normal_tail(z) > LEVEL, "{cipher}: coordinates {lag} apart: z = {z}");
            }
        }
        // Nodes whose names differ in one place, and the same node further on.
        let others = [(1, 2), (1, 0), (2, 1), (0, 1), (127, 1), (1, 1 << 32), (1, 1 << 63), (1, 257)];
        for (level, index) in others {
            for z in correlations(&row(level, index, 0), &base) {
                assert!(normal_tail(z) > LEVEL, "{cipher}: node {level}, {index}: z = {z}");
            }
        }
        for z in correlations(&row(1, 1, 1 << 40), &base) {
            assert!(normal_tail(z) > LEVEL, "{cipher}: 2^40 coordinates apart: z = {z}");
        }
    }
}

#[test]
fn another_key_gives_other_variables_and_the_same_key_the_same() {
    let fill = |seed| {
        let mut values = vec![0.0f32; CHUNK];
        normals(Cipher::Aes128Ctr, seed).fill_f32(BlockName { level: 0, index: 1 }, 0, &mut values);
        values
    };
    let (first, second) = (fill(5), fill(6));
    assert_eq!(first, fill(5));
    for z in correlations(&first, &second) {
        assert!(normal_tail(z) > LEVEL, "z = {z}");
    }
}
