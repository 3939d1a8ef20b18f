use super::*;
use crate::error::Place;
use crate::event::{Cells, ColumnLayout, Columns, Position};

struct Row<'r>(Vec<Field<'r>>);

impl Cells for Row<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        self.0[slot]
    }
}

fn filter(text: &str) -> RowFilter {
    text.parse::<RowFilter>().unwrap().canonical(Identities::default()).unwrap()
}

/// The value of an expression in a row; the columns are `a` and `b`.
fn keeps_in(text: &str, a: Field<'_>, b: Field<'_>, numbers: &NumberFormat) -> Result<bool, String> {
    let filter = filter(text);
    let columns = Columns { time: "a".into(), filter: filter.columns().to_vec(), ..Columns::default() };
    let layout = ColumnLayout::new(&columns);
    let named = |name: &String| if name == "a" { a } else { b };
    let row = Row(layout.names().iter().map(named).collect());
    let event = Event::new(Position { file: "f", place: Place::Line(2) }, &row, &layout);
    filter.keeps(&event, Identities::default(), numbers).map_err(|error| {
        assert!(error.is_bad_row() || error.to_string().contains("exact id"), "{error}");
        error.to_string()
    })
}

fn keeps(text: &str, a: Field<'_>, b: Field<'_>) -> bool {
    keeps_in(text, a, b, &NumberFormat::default()).unwrap()
}

#[test]
fn numbers_are_compared_exactly() {
    let cells = |text| [Field::Text(text), Field::Decimal(text), Field::Number(text)];
    for (cell, test, holds) in [
        ("0.30", "a == 0.3", true),
        ("9007199254740993", "a == 9007199254740992", false),
        ("9007199254740993", "a > 9007199254740992", true),
        ("-0", "a == 0", true),
        ("-1", "a < -0.5", true),
        ("-1", "a > -1.01", true),
        ("1e3", "a == 1000", true),
        ("1e-3", "a < 0.0010000000000000000000000000000000000000000000001", true),
        ("1e400", "a > 1e399", true),
        ("10", "a >= 10", true),
        ("10", "a <= 9.99", false),
        ("007", "a == 7", true),
        ("2", "a in (1, 2, 3)", true),
        ("2.5", "a not in (1, 2, 3)", true),
        ("2", "a != 2", false),
        (".5", "a == 5e-1", true),
    ] {
        for field in cells(cell) {
            assert_eq!(keeps(test, field, Field::Missing), holds, "{cell}: {test}");
        }
    }
    for field in [Field::Integer(2), Field::Float(2.0), Field::Short { value: 2.0, bits: 24 }] {
        assert!(keeps("a == 2 and a > 1.5 and a < 2.5", field, Field::Missing), "{field:?}");
    }
    assert!(keeps("a == 0.1 and a < 1e300", Field::Float(0.1), Field::Missing));
    assert!(keeps("a == 1 and b == 0", Field::Text("true"), Field::Text("FALSE")));
}

#[test]
fn texts_are_compared_by_identity() {
    for (cell, test, holds) in [
        (Field::Text("1.0"), "a == \"1\"", true),
        (Field::Float(1.0), "a == '1'", true),
        (Field::Text("ok"), "a == \"ok\"", true),
        (Field::Text("OK"), "a == \"ok\"", false),
        (Field::Text("True"), "a == true", true),
        (Field::Date(19_723), "a == '2024-01-01'", true),
        (Field::Text("007"), "a == '7'", false),
        (Field::Text("b"), "a in ('a', 'b')", true),
        (Field::Text("c"), "a not in ('a', 'b')", true),
        (Field::Text("say \"ah\""), "a == \"say \"\"ah\"\"\"", true),
    ] {
        assert_eq!(keeps(test, cell, Field::Missing), holds, "{cell:?}: {test}");
    }
    let folds: Identities = [crate::identity::Normalisation::Casefold].into_iter().collect();
    let folded = "a == 'OK'".parse::<RowFilter>().unwrap().canonical(folds).unwrap();
    assert_eq!(folded, "a == 'ok'".parse().unwrap());
    for text in ["a == ''", "a == 'NaN'", "a == '1.5e+30'"] {
        assert!(text.parse::<RowFilter>().unwrap().canonical(Identities::default()).is_err(), "{text}");
    }
}

/// A comparison with a missing cell is unknown, and so are `not` of it and what depends on it.
#[test]
fn missing_cells_leave_comparisons_open() {
    let (gone, one) = (Field::Missing, Field::Text("1"));
    for (test, holds) in [
        ("a == 1", false),
        ("a != 1", false),
        ("not a == 1", false),
        ("not (a == 1 and b == 1)", false),
        ("not (a == 1 and b == 2)", true),
        ("a == 'x' or b == 1", true),
        ("a == 'x' and b == 1", false),
        ("not a in ('x')", false),
        ("a is missing", true),
        ("a is not missing", false),
        ("not a is missing", false),
        ("b is missing", false),
        ("a is missing or a > 0", true),
    ] {
        assert_eq!(keeps(test, gone, one), holds, "{test}");
        assert_eq!(keeps(test, Field::Float(f64::NAN), one), holds, "{test}");
        assert_eq!(keeps(test, Field::Text("NaN"), one), holds, "{test}");
    }
}

#[test]
fn cells_that_are_not_numbers_are_errors_where_they_matter() {
    let refused = |test: &str, cell| keeps_in(test, cell, Field::Text("1"), &NumberFormat::default()).unwrap_err();
    assert_eq!(
        refused("a > 0", Field::Text("x")),
        "f, line 2, column `a`: `x` is not a number; write it as digits with an optional point, such as -12.5, or \
         declare the text as missing"
    );
    let thousands = refused("a > 0", Field::Text("1,783.5"));
    assert_eq!(thousands, "f, line 2, column `a`: `1,783.5` is not a number as declared; declare --thousands ,");
    assert!(refused("a > 0", Field::Float(f64::INFINITY)).contains("finite"));
    assert!(refused("a > 0", Field::Date(0)).contains("not a number"));
    assert!(refused("a == 'x'", Field::Float(1e30)).contains("exact id"));
    // Read from the left, and no further than needed.
    assert!(!keeps("b == 2 and a > 0", Field::Text("x"), Field::Text("1")));
    assert!(keeps("b == 1 or a > 0", Field::Text("x"), Field::Text("1")));
    let german = NumberFormat::new(crate::numbers::DecimalMark::Comma, Some(crate::numbers::Thousands::Point), vec![]);
    assert_eq!(keeps_in("a > 1783.4", Field::Text("1.783,5"), Field::Missing, &german), Ok(true));
}

#[test]
fn expressions_are_written_in_one_form_that_reads_as_themselves() {
    for (text, form) in [
        ("a==1", "a == 1"),
        ("A.b_1 == -1.50", "A.b_1 == -1.5"),
        ("`a b` == 'x'", "`a b` == \"x\""),
        ("`a``b` IS MISSING", "`a``b` is missing"),
        ("`in` in(1,2)", "`in` in (1, 2)"),
        ("a == 1 or b == 2 and c == 3", "a == 1 or (b == 2 and c == 3)"),
        ("(a == 1 or b == 2) and c == 3", "(a == 1 or b == 2) and c == 3"),
        ("not (a == 1 or b == 2)", "not (a == 1 or b == 2)"),
        ("not not a == 1", "a == 1"),
        ("not a > 1", "not a > 1"),
        ("not a == 'x'", "a != \"x\""),
        ("((a > 1e3))", "a > 1000"),
        ("größe >= 5", "größe >= 5"),
        ("a == true", "a == \"true\""),
    ] {
        let read: RowFilter = text.parse().unwrap();
        assert_eq!(read.to_string(), form);
        assert_eq!(form.parse::<RowFilter>().unwrap(), read, "{form}");
    }
}

#[test]
fn parse_errors_have_the_place() {
    for (text, problem) in [
        ("", "the expression ends too early: name a column"),
        ("a", "the expression ends too early: write =="),
        ("a = 1", "at character 3: `=`: write == to compare"),
        ("a == 1 && b == 2", "at character 8: `&`: write `and`"),
        ("a <> 1", "at character 3: `<>`: write !="),
        ("!a", "at character 1: `!`: write `not`"),
        ("a == ok", "at character 6, `ok`: columns are compared with texts or numbers; put quotes around a text"),
        ("a < 'x'", "at character 5, `'x'`: texts have no order here"),
        ("a in ('x', 1)", "at character 12, `1`: a list has either texts or numbers"),
        ("a in 1", "at character 6, `1`: write a list"),
        ("a in ('x'", "the expression ends too early: write a comma"),
        ("(a == 1", "the expression ends too early: a parenthesis is not closed"),
        ("a == 1 b == 2", "at character 8, `b`: join comparisons with `and` or `or`"),
        ("1 < a", "at character 1, `1`: a comparison begins with a column"),
        ("a == 'x", "at character 6: the quote ' is never closed"),
        ("a == 1x", "at character 6: `1x` is not a number"),
        ("a is 1", "at character 6, `1`: write `is missing`"),
        ("é == 1 and ü ? 2", "at character 14: `?` has no meaning here"),
        ("a not == 1", "at character 7, `==`: after a column, `not` is followed by `in`"),
        ("and == 1", "at character 1, `and`: name a column here"),
    ] {
        let error = text.parse::<RowFilter>().unwrap_err();
        assert!(error.starts_with(problem), "{text}: {error}");
    }
    let deep = format!("{}a == 1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(deep.parse::<RowFilter>().unwrap_err().contains("nested too deeply"));
    assert!(format!("{}a == 1", "not ".repeat(100_000)).parse::<RowFilter>().is_err());
}
