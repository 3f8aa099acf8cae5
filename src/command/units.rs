//! Times, sizes and ranks as people write them.

use std::ops::RangeInclusive;

/// The number in front of a unit, and the unit.
fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((number, unit)),
        _ => Err(format!("{text:?} does not start with a number")),
    }
}

/// Nanoseconds of a time such as `1.5s`, `20ms`, `7us` or `100ns`.
pub(super) fn time(text: &str) -> Result<i64, String> {
    let (number, unit) = split(text)?;
    let scale = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        _ if number == 0.0 && unit.is_empty() => 1.0,
        _ => return Err(format!("{text:?} needs a unit: s, ms, us or ns")),
    };
    let ns = (number * scale).round();
    if ns.abs() < 9e18 { Ok(ns as i64) } else { Err(format!("{text:?} is too large")) }
}

/// The same, where only lengths make sense.
pub(super) fn duration(text: &str) -> Result<u64, String> {
    u64::try_from(time(text)?).map_err(|_| format!("{text:?} is negative"))
}

/// `FROM..TO`; either may be missing.
pub(super) fn window(text: &str) -> Result<(i64, i64), String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err(format!("{text:?} is no window: write FROM..TO, as in 100ms..1.5s"));
    };
    let or = |text: &str, absent| if text.trim().is_empty() { Ok(absent) } else { time(text) };
    Ok((or(from, 0)?, or(to, i64::MAX / 4)?))
}

/// Bytes of a size such as `500MB`, `2GiB` or `4096`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let scale = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        _ => return Err(format!("{text:?} needs a unit: kB, MB, GB, KiB, MiB or GiB")),
    };
    let bytes = number * scale;
    if (0.0..9e18).contains(&bytes) { Ok(bytes as u64) } else { Err(format!("{text:?} is no size")) }
}

/// One rank, or `FIRST-LAST`.
pub(super) fn ranks(text: &str) -> Result<RangeInclusive<i64>, String> {
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("{text:?} is no rank"));
    match text.get(1..).and_then(|rest| rest.find('-')) {
        Some(at) => {
            let (first, last) = (number(&text[..at + 1])?, number(&text[at + 2..])?);
            if first <= last { Ok(first..=last) } else { Err(format!("{text:?} is no range of ranks")) }
        }
        None => number(text).map(|rank| rank..=rank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write() {
        assert_eq!(time("1.5s"), Ok(1_500_000_000));
        assert_eq!(time("-20 ms"), Ok(-20_000_000));
        assert_eq!(time("7us"), time("7µs"));
        assert_eq!(time("0"), Ok(0));
        assert!(
            time("5").unwrap_err().contains("unit")
                && time("s").is_err()
                && time("1h").is_err()
                && time("1e30s").is_err()
        );
        assert!(duration("-1s").is_err());
        assert_eq!(window("100ms..1s"), Ok((100_000_000, 1_000_000_000)));
        assert_eq!(window("..1s"), Ok((0, 1_000_000_000)));
        assert!(window("1s").is_err());
        assert_eq!(size("500MB"), Ok(500_000_000));
        assert_eq!(size("2 GiB"), Ok(2 << 30));
        assert_eq!(size("17"), Ok(17));
        assert!(size("1 parsec").is_err() && size("-1").is_err());
        assert_eq!(ranks("3"), Ok(3..=3));
        assert_eq!(ranks("3-5"), Ok(3..=5));
        assert_eq!(ranks("-2--1"), Ok(-2..=-1));
        assert!(ranks("5-3").is_err() && ranks("x").is_err() && ranks("0-99999999999999999999").is_err());
    }
}
