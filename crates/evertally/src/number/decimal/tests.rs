use super::*;
use proptest::prelude::*;

fn grid(text: &str) -> Grid {
    text.parse().unwrap()
}

#[test]
fn reads_what_is_on_the_grid_exactly() {
    for (text, step, expected) in [
        ("0.1", "0.01", 10),
        ("0.3", "0.1", 3),
        ("1.10", "0.01", 110),
        ("-12.34", "0.01", -1234),
        ("+7", "1", 7),
        (".5", "0.5", 1),
        ("5.", "5", 1),
        ("0.75", "0.25", 3),
        ("1e3", "1", 1000),
        ("1.5E-2", "0.005", 3),
        (" 42 ", "1", 42),
        ("-0", "1", 0),
        ("000000000000000000000000000000000000000000000000000012", "1", 12),
        ("0.1000000000000000000000000000000000000000000000000000", "0.1", 1),
        ("9223372036854775807", "1", i64::MAX),
        ("-9223372036854775808", "1", i64::MIN),
        ("1e18", "1000000000000", 1_000_000),
    ] {
        assert_eq!(parse_scaled(text, grid(step)), Ok(expected), "{text} on {step}");
    }
}

#[test]
fn rounds_half_to_even_where_the_text_is_finer() {
    for (text, step, expected) in [
        ("0.5", "1", 0),
        ("1.5", "1", 2),
        ("2.5", "1", 2),
        ("-2.5", "1", -2),
        ("-1.5", "1", -2),
        ("2.500000000000000000000000000000000000000000000000000000001", "1", 3),
        ("0.1000000000000000055511151231257827021181583404541015625", "0.01", 10),
        ("7.5", "5", 2),
        ("12.5", "5", 2),
        ("1e-400", "1", 0),
        ("4.9e-1", "1", 0),
    ] {
        assert_eq!(parse_scaled(text, grid(step)), Ok(expected), "{text} on {step}");
    }
}

#[test]
fn floor_goes_down_on_both_sides_of_zero() {
    for (text, expected) in
        [("1.9", 1), ("-1.1", -2), ("-1", -1), ("-1e-300", -1), ("1e-300", 0), ("-1.5e-99999999999999999999", -1)]
    {
        assert_eq!(parse_rounded(text, Grid::ONE, Rounding::Floor), Ok(expected), "{text}");
    }
}

#[test]
fn refuses_what_is_no_number() {
    for text in ["", " ", "-", ".", "abc", "1,5", "1_000", "0x10", "1e", "1e+", "e5", "--1", "1.2.3", "1 2", "١"] {
        assert_eq!(parse_scaled(text, Grid::ONE), Err(DecimalError::NotANumber), "{text:?}");
    }
    for text in ["NaN", "nan", "inf", "-Infinity", "+INF"] {
        assert_eq!(parse_scaled(text, Grid::ONE), Err(DecimalError::NotFinite), "{text:?}");
    }
    let long = "9".repeat(200);
    for text in ["9223372036854775808", "-9223372036854775809", "1e19", "1e999999999999999999999", long.as_str()] {
        assert_eq!(parse_scaled(text, Grid::ONE), Err(DecimalError::Overflow), "{text:?}");
    }
    assert_eq!(parse_scaled("1e17", grid("0.01")), Err(DecimalError::Overflow));
}

#[test]
fn floats_are_read_by_their_shortest_text() {
    assert_eq!(scale_float(0.1, grid("0.01"), Rounding::HalfEven), Ok(10));
    assert_eq!(scale_float(0.285, grid("0.01"), Rounding::HalfEven), Ok(28));
    assert_eq!(scale_float(-1e15, grid("0.001"), Rounding::HalfEven), Ok(-1_000_000_000_000_000_000));
    assert_eq!(scale_float(f64::MIN_POSITIVE, Grid::ONE, Rounding::HalfEven), Ok(0));
    assert_eq!(scale_float(f64::MAX, Grid::ONE, Rounding::HalfEven), Err(DecimalError::Overflow));
    assert_eq!(scale_float(f64::NAN, Grid::ONE, Rounding::HalfEven), Err(DecimalError::NotFinite));
    assert_eq!(scale_float(f64::INFINITY, Grid::ONE, Rounding::HalfEven), Err(DecimalError::NotFinite));
    assert_eq!(scale_integer(i64::MIN, Grid::ONE), Ok(i64::MIN));
    assert_eq!(scale_integer(7, grid("0.25")), Ok(28));
    assert_eq!(scale_integer(i64::MAX, grid("0.1")), Err(DecimalError::Overflow));
}

#[test]
fn grids_parse_and_print() {
    for (text, coefficient, scale, printed) in [
        ("1", 1, 0, "1"),
        ("0.01", 1, 2, "0.01"),
        ("0.10", 1, 1, "0.1"),
        ("5", 5, 0, "5"),
        ("100", 100, 0, "100"),
        ("0.25", 25, 2, "0.25"),
        ("2.50", 25, 1, "2.5"),
        ("1e-3", 1, 3, "0.001"),
        ("1e3", 1000, 0, "1000"),
        ("0.000000000000000001", 1, 18, "0.000000000000000001"),
    ] {
        let g = grid(text);
        assert_eq!((g.coefficient(), g.scale(), g.to_string().as_str()), (coefficient, scale, printed), "{text}");
        let json = serde_json::to_string(&g).unwrap();
        assert_eq!(serde_json::from_str::<Grid>(&json).unwrap(), g);
    }
    for text in ["0", "-1", "", "abc", "1e19", "1e-19", "NaN", "1234567890123456789"] {
        let message = text.parse::<Grid>().unwrap_err().to_string();
        assert!(message.contains("is not a grid") && message.contains("0.01"), "{message}");
    }
}

#[test]
fn multiples_print_without_artefacts() {
    assert_eq!(grid("0.01").format(5), "0.05");
    assert_eq!(grid("0.01").format(-5), "-0.05");
    assert_eq!(grid("0.01").format(0), "0.00");
    assert_eq!(grid("0.25").format(3), "0.75");
    assert_eq!(grid("5").format(-3), "-15");
    assert_eq!(Grid::ONE.format(i128::MIN), i128::MIN.to_string());
    assert_eq!(grid("0.000000000000000001").format(10i128.pow(30)), "1000000000000.000000000000000000");
    assert_eq!(
        grid("999999999999999999").format(i128::MAX),
        "170141183460469231561546120255414873995312696284115894273"
    );
    assert_eq!(grid("0.1").to_f64(3), 0.3);
    assert_eq!(grid("0.000000000000000001").to_f64(1 << 60), 1.152921504606847);
    assert_eq!(Grid::ONE.to_f64(i128::from(i64::MAX)), i64::MAX as f64);
}

fn any_grid() -> impl Strategy<Value = Grid> {
    (1u64..1_000_000, 0u8..10).prop_map(|(c, s)| format!("{c}e-{s}").parse().unwrap())
}

proptest! {
    #[test]
    fn printed_multiples_are_read_back(multiple: i64, grid in any_grid()) {
        prop_assert_eq!(parse_scaled(&grid.format(i128::from(multiple)), grid), Ok(multiple));
    }

    #[test]
    fn agrees_with_integer_arithmetic(
        value in -1_000_000_000_000i64..1_000_000_000_000, scale in 0u32..9, grid in any_grid(),
    ) {
        let text = format!("{value}e-{scale}");
        // value·10^-scale / (c·10^-s), all as integers.
        let numerator = i128::from(value) * 10i128.pow(u32::from(grid.scale()));
        let denominator = i128::from(grid.coefficient()) * 10i128.pow(scale);
        let floor = numerator.div_euclid(denominator);
        let twice = 2 * numerator.rem_euclid(denominator);
        let nearest = if twice > denominator || (twice == denominator && floor % 2 != 0) { floor + 1 } else { floor };
        prop_assert_eq!(parse_scaled(&text, grid).map(i128::from).ok(), i64::try_from(nearest).ok().map(i128::from));
        let down = parse_rounded(&text, grid, Rounding::Floor).map(i128::from).ok();
        prop_assert_eq!(down, i64::try_from(floor).ok().map(i128::from));
    }

    #[test]
    fn doubles_are_the_nearest(multiple: i64, grid in any_grid()) {
        let multiple = i128::from(multiple);
        prop_assert_eq!(grid.to_f64(multiple), grid.format(multiple).parse::<f64>().unwrap());
    }

    #[test]
    fn never_panics(text in "[-+0-9.eEnNaAiIfF]{0,60}", grid in any_grid()) {
        let _ = parse_scaled(&text, grid);
        let _ = text.parse::<Grid>();
    }
}

#[test]
fn multiples_are_told_from_what_is_rounded() {
    let half: Grid = "0.5".parse().unwrap();
    for (text, is_one) in [
        ("0", true),
        ("2.5", true),
        ("-2.50", true),
        ("1e3", true),
        ("2.25", false),
        ("-2.25", false),
        ("2.4999999999999999999999999999999999999999999999", false),
        ("-0.00000000000000000000000000000000000000000000000000000001", false),
        ("9223372036854775807", false),
        ("4611686018427387903.5", true),
        ("seven", false),
    ] {
        assert_eq!(is_multiple(text, half), is_one, "{text}");
    }
}
