//! The quantile function of the normal law in double precision: M. Wichura's AS 241 (Applied Statistics 37, 1988),
//! relative error about 10⁻¹⁶. Additions, multiplications, divisions, square roots and one portable logarithm: the same
//! bits give the same number on every machine.

/// The x > 0 with P(Z > x) = (`words` + (`bits` + ½) / 2¹²⁸) / 2^`exponent`, which is at most 0.075.
pub(crate) fn of_long_word(words: u64, bits: u128, exponent: i32) -> f64 {
    in_the_tail((words as f64 + (bits as f64 + 0.5) * power(-128)) * power(-exponent))
}

/// 2^`exponent`, in the range of normal numbers.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The quantile at ½ + `centred`, which is at most 0.425 in size.
///
/// ```
/// assert!((evertally_kernels::quantile::near_the_middle(0.25) - 0.6744897501960817).abs() < 1e-15);
/// ```
#[inline]
pub fn near_the_middle(centred: f64) -> f64 {
    let [numerator, denominator] = MIDDLE.map(|row| horner(row, 0.180625 - centred * centred));
    centred * numerator / denominator
}

/// The quantile at 1 − `tail`, 10⁻³⁰⁰ < `tail` < 0.075.
///
/// ```
/// assert!((evertally_kernels::quantile::in_the_tail(0.05) - 1.6448536269514722).abs() < 2e-15);
/// ```
pub fn in_the_tail(tail: f64) -> f64 {
    let r = libm::sqrt(-libm::log(tail));
    let (x, rows) = if r <= 5.0 { (r - 1.6, NEAR) } else { (r - 5.0, FAR) };
    let [numerator, denominator] = rows.map(|row| horner(row, x));
    numerator / denominator
}

#[inline]
fn horner(coefficients: [f64; 8], x: f64) -> f64 {
    coefficients.into_iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// Numerator and denominator of a rational function, the constants first.
pub type Rational = [[f64; 8]; 2];

const MIDDLE: Rational = [
    [
        3.387_132_872_796_366_5,
        1.331_416_678_917_843_8e2,
        1.971_590_950_306_551_3e3,
        1.373_169_376_550_946e4,
        4.592_195_393_154_987e4,
        6.726_577_092_700_87e4,
        3.343_057_558_358_813e4,
        2.509_080_928_730_122_7e3,
    ],
    [
        1.0,
        4.231_333_070_160_091e1,
        6.871_870_074_920_579e2,
        5.394_196_021_424_751e3,
        2.121_379_430_158_659_7e4,
        3.930_789_580_009_271e4,
        2.872_908_573_572_194_3e4,
        5.226_495_278_852_854e3,
    ],
];

/// The function of `sqrt(-log(tail)) - 1.6`, up to 5, in the tail.
pub const NEAR: Rational = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        2.417_807_251_774_506e-1,
        2.272_384_498_926_918_4e-2,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        6.897_673_349_851e-1,
        1.481_039_764_274_800_8e-1,
        1.519_866_656_361_645_7e-2,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];

/// The function of `sqrt(-log(tail)) - 5`, beyond 5, in the tail.
pub const FAR: Rational = [
    [
        6.657_904_643_501_103,
        5.463_784_911_164_114,
        1.784_826_539_917_291_3,
        2.965_605_718_285_048_7e-1,
        2.653_218_952_657_612_4e-2,
        1.242_660_947_388_078_4e-3,
        2.711_555_568_743_487_6e-5,
        2.010_334_399_292_288_1e-7,
    ],
    [
        1.0,
        5.998_322_065_558_88e-1,
        1.369_298_809_227_358e-1,
        1.487_536_129_085_061_5e-2,
        7.868_691_311_456_133e-4,
        1.846_318_317_510_054_7e-5,
        1.421_511_758_316_446e-7,
        2.044_263_103_389_939_8e-15,
    ],
];
