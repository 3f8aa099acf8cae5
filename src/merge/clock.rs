//! On which clock an input's timestamps are, and by how much they move to meet the others'.

use std::path::PathBuf;

use serde_json::Value;

use super::document::Document;
use super::options::Alignment;
use crate::error::{Error, Result};

/// Nanoseconds; a base above is taken for time since 1970 (it is September 2001), not since a boot.
const EPOCH_SCALE: i128 = 1_000_000_000_000_000_000;
/// No two ranks of one job start further apart than this.
const PLAUSIBLE_NS: i128 = 366 * 86_400 * 1_000_000_000;
/// Two anchors of one boot of a host agree at least this well.
const SAME_BOOT_NS: i128 = 1_000_000_000;

/// What an input says about its clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Nanoseconds on the input's own clock at its timestamp 0.
    base: Option<i128>,
    domain: Domain,
    /// Real time minus monotonic time.
    anchor: Option<i128>,
    uncertainty: Option<u64>,
    host: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Domain {
    Realtime,
    Monotonic,
    #[default]
    Unknown,
}

/// How timestamps move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Aligned {
    /// Nanoseconds to add, an input each.
    pub(super) offsets: Vec<i64>,
    /// Whether the inputs share a clock afterwards.
    pub(super) aligned: bool,
    /// `baseTimeNanoseconds` of the result, if it has one.
    pub(super) base: Option<i64>,
    /// The clock of that base.
    pub(super) domain: &'static str,
    pub(super) uncertainty: Option<u64>,
    pub(super) warnings: Vec<String>,
}

fn integer(value: &Value) -> Option<i128> {
    match value {
        Value::Number(n) => n
            .as_i64()
            .map(i128::from)
            .or_else(|| n.as_u64().map(i128::from))
            .or_else(|| n.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 1e30).map(|f| f as i128)),
        Value::String(s) => s.trim().parse().ok(),
        _ => None,
    }
}

impl Clock {
    /// Reads it from the metadata. `first_ts`: the first timestamp of the events, as text.
    pub(super) fn of(document: &Document, first_ts: Option<&[u8]>) -> Self {
        let json = |key: &str| document.get(key).and_then(|raw| serde_json::from_slice::<Value>(raw).ok());
        let host = json("host_name").and_then(|v| v.as_str().map(str::to_owned));
        let mut clock = Clock { base: json("baseTimeNanoseconds").as_ref().and_then(integer), host, ..Self::default() };
        let ours = json("tptrace");
        if let Some(ours) = ours.as_ref().and_then(|t| t.get("clock")) {
            let field = |key: &str| ours.get(key).and_then(integer);
            clock.base = field("base_ns").or(clock.base);
            clock.domain = match ours.get("domain").and_then(Value::as_str) {
                Some("realtime") => Domain::Realtime,
                Some("monotonic") => Domain::Monotonic,
                _ => Domain::Unknown,
            };
            clock.uncertainty = field("uncertainty_ns").and_then(|n| u64::try_from(n).ok());
            if let (Some(real), Some(monotonic)) = (field("anchor_realtime_ns"), field("anchor_monotonic_ns")) {
                clock.anchor = Some(real - monotonic);
            }
        } else if let Some(base) = clock.base {
            clock.domain = if base >= EPOCH_SCALE { Domain::Realtime } else { Domain::Monotonic };
        } else if first_ts.and_then(parse_ns).is_some_and(|ns| ns >= EPOCH_SCALE) {
            // Old Kineto: the timestamps themselves are real time.
            clock.base = Some(0);
            clock.domain = Domain::Realtime;
        }
        clock
    }

    /// Real time at timestamp 0.
    fn realtime(&self) -> Option<i128> {
        match self.domain {
            Domain::Realtime => self.base,
            Domain::Monotonic => Some(self.base? + self.anchor?),
            Domain::Unknown => None,
        }
    }
}

/// Decides how far each input moves. `inputs` are the names and clocks, in order.
pub(super) fn align(inputs: &[(PathBuf, Clock)], alignment: &Alignment) -> Result<Aligned> {
    let mut result = Aligned { offsets: vec![0; inputs.len()], domain: "unknown", ..Aligned::default() };
    match alignment {
        Alignment::Off => {}
        Alignment::Offsets(offsets) => {
            if offsets.len() != inputs.len() {
                return Err(Error::invalid(format!(
                    "{} clock offsets were given for {} inputs; give one for each",
                    offsets.len(),
                    inputs.len()
                )));
            }
            result.offsets.clone_from(offsets);
            result.aligned = true;
        }
        Alignment::Force => {
            let mut bases = Vec::with_capacity(inputs.len());
            for (path, clock) in inputs {
                bases.push(clock.realtime().or(clock.base).ok_or_else(|| {
                    Error::invalid(format!(
                        "{}: it states no baseTimeNanoseconds, so its clock cannot be aligned by force; \
                         give the offsets or leave the clocks alone",
                        path.display()
                    ))
                })?);
            }
            let domain = if inputs.iter().all(|(_, c)| c.realtime().is_some()) { "realtime" } else { "unknown" };
            if let Err(path) = shift(inputs, &bases, domain, i128::from(i64::MAX), &mut result) {
                return Err(Error::invalid(format!(
                    "{}: its time base is too far from the others' for any offset",
                    path.display()
                )));
            }
        }
        Alignment::Auto => auto(inputs, &mut result),
    }
    Ok(result)
}

fn auto(inputs: &[(PathBuf, Clock)], result: &mut Aligned) {
    let Some((_, first)) = inputs.first() else { return };
    let names = |pick: &dyn Fn(&Clock) -> bool| {
        let picked: Vec<_> = inputs.iter().filter(|(_, c)| pick(c)).map(|(p, _)| p.display().to_string()).collect();
        match picked.len() {
            0..=8 => picked.join(", "),
            n => format!("{} and {} more", picked[..8].join(", "), n - 8),
        }
    };
    let agree = |a: Option<i128>, b: Option<i128>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= SAME_BOOT_NS,
        _ => true,
    };
    let one_monotonic = inputs.iter().all(|(_, c)| {
        c.domain == Domain::Monotonic
            && c.base.is_some()
            && c.host.is_some()
            && c.host == first.host
            && agree(c.anchor, first.anchor)
    });
    let (bases, domain): (Vec<i128>, _) = if one_monotonic {
        (inputs.iter().filter_map(|(_, c)| c.base).collect(), "monotonic")
    } else {
        (inputs.iter().filter_map(|(_, c)| c.realtime()).collect(), "realtime")
    };
    if bases.len() < inputs.len() {
        if inputs.len() > 1 {
            let reason = if inputs.iter().all(|(_, c)| c.base.is_none()) {
                "the inputs do not say when their timestamp 0 was".to_owned()
            } else if inputs.iter().any(|(_, c)| c.base.is_none()) {
                format!("no time base in {}", names(&|c| c.base.is_none()))
            } else if inputs.iter().any(|(_, c)| c.realtime().is_some()) {
                format!("no real-time anchor in {}", names(&|c| c.realtime().is_none()))
            } else {
                "the monotonic clocks of different hosts (or boots) cannot be compared".to_owned()
            };
            result.warnings.push(format!("timestamps were not aligned: {reason} (inputs: {})", names(&|_| true)));
        }
        return;
    }
    if domain == "realtime" {
        // A base of 0 belongs to timestamps that are real time themselves.
        let odd =
            |c: &Clock| c.realtime().is_some_and(|ns| ns != 0 && !(EPOCH_SCALE / 2..5 * EPOCH_SCALE).contains(&ns));
        if inputs.iter().any(|(_, c)| odd(c)) {
            let names = names(&odd);
            result.warnings.push(format!("timestamps were not aligned: the real time stated by {names} cannot be"));
            return;
        }
        // Relative and absolute timestamps mix only through numbers that no viewer shows exactly.
        if bases.contains(&0) && bases.iter().any(|&b| b != 0) {
            let names = names(&|c| c.realtime() == Some(0));
            result.warnings.push(format!(
                "timestamps were not aligned: those of {names} are since 1970, those of the others since a base"
            ));
            return;
        }
    }
    match shift(inputs, &bases, domain, PLAUSIBLE_NS, result) {
        Ok(()) if domain == "realtime" => {
            let known: Option<Vec<u64>> = inputs.iter().map(|(_, c)| c.uncertainty).collect();
            result.uncertainty = known.map(|mut list| {
                list.sort_unstable();
                list.iter().rev().take(2).sum()
            });
        }
        Ok(()) => result.uncertainty = Some(0),
        Err(path) => result.warnings.push(format!(
            "timestamps were not aligned: the time base of {} is more than a year from that of another input",
            path.display()
        )),
    }
}

/// Sets the offsets from the bases, or names the input whose offset would be beyond `most`.
fn shift<'a>(
    inputs: &'a [(PathBuf, Clock)],
    bases: &[i128],
    domain: &'static str,
    most: i128,
    result: &mut Aligned,
) -> std::result::Result<(), &'a PathBuf> {
    let least = bases.iter().copied().min().unwrap_or(0);
    let mut offsets = Vec::with_capacity(bases.len());
    for (base, (path, _)) in bases.iter().zip(inputs) {
        let offset = base - least;
        if offset > most {
            return Err(path);
        }
        offsets.push(i64::try_from(offset).map_err(|_| path)?);
    }
    result.offsets = offsets;
    result.aligned = true;
    result.base = i64::try_from(least).ok().filter(|&base| base != 0);
    result.domain = domain;
    Ok(())
}

/// A decimal number as it is written: `digits` x 10^-`scale`.
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// Exactly; `None` if it is no number or has too many digits.
    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|b| b | 0x20 == b'e') {
            Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let mut digits: i128 = 0;
        let mut scale: i32 = 0;
        let mut fraction = false;
        let mut any = false;
        for &byte in mantissa {
            match byte {
                b'.' if !fraction => fraction = true,
                b'0'..=b'9' => {
                    digits = digits.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                    scale += i32::from(fraction);
                    any = true;
                }
                _ => return None,
            }
        }
        scale = scale.checked_sub(exponent)?;
        while scale < 0 {
            digits = digits.checked_mul(10)?;
            scale += 1;
            if digits == 0 {
                scale = 0;
            }
        }
        (any && scale <= 36).then_some(Self { digits: if negative { -digits } else { digits }, scale: scale as u32 })
    }
}

/// A timestamp or duration in microseconds, as text, in nanoseconds (rounded down).
pub(super) fn parse_ns(text: &[u8]) -> Option<i128> {
    let text = unquoted(text);
    // Digits, and up to three of a fraction: nearly always.
    let mut value: i64 = 0;
    let mut fraction = None;
    if text.len() <= 17 && text.first().is_some_and(u8::is_ascii_digit) {
        let mut plain = true;
        for &byte in text {
            match byte {
                b'0'..=b'9' if fraction != Some(3) => {
                    value = value * 10 + i64::from(byte - b'0');
                    fraction = fraction.map(|n| n + 1);
                }
                b'.' if fraction.is_none() => fraction = Some(0),
                _ => {
                    plain = false;
                    break;
                }
            }
        }
        if plain {
            return Some(i128::from(value) * [1000, 100, 10, 1][fraction.unwrap_or(0)]);
        }
    }
    let number = Decimal::parse(text)?;
    match number.scale {
        0..=3 => number.digits.checked_mul(10i128.pow(3 - number.scale)),
        _ => Some(number.digits.div_euclid(10i128.pow(number.scale - 3))),
    }
}

/// The number inside a string, as some writers put it.
fn unquoted(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
    }
}

/// Appends the timestamp `text` (microseconds) moved by `offset` nanoseconds, digit for digit. Answers whether it
/// could: text that is no number, or has more than 38 digits, is appended as it was.
pub(super) fn shift_ts(text: &[u8], offset: i64, out: &mut Vec<u8>) -> bool {
    let inner = unquoted(text);
    let quoted = inner.len() != text.len();
    let Some(sum) = add(inner, offset) else {
        out.extend_from_slice(text);
        return false;
    };
    if quoted {
        out.push(b'"');
    }
    print(&sum, out);
    if quoted {
        out.push(b'"');
    }
    true
}

/// The sum, with as many decimals as the text has, or up to three if it needs them.
fn add(text: &[u8], offset: i64) -> Option<Decimal> {
    let mut number = Decimal::parse(text)?;
    let mut offset = i128::from(offset);
    // Decimals that the offset does not need are not written.
    let mut needed = 3;
    while needed > number.scale && offset % 10 == 0 {
        offset /= 10;
        needed -= 1;
    }
    if needed >= number.scale {
        number.digits = number.digits.checked_mul(10i128.pow(needed - number.scale))?;
        number.scale = needed;
    } else {
        offset = offset.checked_mul(10i128.pow(number.scale - needed))?;
    }
    number.digits = number.digits.checked_add(offset)?;
    Some(number)
}

fn print(number: &Decimal, out: &mut Vec<u8>) {
    if number.digits < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = match u64::try_from(number.digits.unsigned_abs()) {
        Ok(small) => buffer.format(small),
        Err(_) => buffer.format(number.digits.unsigned_abs()),
    };
    let scale = number.scale as usize;
    if scale == 0 {
        out.extend_from_slice(digits.as_bytes());
    } else if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole.as_bytes());
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(text: &str, offset: i64) -> String {
        let mut out = Vec::new();
        shift_ts(text.as_bytes(), offset, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_move_digit_for_digit() {
        assert_eq!(moved("1.5", 0), "1.5");
        assert_eq!(moved("1.5", 1), "1.501");
        assert_eq!(moved("1.5", 500_000), "501.5");
        assert_eq!(moved("18.611", 1_000), "19.611");
        assert_eq!(moved("18", 1_000), "19");
        assert_eq!(moved("18", -18_001), "-0.001");
        assert_eq!(moved("0.0000001", 1), "0.0010001");
        assert_eq!(moved("-0.5", 500), "0.0");
        assert_eq!(moved("-0.5", 250), "-0.25");
        assert_eq!(moved("10.123000000000001", 7), "10.130000000000001");
        assert_eq!(moved("1682725898236567", 123), "1682725898236567.123");
        assert_eq!(moved("\"12.5\"", 1), "\"12.501\"");
        assert_eq!(moved("1.5e3", 1), "1500.001");
        assert_eq!(moved("15e-1", 1000), "2.5");
        assert_eq!(moved("null", 5), "null");
        assert_eq!(moved("\"soon\"", 5), "\"soon\"");
        assert_eq!(moved("1e999", 5), "1e999");
        assert_eq!(
            moved("123456789012345678901234567890123456789012", 5),
            "123456789012345678901234567890123456789012"
        );
    }

    #[test]
    fn text_is_read_as_nanoseconds() {
        assert_eq!(parse_ns(b"1.5"), Some(1_500));
        assert_eq!(parse_ns(b"1.5009"), Some(1_500));
        assert_eq!(parse_ns(b"-0.0001"), Some(-1));
        assert_eq!(parse_ns(b"1e3"), Some(1_000_000));
        assert_eq!(parse_ns(b"\"7\""), Some(7_000));
        assert_eq!(parse_ns(b"1682725898236567.25"), Some(1_682_725_898_236_567_250));
        assert_eq!(parse_ns(b"x"), None);
        assert_eq!(parse_ns(b""), None);
        assert_eq!(parse_ns(b"."), None);
    }
}
