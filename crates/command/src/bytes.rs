//! Parsing and formatting of numbers of bytes.

/// Reads a number of bytes: `4096`, `64k`, `256MiB`, `1g`. Units are powers of 1,024.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err("expected a number of bytes, such as 4096, 64k, 256MiB or 1g".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of bytes, such as 256MiB".to_owned())?;
    number.checked_mul(factor).ok_or_else(|| "the number of bytes is too large".to_owned())
}

/// Formats a number of bytes for people: `512 B`, `1.5 MiB`.
pub fn shown(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" || value.fract() == 0.0 {
                format!("{value:.0} {unit}")
            } else {
                format!("{value:.1} {unit}")
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

/// Formats a number with its noun: `1 line`, `2 lines`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a whole number with its digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_units() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64k"), Ok(65536));
        assert_eq!(parse("256MiB"), Ok(256 << 20));
        assert_eq!(parse("1 GB"), Ok(1 << 30));
        for bad in ["", "k", "-1", "1x", "1.5g", "99999999999999999999", "99999999t"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shows_for_people() {
        assert_eq!(shown(0), "0 B");
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(64 << 20), "64 MiB");
        assert_eq!(shown(1536), "1.5 KiB");
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
    }
}
