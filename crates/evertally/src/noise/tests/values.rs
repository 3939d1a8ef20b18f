//! Ratios: reduction, order, text and floating point.

use proptest::prelude::*;

use super::super::{DiscreteGaussian, DiscreteLaplace, DiscreteLaw, Geometric};
use super::ratio;
use crate::number::Ratio;

proptest! {
    #[test]
    fn ratios_are_reduced_and_read_back(n in 1..=u128::MAX, d in 1..=u128::MAX) {
        let value = Ratio::new(n, d).unwrap();
        // The same fraction: n · denominator = d · numerator, in big integers.
        let ((a, b), big) = (value.big(), num_bigint::BigUint::from);
        prop_assert_eq!(big(n) * b, big(d) * a);
        prop_assert_eq!(num_rational::Ratio::new(n, d).into_raw(), (value.numerator(), value.denominator()));
        prop_assert_eq!(value.to_string().parse::<Ratio>().unwrap(), value);
        let json = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(&json, &format!("\"{value}\""));
        prop_assert_eq!(serde_json::from_str::<Ratio>(&json).unwrap(), value);
    }

    #[test]
    fn order_is_that_of_the_values(
        a in 1..=u128::MAX, b in 1..=u128::MAX, c in 1..=u128::MAX, d in 1..=u128::MAX, s in 0..128u32,
    ) {
        let (c, d) = ((c >> s).max(1), (d >> s).max(1));
        let (left, right) = (Ratio::new(a, b).unwrap(), Ratio::new(c, d).unwrap());
        let big = num_bigint::BigUint::from;
        prop_assert_eq!(left.cmp(&right), (big(a) * d).cmp(&(big(c) * b)));
    }

    #[test]
    fn floats_are_taken_exactly(mantissa in 1..1u64 << 53, exponent in -75..75i32) {
        let value = mantissa as f64 * f64::from(exponent).exp2();
        let exact = Ratio::from_f64(value).unwrap();
        prop_assert_eq!(exact.to_f64(), value);
        prop_assert!(exact.denominator().is_power_of_two());
    }
}

#[test]
fn ratios_reject_what_they_must() {
    assert!(Ratio::new(0, 1).unwrap_err().is_invalid());
    assert!(Ratio::new(1, 0).unwrap_err().is_invalid());
    for text in ["", "/", "1/", "/1", "0", "0/1", "1/0", "-1", "+1", "1/+1", " 1", "1.5", "1/2/3", "1e3"] {
        assert!(text.parse::<Ratio>().unwrap_err().is_invalid(), "{text}");
    }
    // 2^128.
    assert!("340282366920938463463374607431768211456".parse::<Ratio>().is_err());
    for value in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0, 1e-300, 1e39, f64::MAX] {
        assert!(Ratio::from_f64(value).unwrap_err().is_invalid(), "{value}");
    }
    let largest = 127f64.exp2();
    assert_eq!(Ratio::from_f64(largest).unwrap(), Ratio::new(1 << 127, 1).unwrap());
    assert_eq!(ratio("14/4"), ratio("7/2"));
}

#[test]
fn laws_serialize_through_their_constructors() {
    let laws = [
        (DiscreteLaw::from(DiscreteLaplace::new(ratio("5/2")).unwrap()), r#"{"laplace":"5/2"}"#),
        (DiscreteLaw::from(DiscreteGaussian::new(ratio("200")).unwrap()), r#"{"gaussian":"200/1"}"#),
    ];
    for (law, json) in laws {
        assert_eq!(serde_json::to_string(&law).unwrap(), json);
        assert_eq!(serde_json::from_str::<DiscreteLaw>(json).unwrap(), law);
        let bytes = postcard::to_allocvec(&law).unwrap();
        assert_eq!(postcard::from_bytes::<DiscreteLaw>(&bytes).unwrap(), law);
    }
    for json in [r#"{"laplace":"0/1"}"#, r#"{"gaussian":"1/0"}"#, r#"{"cauchy":"1/1"}"#, r#"{"laplace":2}"#] {
        assert!(serde_json::from_str::<DiscreteLaw>(json).is_err(), "{json}");
    }
    assert!(serde_json::from_str::<DiscreteLaw>(&format!(r#"{{"laplace":"{}"}}"#, u128::MAX)).is_err());
}

#[test]
fn scales_are_limited_at_two_to_the_100() {
    let limit = Ratio::new(Geometric::MAX_SCALE, 1).unwrap();
    assert!(DiscreteLaplace::new(limit).is_ok() && Geometric::new(limit).is_ok());
    let above = Ratio::new(3 * Geometric::MAX_SCALE + 1, 3).unwrap();
    assert!(DiscreteLaplace::new(above).unwrap_err().is_invalid());
    assert!(Geometric::new(above).unwrap_err().is_invalid());
}
