use super::*;

/// A stand-in for innovations: multiples of 2^-20 in [-1, 1), the same in every type, from a mixture of node and
/// coordinate.
fn innovation(node: u64, coordinate: u64) -> f64 {
    let mut x = node.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ coordinate.wrapping_mul(0xD1B5_4A32_D192_ED03);
    x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 32)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x >> 43) as f64 - f64::from(1 << 20)) / f64::from(1 << 20)
}

fn draw<F: Real>(node: u64, first: u64, out: &mut [F]) {
    for (coordinate, x) in (first..).zip(out) {
        *x = F::of(innovation(node, coordinate));
    }
}

/// All kinds of responses: sums, increments, a short series and scaled steps.
fn responses(horizon: u64) -> Vec<Response> {
    let f: Vec<f64> = (0..horizon)
        .scan(1.0, |f, j| {
            *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
            Some(*f)
        })
        .collect();
    let r: Vec<f64> = f.iter().enumerate().map(|(j, f)| if j == 0 { 1.0 } else { -f / (2 * j - 1) as f64 }).collect();
    let scales: Vec<f64> = (0..horizon).map(|t| (1.0 + (horizon - t) as f64 / 50.0).sqrt()).collect();
    let short = r.iter().enumerate().map(|(j, r)| if j < 5 { *r } else { 0.0 }).collect();
    vec![
        Response::new(f, None),
        Response::new(r.clone(), None).times(3.0),
        Response::new(short, None),
        Response::new(r, Some(scales)),
    ]
}

/// The noise of one coordinate by the definition, in `f64`.
fn direct(response: &Response, coordinate: u64) -> Vec<f64> {
    let z: Vec<f64> = (0..response.horizon()).map(|node| innovation(node, coordinate)).collect();
    let step = |t: usize| {
        let u: f64 = response.series().iter().take(t + 1).zip(z[..=t].iter().rev()).map(|(c, z)| c * z).sum();
        response.scales().map_or(u, |scales| scales[t] * u)
    };
    (0..z.len()).map(step).collect()
}

/// All rows, concatenated.
fn all<F: Real>(
    filter: &Arc<ResponseFilter<F>>,
    range: Range<u64>,
    at_once: u64,
    instructions: InstructionSet,
    threads: usize,
) -> Vec<F> {
    let mut blocks = Blocks::new(filter.clone(), range.clone(), at_once, instructions).unwrap();
    (0..filter.horizon()).flat_map(|step| row(&mut blocks, step, &range, threads)).collect()
}

fn row<F: Real>(blocks: &mut Blocks<F>, step: u64, range: &Range<u64>, threads: usize) -> Vec<F> {
    blocks.prepare(step, &draw, threads);
    let mut row = vec![F::default(); (range.end - range.start) as usize];
    blocks.copy_row(step, range.start, &mut row);
    row
}

fn filter<F: Real>(response: &Response) -> Arc<ResponseFilter<F>> {
    Arc::new(ResponseFilter::new(response, InstructionSet::best()).unwrap())
}

fn error_of<F: Real + Into<f64>>(response: &Response, range: Range<u64>) -> f64 {
    let filter = filter::<F>(response);
    let found = all(&filter, range.clone(), 100, InstructionSet::best(), 1);
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
                assert!(single < 3e-7, "{horizon} {which}: {single:e}");
                assert!(double < 2e-15, "{horizon} {which}: {double:e}");
            }
        }
    }
}

/// With blocks longer than the shortest, and parts that no longer contribute.
#[test]
fn long_noise_is_that_of_the_definition() {
    let response = &responses(10_000)[0];
    let (single, double) = (error_of::<f32>(response, 40..42), error_of::<f64>(response, 40..42));
    assert!(single < 3e-7 && double < 1e-14, "{single:e} {double:e}");
}

/// The rounding errors of increments add up to no more than a random walk: the sums of increments are small
/// because they cancel.
#[test]
fn sums_of_increments_keep_their_digits() {
    const STEPS: u64 = 1 << 14;
    let responses = responses(STEPS);
    for response in [&responses[1], &responses[3]] {
        let (mut wrong, mut norm) = (0.0, 0.0);
        let single = all(&filter::<f32>(response), 64..96, 1 << 12, InstructionSet::best(), 1);
        let double = all(&filter::<f64>(response), 64..96, 1 << 12, InstructionSet::best(), 1);
        let (mut sums, mut exact) = ([0.0; 32], [0.0; 32]);
        for (single, double) in single.as_chunks::<32>().0.iter().zip(double.as_chunks::<32>().0) {
            for c in 0..32 {
                sums[c] += f64::from(single[c]);
                exact[c] += double[c];
                wrong += (sums[c] - exact[c]).powi(2);
                norm += exact[c].powi(2);
            }
        }
        let error = (wrong / norm).sqrt();
        assert!(error < 1e-5, "{error:e}");
    }
}

/// The bytes of numbers.
fn bytes<F: Real>(numbers: &[F]) -> Vec<u8> {
    let mut bytes = vec![];
    F::append_all(numbers, &mut bytes);
    bytes
}

fn settings_change_nothing<F: Real>() {
    let horizon = 333;
    for response in responses(horizon) {
        let filter = filter::<F>(&response);
        let all_of_it = all(&filter, 0..600, 1, InstructionSet::PORTABLE, 1);
        let expected = bytes(&all_of_it);
        for instructions in InstructionSet::available() {
            let filter = Arc::new(ResponseFilter::<F>::new(&response, instructions).unwrap());
            assert!(bytes(&all(&filter, 0..600, 1, instructions, 1)) == expected, "{instructions:?}");
        }
        for (at_once, threads) in [(64, 2), (100, 1), (200, 3), (1 << 40, 2)] {
            let found = bytes(&all(&filter, 0..600, at_once, InstructionSet::best(), threads));
            assert!(found == expected, "{at_once} at once, {threads} threads");
        }
        for range in [0..1, 17..18, 31..33, 100..301, 255..257, 590..600] {
            let found = bytes(&all(&filter, range.clone(), 128, InstructionSet::best(), 1));
            let slice = range.start as usize..range.end as usize;
            let expected: Vec<F> = all_of_it.chunks(600).flat_map(|row| row[slice.clone()].to_vec()).collect();
            assert!(found == bytes(&expected), "{range:?}");
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
        let expected = all(&filter, 3..40, 64, InstructionSet::best(), 1);
        let mut blocks = Blocks::new(filter, 3..40, 64, InstructionSet::best()).unwrap();
        for step in [299, 0, 130, 131, 64, 63, 200, 201, 64, 299, 0] {
            let found = row(&mut blocks, step, &(3..40), 1);
            assert_eq!(bytes(&found), bytes(&expected[step as usize * 37..][..37]), "step {step}");
        }
    }
}

#[test]
fn any_part_of_a_row_can_be_had() {
    let filter = filter::<f32>(&responses(40)[0]);
    let mut blocks = Blocks::new(filter, 20..600, 1, InstructionSet::best()).unwrap();
    let whole = row(&mut blocks, 39, &(20..600), 1);
    for range in [20..20, 20..21, 31..33, 100..513, 512..600] {
        let slice = range.start as usize - 20..range.end as usize - 20;
        assert_eq!(row(&mut blocks, 39, &range, 1), whole[slice], "{range:?}");
    }
}

#[test]
fn passes_are_as_long_as_memory_lets_them() {
    assert_eq!(at_once::<f32>(Memory::Recompute, 7), 0);
    assert_eq!(at_once::<f32>(Memory::Keep, 1 << 20), 256);
    assert_eq!(at_once::<f64>(Memory::Keep, 1 << 20), 128);
    let blocks =
        |at_once| Blocks::new(filter::<f32>(&responses(1000)[0]), 0..32, at_once, InstructionSet::best()).unwrap();
    for (asked, given) in [(0, 64), (64, 64), (191, 128), (1 << 40, 1024)] {
        assert_eq!((blocks(asked).at_once(), blocks(asked).memory_bytes()), (given, 32 * 4 * given as usize));
    }
}

#[test]
fn what_cannot_be_computed_is_refused() {
    let too_large = |response| ResponseFilter::<f64>::new(&response, InstructionSet::best()).is_err();
    assert!(too_large(Response::new(vec![1e30; 3], None)));
    assert!(too_large(Response::new(vec![1e15; 3], Some(vec![1e15; 3]))));
    assert!(too_large(Response::new(vec![1.0, f64::NAN, 2.0], None)));
    assert!(too_large(Response::new(vec![1.0; 2], Some(vec![1.0, f64::NAN]))));
    let endless = Blocks::new(filter::<f32>(&responses(40)[0]), 0..1 << 45, 1, InstructionSet::best());
    assert!(endless.err().unwrap().to_string().contains("128 bytes"));
}

/// FNV-1a over the bytes of all rows.
fn digest<F: Real>(response: &Response) -> u64 {
    // A number takes 8 bytes, so numbers of 4 bytes are padded with 0.
    let numbers = all(&filter::<F>(response), 0..40, 64, InstructionSet::best(), 1);
    let wide = bytes(&numbers)
        .chunks(F::BITS as usize / 8)
        .flat_map(|b| [b, &[0; 4][..(8 - b.len()).min(4)]].concat())
        .collect::<Vec<_>>();
    wide.into_iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Changing these numbers changes the noise of running streams.
#[test]
fn bytes_are_frozen() {
    let found: Vec<[u64; 2]> = responses(333).iter().map(|r| [digest::<f32>(r), digest::<f64>(r)]).collect();
    let frozen = [
        [0xB0ED_F07D_B2D2_F3B2, 0xB2AF_D6DD_9B7F_1BA6],
        [0x7A5B_A5EA_BE98_7C48, 0x6859_0BD9_3787_35C9],
        [0x60F6_A810_1536_12DA, 0xB470_4A0B_00FF_717A],
        [0xA6EE_C1BE_0391_E170, 0xA5B1_7D5B_7EF5_1A97],
    ];
    assert_eq!(found, frozen, "{found:#X?}");
}
