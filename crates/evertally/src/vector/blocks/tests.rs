use super::*;

/// A stand-in for innovations: multiples of 2^-20 in [-1, 1), the same in every type, from a mixture of node and coordinate.
fn innovation(node: u64, coordinate: u64) -> f64 {
    let mut x = node.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ coordinate.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x >> 43) as f64 - f64::from(1 << 20)) / f64::from(1 << 20)
}

fn draw<F: Real>(node: u64, first: u64, out: &mut [F]) {
    for (coordinate, x) in (first..).zip(out) {
        *x = F::from_f64(innovation(node, coordinate));
    }
}

/// All responses there are: sums, increments, a short series, scaled steps and their running sums.
fn responses(horizon: u64) -> Vec<Response> {
    let f: Vec<f64> = (0..horizon)
        .scan(1.0, |f, j| {
            *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
            Some(*f)
        })
        .collect();
    let r: Vec<f64> = f.iter().enumerate().map(|(j, f)| if j == 0 { 1.0 } else { -f / (2 * j - 1) as f64 }).collect();
    let scales: Vec<f64> = (0..horizon).map(|t| (1.0 + (horizon - t) as f64 / 50.0).sqrt()).collect();
    let short = r[..r.len().min(5)].to_vec();
    vec![
        Response::toeplitz(horizon, f).unwrap(),
        Response::toeplitz(horizon, r.clone()).unwrap().times(3.0),
        Response::toeplitz(horizon, short).unwrap(),
        Response::scaled_steps(r.clone(), scales.clone(), false).unwrap(),
        Response::scaled_steps(r, scales, true).unwrap(),
    ]
}

/// The noise of one coordinate by the definition, in `f64`.
fn direct(response: &Response, coordinate: u64) -> Vec<f64> {
    let z: Vec<f64> = (0..response.horizon()).map(|node| innovation(node, coordinate)).collect();
    let mut total = 0.0;
    let step = |t: usize| {
        let u: f64 = response.series().iter().take(t + 1).zip(z[..=t].iter().rev()).map(|(c, z)| c * z).sum();
        let v = response.scales().map_or(u, |scales| scales[t] * u);
        total += v;
        if response.running() { total } else { v }
    };
    (0..z.len()).map(step).collect()
}

/// All rows, one behind the other.
fn all<F: Real>(filter: &Arc<Filter<F>>, range: Range<u64>, at_once: u64, path: Path, threads: usize) -> Vec<F> {
    let mut blocks = Blocks::new(filter.clone(), range, at_once, path).unwrap();
    let mut rows = Vec::new();
    for step in 0..filter.horizon() {
        blocks.prepare(step, &draw, threads).unwrap();
        rows.extend(blocks.pieces(step, blocks.range()).flat_map(|(_, piece)| piece.to_vec()));
    }
    rows
}

fn filter<F: Real>(response: &Response) -> Arc<Filter<F>> {
    Arc::new(Filter::new(response, Path::best()).unwrap())
}

fn error_of<F: Real + Into<f64>>(response: &Response, range: Range<u64>) -> f64 {
    let filter = filter::<F>(response);
    let found = all(&filter, range.clone(), 100, Path::best(), 1);
    let width = (range.end - range.start) as usize;
    assert_eq!(found.len(), width * filter.horizon() as usize);
    let (mut wrong, mut norm) = (0.0, 0.0);
    for (c, coordinate) in range.enumerate() {
        for (t, expected) in direct(response, coordinate).into_iter().enumerate() {
            let error: f64 = found[t * width + c].into() - expected;
            wrong += error * error;
            norm += expected * expected;
        }
    }
    (wrong / norm).sqrt()
}

#[test]
fn the_noise_is_that_of_the_definition() {
    for horizon in [1, 2, 31, 32, 33, 100, 300] {
        for (which, response) in responses(horizon).iter().enumerate() {
            for range in [0..1, 5..70, 250..262] {
                let (single, double) = (error_of::<f32>(response, range.clone()), error_of::<f64>(response, range));
                let sums = if response.running() { (horizon as f64).sqrt() } else { 1.0 };
                assert!(single < 3e-7 * sums, "{horizon} {which}: {single:e}");
                assert!(double < 2e-15 * sums, "{horizon} {which}: {double:e}");
            }
        }
    }
}

/// With blocks longer than the shortest, and parts that are not heard any more.
#[test]
fn long_noise_is_that_of_the_definition() {
    let response = &responses(10_000)[0];
    let (single, double) = (error_of::<f32>(response, 40..42), error_of::<f64>(response, 40..42));
    assert!(single < 3e-7 && double < 1e-14, "{single:e} {double:e}");
}

trait Bits: Real {
    fn bits(self) -> u64;
}
impl Bits for f32 {
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}
impl Bits for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

fn bits<F: Bits>(numbers: &[F]) -> Vec<u64> {
    numbers.iter().map(|x| x.bits()).collect()
}

fn settings_change_nothing<F: Bits>() {
    let horizon = 333;
    for response in responses(horizon) {
        let filter = filter::<F>(&response);
        let expected = bits(&all(&filter, 0..600, 1, Path::PORTABLE, 1));
        for path in Path::available() {
            let filter = Arc::new(Filter::<F>::new(&response, path).unwrap());
            assert!(bits(&all(&filter, 0..600, 1, path, 1)) == expected, "{path:?}");
        }
        for (at_once, threads) in [(64, 2), (100, 1), (200, 3), (1 << 40, 2)] {
            let found = bits(&all(&filter, 0..600, at_once, Path::best(), threads));
            assert!(found == expected, "{at_once} at once, {threads} threads");
        }
        for range in [0..1, 17..18, 31..33, 100..301, 255..257, 590..600] {
            let found = bits(&all(&filter, range.clone(), 128, Path::best(), 1));
            let slice = range.start as usize..range.end as usize;
            let expected: Vec<u64> = expected.chunks(600).flat_map(|row| row[slice.clone()].to_vec()).collect();
            assert!(found == expected, "{range:?}");
        }
    }
}

#[test]
fn no_setting_changes_a_bit() {
    settings_change_nothing::<f32>();
    settings_change_nothing::<f64>();
}

#[test]
fn any_step_can_be_prepared_at_any_time() {
    for response in responses(300) {
        let filter = filter::<f32>(&response);
        let expected = bits(&all(&filter, 3..40, 64, Path::best(), 1));
        let mut blocks = Blocks::new(filter, 3..40, 64, Path::best()).unwrap();
        for step in [299, 0, 130, 131, 64, 63, 200, 201, 64, 299, 0] {
            blocks.prepare(step, &draw, 1).unwrap();
            let found: Vec<f32> = blocks.pieces(step, blocks.range()).flat_map(|(_, piece)| piece.to_vec()).collect();
            assert_eq!(bits(&found), &expected[step as usize * 37..][..37], "step {step}");
        }
    }
}

#[test]
fn a_row_is_added_to_what_is_there() {
    let response = &responses(40)[0];
    let filter = filter::<f32>(response);
    let rows = all(&filter, 20..600, 1, Path::best(), 1);
    let mut blocks = Blocks::new(filter, 20..600, 1, Path::best()).unwrap();
    blocks.prepare(39, &draw, 1).unwrap();
    let mut sums: Vec<f32> = (0..580).map(|c| c as f32).collect();
    blocks.add_row(39, 20, &mut sums);
    for (c, (sum, noise)) in sums.iter().zip(&rows[39 * 580..]).enumerate() {
        assert_eq!(*sum, c as f32 + noise);
    }
    for range in [20..20, 20..21, 31..33, 100..513, 512..600] {
        let slice = range.start as usize - 20..range.end as usize - 20;
        let mut sums = vec![0.0; slice.len()];
        blocks.add_row(39, range.start, &mut sums);
        assert_eq!(sums, rows[39 * 580..][slice], "{range:?}");
    }
}

#[test]
fn what_cannot_be_computed_is_refused() {
    assert!(Response::toeplitz(3, vec![1.0; 4]).is_err());
    assert!(Response::toeplitz(3, vec![]).is_err());
    assert!(Response::scaled_steps(vec![1.0; 4], vec![1.0; 3], true).is_err());
    let loud = Response::toeplitz(3, vec![1e38]).unwrap();
    assert!(Filter::<f32>::new(&loud, Path::best()).is_err());
    let nothing = Response::scaled_steps(vec![1.0, f64::NAN, 2.0], vec![1.0; 3], true).unwrap();
    assert!(Filter::<f64>::new(&nothing, Path::best()).is_err());
    let response = &responses(40)[0];
    assert!(Blocks::new(filter::<f32>(response), 5..5, 1, Path::best()).is_err());
    let endless = Blocks::new(filter::<f32>(response), 0..1 << 45, 1, Path::best());
    assert!(endless.err().unwrap().to_string().contains("128 bytes"));
    assert!(Blocks::new(filter::<f32>(response), 5..u64::MAX, 1, Path::best()).is_err());
    let mut blocks = Blocks::new(filter::<f32>(response), 0..5, 1, Path::best()).unwrap();
    assert!(blocks.prepare(40, &draw, 1).is_err());
}

/// FNV-1a over the bytes of all rows.
fn digest<F: Bits>(response: &Response) -> u64 {
    let numbers = bits(&all(&filter::<F>(response), 0..40, 64, Path::best(), 1));
    let bytes = numbers.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Whoever changes these numbers changes the noise of streams that are running.
#[test]
fn bytes_are_frozen() {
    let found: Vec<[u64; 2]> = responses(333).iter().map(|r| [digest::<f32>(r), digest::<f64>(r)]).collect();
    let frozen = [
        [0xB0ED_F07D_B2D2_F3B2, 0xB2AF_D6DD_9B7F_1BA6],
        [0x7A5B_A5EA_BE98_7C48, 0x6859_0BD9_3787_35C9],
        [0x60F6_A810_1536_12DA, 0xB470_4A0B_00FF_717A],
        [0xA6EE_C1BE_0391_E170, 0xA5B1_7D5B_7EF5_1A97],
        [0x0136_0DC3_ED3B_8EDE, 0xB9A7_BBC6_DA77_2A3E],
    ];
    assert_eq!(found, frozen, "{found:#X?}");
}
