//! Conditions: an operator, a fact of the request, the values it is compared with.
//!
//! An answer is [`Truth`]: what is not known is neither true nor false, so that it can never be what allows.

use std::borrow::Cow;
use std::net::IpAddr;

use kew_core::Timestamp;
use kew_http::date;
use serde_json::Value;

use super::document::Fault;
use super::facts::{Fact, Facts};
use super::wildcard;

/// Whether something holds; the lesser of two is what both together are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Truth {
    No,
    Unknown,
    Yes,
}

impl From<bool> for Truth {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}

/// One condition of a statement.
#[derive(PartialEq, Debug)]
pub(super) struct Condition {
    operator: Operator,
    /// In small letters.
    key: Box<str>,
    values: Vec<Box<str>>,
}

#[derive(PartialEq, Debug)]
struct Operator {
    test: Test,
    /// Holds where the test does not.
    negated: bool,
    /// Holds where the fact is absent.
    if_exists: bool,
    quantifier: Option<Quantifier>,
}

/// What is asked of a fact of many values. Every fact here has one value or none, so only absence tells them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Quantifier {
    All,
    Any,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Test {
    Text { any_case: bool },
    Pattern,
    Arn,
    Number(Compare),
    Date(Compare),
    Bool,
    Ip,
    IsAbsent,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    fn holds<T: PartialOrd>(self, fact: &T, value: &T) -> bool {
        match self {
            Self::Equal => fact == value,
            Self::Less => fact < value,
            Self::LessOrEqual => fact <= value,
            Self::Greater => fact > value,
            Self::GreaterOrEqual => fact >= value,
        }
    }
}

impl Condition {
    /// Reads one; a value that its operator could never compare is no condition.
    pub(super) fn read(operator: &str, key: &str, values: Value) -> Result<Self, Fault> {
        let operator = Operator::read(operator).ok_or("an operator is none that there is")?;
        let values = match values {
            Value::Array(values) => values,
            value => vec![value],
        };
        let values = values.into_iter().map(|value| match value {
            Value::String(text) => Ok(text.into_boxed_str()),
            Value::Bool(_) | Value::Number(_) => Ok(value.to_string().into_boxed_str()),
            Value::Null | Value::Array(_) | Value::Object(_) => Err("a condition's value is no text"),
        });
        let values: Vec<Box<str>> = values.collect::<Result<_, _>>()?;
        if key.is_empty() || values.is_empty() || !values.iter().all(|value| operator.can_compare(value)) {
            return Err("a condition's values are none of its operator");
        }
        Ok(Self { operator, key: key.to_ascii_lowercase().into(), values })
    }

    /// Whether it holds for a request.
    pub(super) fn holds(&self, facts: &Facts<'_>, has_variables: bool) -> Truth {
        let Operator { test, negated, if_exists, quantifier } = &self.operator;
        let fact = match facts.of(&self.key) {
            Fact::Unknown => return Truth::Unknown,
            Fact::Absent if *test == Test::IsAbsent => return self.says(true),
            Fact::Known(_) if *test == Test::IsAbsent => return self.says(false),
            Fact::Absent => {
                let holds = match quantifier {
                    Some(Quantifier::All) => true,
                    Some(Quantifier::Any) => *if_exists,
                    None => *if_exists || *negated,
                };
                return holds.into();
            }
            Fact::Known(fact) => fact,
        };
        let compared = self.values.iter().map(|value| compare(*test, &fact, value, facts, has_variables));
        let matched = compared.max().unwrap_or(Truth::No);
        match matched {
            Truth::Yes => (!negated).into(),
            Truth::No => (*negated).into(),
            Truth::Unknown => Truth::Unknown,
        }
    }

    /// Whether this word is among the values of a test for absence.
    fn says(&self, is_absent: bool) -> Truth {
        self.values.iter().any(|value| boolean(value) == Some(is_absent)).into()
    }
}

fn compare(test: Test, fact: &str, value: &str, facts: &Facts<'_>, has_variables: bool) -> Truth {
    let expanded = |compare: &dyn Fn(&str) -> bool| match expand(value, facts, has_variables) {
        Some(value) => compare(&value).into(),
        None => Truth::Unknown,
    };
    let known = |holds: Option<bool>| holds.map_or(Truth::Unknown, Truth::from);
    match test {
        Test::Text { any_case: false } => expanded(&|value| fact == value),
        Test::Text { any_case: true } => expanded(&|value| fact.eq_ignore_ascii_case(value)),
        Test::Pattern => expanded(&|value| wildcard::matches(value, fact)),
        Test::Arn => expanded(&|value| wildcard::matches_arn(value, fact)),
        Test::Number(compare) => {
            known(number(fact).zip(number(value)).map(|(fact, value)| compare.holds(&fact, &value)))
        }
        Test::Date(compare) => {
            known(instant(fact).zip(instant(value)).map(|(fact, value)| compare.holds(&fact, &value)))
        }
        Test::Bool => known(boolean(fact).zip(boolean(value)).map(|(fact, value)| fact == value)),
        Test::Ip => known(fact.parse().ok().and_then(|fact| Some(Block::read(value)?.holds(fact)))),
        // Decided before: it looks at no value of the fact.
        Test::IsAbsent => Truth::Unknown,
    }
}

/// A value with its variables replaced; nothing when one of them is not known, or would bring a wildcard along.
pub(super) fn expand<'v>(value: &'v str, facts: &Facts<'_>, has_variables: bool) -> Option<Cow<'v, str>> {
    if !has_variables || !value.contains("${") {
        return Some(Cow::Borrowed(value));
    }
    let mut pieces = value.split("${");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (variable, rest) = piece.split_once('}')?;
        match facts.of(&variable.to_ascii_lowercase()) {
            Fact::Known(fact) if !fact.contains(['*', '?']) => text.push_str(&fact),
            Fact::Known(_) | Fact::Absent | Fact::Unknown => return None,
        }
        text.push_str(rest);
    }
    Some(Cow::Owned(text))
}

impl Operator {
    fn read(name: &str) -> Option<Self> {
        let (quantifier, name) = match name.split_once(':') {
            Some(("ForAllValues", name)) => (Some(Quantifier::All), name),
            Some(("ForAnyValue", name)) => (Some(Quantifier::Any), name),
            Some(_) => return None,
            None => (None, name),
        };
        let (name, if_exists) = match name.strip_suffix("IfExists") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (test, negated) = match name {
            "StringEquals" | "BinaryEquals" => (Test::Text { any_case: false }, false),
            "StringNotEquals" => (Test::Text { any_case: false }, true),
            "StringEqualsIgnoreCase" => (Test::Text { any_case: true }, false),
            "StringNotEqualsIgnoreCase" => (Test::Text { any_case: true }, true),
            "StringLike" => (Test::Pattern, false),
            "StringNotLike" => (Test::Pattern, true),
            "ArnEquals" | "ArnLike" => (Test::Arn, false),
            "ArnNotEquals" | "ArnNotLike" => (Test::Arn, true),
            "Bool" => (Test::Bool, false),
            "IpAddress" => (Test::Ip, false),
            "NotIpAddress" => (Test::Ip, true),
            "Null" if !if_exists && quantifier.is_none() => (Test::IsAbsent, false),
            name => {
                if let Some(compare) = name.strip_prefix("Numeric") {
                    let (compare, negated) = comparison(compare)?;
                    (Test::Number(compare), negated)
                } else {
                    let (compare, negated) = comparison(name.strip_prefix("Date")?)?;
                    (Test::Date(compare), negated)
                }
            }
        };
        Some(Self { test, negated, if_exists, quantifier })
    }

    fn can_compare(&self, value: &str) -> bool {
        match self.test {
            Test::Text { .. } | Test::Pattern | Test::Arn => true,
            Test::Number(_) => number(value).is_some(),
            Test::Date(_) => instant(value).is_some(),
            Test::Bool | Test::IsAbsent => boolean(value).is_some(),
            Test::Ip => Block::read(value).is_some(),
        }
    }
}

fn comparison(name: &str) -> Option<(Compare, bool)> {
    Some(match name {
        "Equals" => (Compare::Equal, false),
        "NotEquals" => (Compare::Equal, true),
        "LessThan" => (Compare::Less, false),
        "LessThanEquals" => (Compare::LessOrEqual, false),
        "GreaterThan" => (Compare::Greater, false),
        "GreaterThanEquals" => (Compare::GreaterOrEqual, false),
        _ => return None,
    })
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite())
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        text if text.eq_ignore_ascii_case("true") => Some(true),
        text if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// A date, or seconds since 1970.
fn instant(text: &str) -> Option<Timestamp> {
    let seconds = text.parse::<u64>().ok().and_then(|seconds| seconds.checked_mul(1_000));
    seconds.map(Timestamp).or_else(|| date::parse_iso(text))
}

/// Addresses that begin alike.
struct Block {
    address: IpAddr,
    bits: u32,
}

impl Block {
    fn read(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    fn holds(&self, other: IpAddr) -> bool {
        let differs = match (self.address, other.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                u128::from(one.to_bits() ^ other.to_bits()).checked_shr(32 - self.bits)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => {
                (one.to_bits() ^ other.to_bits()).checked_shr(128 - self.bits)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return false,
        };
        // Shifted wholly out: a block of zero bits holds everything.
        differs.unwrap_or(0) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_blocks_hold_what_begins_alike() {
        for (block, address, holds) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1/32", "192.0.2.2", false),
            ("0.0.0.0/0", "255.255.255.255", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("192.0.2.0/24", "::ffff:192.0.2.7", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            let address = address.parse().expect("the addresses of this table are valid");
            assert_eq!(
                Block::read(block).expect("the conditions of this table are valid").holds(address),
                holds,
                "{block} {address}"
            );
        }
        for text in ["", "192.0.2.0/33", "192.0.2", "x", "::/129", "192.0.2.0/-1", "192.0.2.0/"] {
            assert!(Block::read(text).is_none(), "{text}");
        }
    }

    #[test]
    fn operators_are_known_by_their_whole_name() {
        for name in
            ["StringEquals", "ForAllValues:StringLike", "BoolIfExists", "NumericLessThanEquals", "Null"]
        {
            assert!(Operator::read(name).is_some(), "{name}");
        }
        for name in ["", "stringequals", "Equals", "NumericLike", "NullIfExists", "ForSome:Bool", "DateThan"]
        {
            assert!(Operator::read(name).is_none(), "{name}");
        }
    }
}
