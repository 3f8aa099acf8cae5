//! On which clock an input's timestamps are, and by how much they move to meet the others'.

use std::path::PathBuf;

use serde_json::Value;

use super::options::Alignment;
use crate::error::{Error, Result};
use crate::read::document::Member;
use crate::read::time::parse_ns;

/// Nanoseconds; a base above is taken for time since 1970 (it is September 2001), not since a boot.
const EPOCH_SCALE: i128 = 1_000_000_000_000_000_000;
/// No two ranks of one job start further apart than this.
const PLAUSIBLE_NS: i128 = 366 * 86_400 * 1_000_000_000;
/// Two anchors of one boot of a host agree at least this well.
const SAME_BOOT_NS: i128 = 1_000_000_000;

/// What helps where a plain document says nothing.
const TORCH: &str = "; documents in the torch format (format=\"torch\") state it";

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
    pub(super) fn of(members: &[Member], first_ts: Option<&[u8]>) -> Self {
        let get = |key: &str| members.iter().rev().find(|(known, _)| known == key);
        let json = |key: &str| get(key).and_then(|(_, raw)| serde_json::from_slice::<Value>(raw).ok());
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

    /// The clock of timestamps to which so many nanoseconds were added.
    pub(super) fn moved(mut self, ns: i64) -> Self {
        self.base = self.base.map(|base| base - i128::from(ns));
        self
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
                format!("the inputs do not say when their timestamp 0 was{TORCH}")
            } else if inputs.iter().any(|(_, c)| c.base.is_none()) {
                format!("no time base in {}{TORCH}", names(&|c| c.base.is_none()))
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
