//! What counts as a number: decimal, an exponent if need be, up to 38 digits, between 10^-128 and 10^126.

const DIGITS_MAX: usize = 38;

/// Powers of ten of the first digit.
const POWER_MIN: i64 = -128;
const POWER_MAX: i64 = 126;

/// Whether a text is a number. The text is what is kept, so it is not turned into one.
pub(super) fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, power) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, exponent(power)),
        None => (unsigned, Some(0)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !digits().all(|digit| digit.is_ascii_digit()) {
        return false;
    }
    let Some(power) = power else { return false };
    // Zero has no first digit that counts, and no size.
    let Some(first) = digits().position(|digit| digit != b'0') else { return true };
    let zeros_behind = fraction.bytes().rev().chain(whole.bytes().rev()).position(|digit| digit != b'0');
    let significant = whole.len() + fraction.len() - first - zeros_behind.unwrap_or_default();
    let Ok(places) = i64::try_from(whole.len()).and_then(|whole| Ok(whole - 1 - i64::try_from(first)?))
    else {
        return false;
    };
    let power = places.saturating_add(power);
    let is_greatest = power == POWER_MAX && significant == 1 && digits().nth(first) == Some(b'1');
    significant <= DIGITS_MAX && ((POWER_MIN..POWER_MAX).contains(&power) || is_greatest)
}

fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_whole.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::is_number;

    #[test]
    fn numbers_are_decimal_with_or_without_an_exponent() {
        for number in
            ["0", "-0", "7", "+7", "-7.25", ".5", "5.", "1e5", "1E-5", "1.5e+7", "007", "0e999", "0.000"]
        {
            assert!(is_number(number), "{number}");
        }
        for other in [
            "", "-", ".", "e5", "1e", "1e+", "1e1.5", "0x7", "1 ", " 1", "1_0", "NaN", "inf", "--1", "1,5",
            "٣",
        ] {
            assert!(!is_number(other), "{other}");
        }
    }

    #[test]
    fn numbers_have_38_digits_and_a_size_between_two_powers() {
        let nines = "9".repeat(38);
        assert!(is_number(&nines));
        assert!(is_number(&format!("{nines}000")), "zeros behind are no digits of precision");
        assert!(is_number(&format!("0.000{nines}")));
        assert!(!is_number(&format!("{nines}9")));
        assert!(!is_number(&format!("1{}1", "0".repeat(37))));
        for (text, legal) in [
            ("1e126", true),
            ("10e125", true),
            ("-1e126", true),
            ("2e126", false),
            ("1.1e126", false),
            ("1e127", false),
            ("9.9e125", true),
            ("1e-128", true),
            ("0.1e-127", true),
            ("9e-129", false),
            ("1e99999999999999999999", false),
            ("1e-99999999999999999999", false),
            ("1e9223372036854775807", false),
        ] {
            assert_eq!(is_number(text), legal, "{text}");
        }
    }
}
