use evertally_kernels::{
    Path,
    transform::{Real, Transform},
};
use std::time::Instant;
fn time(mut f: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let s = Instant::now();
        f();
        best = best.min(s.elapsed().as_nanos() as f64);
    }
    best
}
fn run<F: Real>(name: &str, path: Path) {
    for log in [6, 9, 10, 12] {
        let n = 1usize << log;
        let t = Transform::<F>::new(n);
        let stride = 16 * F::LANES;
        let rows: Vec<F> =
            (0..n / 2 * stride).map(|i| F::from_f64(((i * 7919) % 1013) as f64 / 1013.0 - 0.5)).collect();
        let mut out = rows.clone();
        let mut data = vec![vec![F::ZERO; t.numbers()]; 5];
        let filters = vec![[F::from_f64(0.3), F::from_f64(0.1)]; n];
        let reps = (1 << 18) / n;
        let per = (reps * n / 2 * 2 * F::LANES) as f64; // per real coordinate-step
        let fwd = time(|| {
            for r in 0..reps {
                t.forward_padded(path, &rows[(r % 8) * 2 * F::LANES..], stride, &mut data[r % 4]);
            }
        }) / per;
        let (sums, spectra) = data.split_at_mut(1);
        let sp: Vec<&[F]> = spectra.iter().map(|s| &s[..]).collect();
        let fl: Vec<&[[F; 2]]> = (0..4).map(|_| &filters[..]).collect();
        let mac = time(|| {
            for _ in 0..reps {
                t.multiply_add(path, &mut sums[0], &sp, &fl);
            }
        }) / per
            / 4.0;
        let mac1 = time(|| {
            for _ in 0..reps {
                t.multiply_add(path, &mut sums[0], &sp[..1], &fl[..1]);
            }
        }) / per;
        sums[0].fill(F::from_f64(0.25));
        let inv = time(|| {
            for r in 0..reps {
                t.inverse_half(path, &mut data[0], &mut out[(r % 8) * 2 * F::LANES..], stride);
                data[0].fill(F::from_f64(0.25));
            }
        }) / per;
        println!(
            "{name} {path:?} N={n}: forward_padded {fwd:.3} mac {mac:.3} mac1 {mac1:.3} inverse_half {inv:.3} ns/coordinate-step"
        );
    }
}
fn main() {
    for path in Path::available() {
        run::<f32>("f32", path);
        run::<f64>("f64", path);
    }
}
