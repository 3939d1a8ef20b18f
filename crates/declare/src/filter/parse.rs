//! From the text of an expression to its tree.
//!
//! ```text
//! any     = all { "or" all }
//! all     = one { "and" one }
//! one     = "not" one | "(" any ")" | column test
//! test    = ( "==" | "!=" ) literal | ( "<" | "<=" | ">" | ">=" ) number
//!         | [ "not" ] "in" "(" literal { "," literal } ")" | "is" [ "not" ] "missing"
//! literal = number | text in quotes | "true" | "false"
//! ```

use super::{CellComparison, Expression, RowFilter, RowTest};
use crate::identity::DecimalText;
use crate::words::quoted;

/// The words of the language, which are not columns unless they are in backquotes.
const WORDS: [&str; 8] = ["and", "or", "not", "in", "is", "missing", "true", "false"];

/// The deepest nesting: no expression exhausts the stack.
const MAX_DEPTH: usize = 64;

/// Whether a column name needs no backquotes.
pub(super) fn is_plain(name: &str) -> bool {
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(is_inner) && word(name).is_none()
}

fn word(text: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|word| text.eq_ignore_ascii_case(word))
}

#[derive(Clone, Debug, PartialEq)]
enum FilterToken {
    /// One of [`WORDS`].
    Word(&'static str),
    Column(String),
    Text(String),
    Number(String),
    Sign(&'static str),
    End,
}

/// A token, its text, and the place of its first character, from 1.
#[derive(Clone)]
struct PlacedToken {
    token: FilterToken,
    text: String,
    at: usize,
}

impl PlacedToken {
    fn error(&self, problem: impl std::fmt::Display) -> String {
        match self.token {
            FilterToken::End => format!("the expression ends too early: {problem}"),
            _ => format!("at character {}, {}: {problem}", self.at, quoted(&self.text)),
        }
    }
}

/// The signs, longer ones first.
const SIGNS: [&str; 9] = ["==", "!=", "<=", ">=", "<", ">", "(", ")", ","];

/// Signs of other languages, and what to write instead.
const OTHERS: [(&str, &str); 6] = [
    ("<>", "write != for texts or numbers that differ"),
    ("=", "write == to compare"),
    ("&", "write `and`"),
    ("|", "write `or`"),
    ("!", "write `not`, or != to compare"),
    ("~", "patterns are not supported; list the texts with `in`"),
];

pub(super) fn parse(text: &str) -> Result<RowFilter, String> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, columns: Vec::new() };
    let root = parser.any(0)?;
    let rest = parser.peek();
    match rest.token {
        FilterToken::End => Ok(RowFilter { columns: parser.columns, root }),
        _ => Err(rest.error("join comparisons with `and` or `or`")),
    }
}

fn tokens(text: &str) -> Result<Vec<PlacedToken>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let at = text[..text.len() - rest.len()].chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            tokens.push(PlacedToken { token: FilterToken::End, text: String::new(), at });
            return Ok(tokens);
        };
        let (token, len) = token(first, rest).map_err(|problem| format!("at character {at}: {problem}"))?;
        tokens.push(PlacedToken { token, text: rest[..len].to_owned(), at });
        rest = &rest[len..];
    }
}

/// The first token of a text, and its length in bytes.
fn token(first: char, rest: &str) -> Result<(FilterToken, usize), String> {
    if let '"' | '\'' | '`' = first {
        let (inside, len) = enclosed(first, rest)?;
        return Ok((if first == '`' { FilterToken::Column(inside) } else { FilterToken::Text(inside) }, len));
    }
    let starts_number = first.is_ascii_digit() || matches!(first, '-' | '+' | '.');
    let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let is_sign_of = |place: usize, c: char| {
        let before = rest[..place].chars().next_back();
        matches!(c, '-' | '+') && (place == 0 || (starts_number && matches!(before, Some('e' | 'E'))))
    };
    let end = rest.char_indices().find(|(place, c)| !is_inner(*c) && !is_sign_of(*place, *c));
    let len = end.map_or(rest.len(), |(place, _)| place);
    if starts_number {
        let mut canonical = String::new();
        let Some(number) = DecimalText::parse(&rest[..len]) else {
            return Err(format!("{} is not a number; put quotes around a text", quoted(&rest[..len.max(1)])));
        };
        return Ok((FilterToken::Number(number.write(&mut canonical).to_owned()), len));
    }
    if len > 0 {
        let text = &rest[..len];
        return Ok((word(text).map_or_else(|| FilterToken::Column(text.to_owned()), FilterToken::Word), len));
    }
    let other = OTHERS.iter().find(|(sign, _)| rest.starts_with(sign));
    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
    match (sign, other) {
        (Some(sign), other) if other.is_none_or(|(other, _)| other.len() <= sign.len()) => {
            Ok((FilterToken::Sign(sign), sign.len()))
        }
        (_, Some((other, instead))) => Err(format!("{}: {instead}", quoted(other))),
        _ => Err(format!("{} has no meaning here; put quotes around a text", quoted(&first.to_string()))),
    }
}

/// A text between two quotes of a kind, with quotes inside written twice, and its length in bytes.
fn enclosed(quote: char, rest: &str) -> Result<(String, usize), String> {
    let mut inside = String::new();
    let mut characters = rest.char_indices().skip(1).peekable();
    while let Some((place, c)) = characters.next() {
        if c != quote {
            inside.push(c);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            inside.push(quote);
        } else {
            return Ok((inside, place + quote.len_utf8()));
        }
    }
    Err(format!("the quote {quote} is never closed"))
}

struct Parser {
    tokens: Vec<PlacedToken>,
    next: usize,
    columns: Vec<String>,
}

/// A value in a comparison.
enum Literal {
    Text(String),
    Number(String),
}

impl Parser {
    fn peek(&self) -> &PlacedToken {
        &self.tokens[self.next]
    }

    fn advance(&mut self) -> PlacedToken {
        let now = self.next;
        self.next = (now + 1).min(self.tokens.len() - 1); // the end stays
        self.tokens[now].clone()
    }

    /// Takes the next token if it is this word or sign.
    fn takes(&mut self, token: &FilterToken) -> bool {
        let takes = self.peek().token == *token;
        if takes {
            self.advance();
        }
        takes
    }

    fn any(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.all(depth)?];
        while self.takes(&FilterToken::Word("or")) {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::Or(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Expression, String> {
        let mut parts = vec![self.one(depth)?];
        while self.takes(&FilterToken::Word("and")) {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Expression::And(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<Expression, String> {
        if depth > MAX_DEPTH {
            return Err(self.peek().error("it is nested too deeply"));
        }
        if self.takes(&FilterToken::Word("not")) {
            return Ok(negated(self.one(depth + 1)?));
        }
        if self.takes(&FilterToken::Sign("(")) {
            let inner = self.any(depth + 1)?;
            return match self.takes(&FilterToken::Sign(")")) {
                true => Ok(inner),
                false => Err(self.peek().error("a parenthesis is not closed here")),
            };
        }
        let first = self.advance();
        let name = match &first.token {
            FilterToken::Column(name) if name.is_empty() => return Err(first.error("name a column")),
            FilterToken::Column(name) => name.clone(),
            FilterToken::Text(_) | FilterToken::Number(_) => {
                return Err(first.error("a comparison begins with a column; backquotes enclose its name"));
            }
            _ => {
                return Err(first.error("name a column here; put backquotes around it if it is a word of the language"));
            }
        };
        let place = self.columns.iter().position(|column| *column == name).unwrap_or_else(|| {
            self.columns.push(name);
            self.columns.len() - 1
        });
        self.test(place)
    }

    fn test(&mut self, column: usize) -> Result<Expression, String> {
        let is_not = self.takes(&FilterToken::Word("not"));
        let first = self.advance();
        let order = |sign: &str| {
            [CellComparison::Below, CellComparison::AtMost, CellComparison::Above, CellComparison::AtLeast]
                .into_iter()
                .find(|order| order.sign() == sign)
        };
        let (test, is_not) = match &first.token {
            FilterToken::Word("in") => (self.list()?, is_not),
            _ if is_not => return Err(first.error("after a column, `not` is followed by `in`")),
            FilterToken::Word("is") => {
                let is_not = self.takes(&FilterToken::Word("not"));
                if !self.takes(&FilterToken::Word("missing")) {
                    return Err(self.peek().error("write `is missing` or `is not missing`, and == to compare"));
                }
                (RowTest::IsMissing, is_not)
            }
            FilterToken::Sign(sign @ ("==" | "!=")) => {
                let differs = *sign == "!=";
                let test = match self.literal()? {
                    Literal::Text(text) => RowTest::Texts(vec![text]),
                    Literal::Number(number) => RowTest::Numbers(vec![number]),
                };
                (test, differs)
            }
            FilterToken::Sign(sign) if let Some(order) = order(sign) => {
                let place = self.next;
                match self.literal()? {
                    Literal::Number(number) => (RowTest::Compares(order, number), false),
                    Literal::Text(_) => {
                        let why = "texts have no order here; compare with a number, or texts with == or `in`";
                        return Err(self.tokens[place].error(why));
                    }
                }
            }
            _ => return Err(first.error("write ==, !=, <, <=, >, >=, `in` or `is missing` after a column")),
        };
        let test = Expression::Test(column, test);
        Ok(if is_not { negated(test) } else { test })
    }

    fn literal(&mut self) -> Result<Literal, String> {
        let first = self.advance();
        match &first.token {
            FilterToken::Text(text) => Ok(Literal::Text(text.clone())),
            FilterToken::Word(truth @ ("true" | "false")) => Ok(Literal::Text((*truth).to_owned())),
            FilterToken::Number(number) => Ok(Literal::Number(number.clone())),
            FilterToken::Column(_) => {
                Err(first.error("columns are compared with texts or numbers; put quotes around a text"))
            }
            _ => Err(first.error("write a number, or a text in quotes")),
        }
    }

    /// The list after `in`.
    fn list(&mut self) -> Result<RowTest, String> {
        if !self.takes(&FilterToken::Sign("(")) {
            return Err(self.peek().error("write a list after `in`, such as (\"a\", \"b\")"));
        }
        let (mut texts, mut numbers) = (Vec::new(), Vec::new());
        loop {
            let place = self.next;
            match self.literal()? {
                Literal::Text(text) => texts.push(text),
                Literal::Number(number) => numbers.push(number),
            }
            if !texts.is_empty() && !numbers.is_empty() {
                let why = "a list has either texts or numbers; put quotes around all of them, or around none";
                return Err(self.tokens[place].error(why));
            }
            if self.takes(&FilterToken::Sign(")")) {
                return Ok(if numbers.is_empty() { RowTest::Texts(texts) } else { RowTest::Numbers(numbers) });
            }
            if !self.takes(&FilterToken::Sign(",")) {
                return Err(self.peek().error("write a comma or a closing parenthesis after an item of a list"));
            }
        }
    }
}

/// The negation; that of a negation is the expression itself.
fn negated(expression: Expression) -> Expression {
    match expression {
        Expression::Not(inner) => *inner,
        other => Expression::Not(Box::new(other)),
    }
}
