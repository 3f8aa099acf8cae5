//! Side data of events, packed into byte strings so that equal ones are stored once.

use super::event::{Dtypes, GpuDetails, Inputs, Value};
use super::intern::Id;
use crate::error::{Error, Result};

pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads what `put` wrote. Past the end it answers zeros: the bytes come from this module alone.
#[derive(Debug, Clone)]
pub(crate) struct Unpack<'a>(pub(crate) &'a [u8]);

impl<'a> Unpack<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    #[inline]
    pub(crate) fn number(&mut self) -> u64 {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 || shift > 63 {
                return value;
            }
        }
    }

    #[inline]
    pub(crate) fn signed(&mut self) -> i64 {
        let value = self.number();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    pub(crate) fn float(&mut self) -> f64 {
        let Some((bytes, rest)) = self.0.split_first_chunk::<8>() else { return 0.0 };
        self.0 = rest;
        f64::from_le_bytes(*bytes)
    }
}

/// What follows the dimensions in packed inputs.
pub(crate) const DTYPES_NONE: u8 = 0;
pub(crate) const DTYPES_CODES: u8 = 1;
pub(crate) const DTYPES_NAMES: u8 = 2;

/// A code that has no name.
const NO_DTYPE: u8 = u8::MAX;

/// Packs shapes and element types. `names` are the ids of [`Dtypes::Names`].
pub(crate) fn inputs(out: &mut Vec<u8>, inputs: &Inputs<'_>, names: &[Id]) -> Result<()> {
    let dims: u64 = inputs.ranks.iter().map(|&rank| u64::from(rank)).sum();
    if dims != inputs.dims.len() as u64 {
        return Err(Error::invalid(format!(
            "inputs: the ranks add up to {dims} dimensions, but {} are given",
            inputs.dims.len()
        )));
    }
    put(out, inputs.ranks.len() as u64);
    let mut rest = inputs.dims;
    for &rank in inputs.ranks {
        put(out, u64::from(rank));
        let (these, others) = rest.split_at(rank as usize);
        rest = others;
        these.iter().for_each(|&dim| put_signed(out, dim));
    }
    match inputs.dtypes {
        Dtypes::None => out.push(DTYPES_NONE),
        Dtypes::Codes(codes) => {
            out.push(DTYPES_CODES);
            put(out, codes.len() as u64);
            out.extend(codes.iter().map(|&code| u8::try_from(code).unwrap_or(NO_DTYPE)));
        }
        Dtypes::Names(_) => {
            out.push(DTYPES_NAMES);
            put(out, names.len() as u64);
            names.iter().for_each(|&name| put(out, u64::from(name)));
        }
    }
    Ok(())
}

/// Packs a list of texts.
pub(crate) fn ids(out: &mut Vec<u8>, ids: &[Id]) {
    put(out, ids.len() as u64);
    ids.iter().for_each(|&id| put(out, u64::from(id)));
}

pub(crate) const VALUE_INT: u8 = 0;
pub(crate) const VALUE_UINT: u8 = 1;
pub(crate) const VALUE_FLOAT: u8 = 2;
pub(crate) const VALUE_FALSE: u8 = 3;
pub(crate) const VALUE_TRUE: u8 = 4;
pub(crate) const VALUE_TEXT: u8 = 5;

/// Packs one value; `text` is the id of a [`Value::Text`].
pub(crate) fn value(out: &mut Vec<u8>, value: &Value<'_>, text: Id) {
    match *value {
        Value::Int(number) => {
            out.push(VALUE_INT);
            put_signed(out, number);
        }
        Value::Uint(number) => {
            out.push(VALUE_UINT);
            put(out, number);
        }
        Value::Float(number) => {
            out.push(VALUE_FLOAT);
            out.extend_from_slice(&number.to_le_bytes());
        }
        Value::Bool(flag) => out.push(if flag { VALUE_TRUE } else { VALUE_FALSE }),
        Value::Text(_) => {
            out.push(VALUE_TEXT);
            put(out, u64::from(text));
        }
    }
}

const GRID: u64 = 1;
const BLOCK: u64 = 1 << 1;
const REGISTERS: u64 = 1 << 2;
const SHARED: u64 = 1 << 3;
const CONTEXT: u64 = 1 << 4;
const GRAPH: u64 = 1 << 5;
const NODE: u64 = 1 << 6;
const PRIORITY: u64 = 1 << 7;
const CHANNEL: u64 = 1 << 8;
const CLUSTER: u64 = 1 << 9;
const PEER: u64 = 1 << 10;
const EVENT: u64 = 1 << 11;
const RESULT: u64 = 1 << 12;

/// Packs what is known of a GPU activity; nothing for nothing.
pub(crate) fn details(out: &mut Vec<u8>, details: &GpuDetails) {
    if *details == GpuDetails::default() {
        return;
    }
    let bit = |present: bool, bit: u64| if present { bit } else { 0 };
    put(
        out,
        bit(details.grid.is_some(), GRID)
            | bit(details.block.is_some(), BLOCK)
            | bit(details.registers_per_thread.is_some(), REGISTERS)
            | bit(details.shared_memory.is_some(), SHARED)
            | bit(details.context.is_some(), CONTEXT)
            | bit(details.graph_id.is_some(), GRAPH)
            | bit(details.graph_node_id.is_some(), NODE)
            | bit(details.priority.is_some(), PRIORITY)
            | bit(details.channel.is_some(), CHANNEL)
            | bit(details.cluster.is_some(), CLUSTER)
            | bit(details.peer.is_some(), PEER)
            | bit(details.event.is_some(), EVENT)
            | bit(details.result.is_some(), RESULT),
    );
    for triple in [details.grid, details.block].into_iter().flatten() {
        triple.iter().for_each(|&n| put(out, u64::from(n)));
    }
    for number in [details.registers_per_thread, details.shared_memory, details.context, details.graph_id] {
        number.into_iter().for_each(|n| put(out, u64::from(n)));
    }
    details.graph_node_id.into_iter().for_each(|n| put(out, n));
    details.priority.into_iter().for_each(|n| put_signed(out, i64::from(n)));
    details.channel.into_iter().flatten().for_each(|n| put(out, u64::from(n)));
    details.cluster.into_iter().flatten().for_each(|n| put(out, u64::from(n)));
    details.peer.into_iter().flatten().for_each(|n| put(out, u64::from(n)));
    details.event.into_iter().for_each(|n| put(out, u64::from(n)));
    details.result.into_iter().for_each(|n| put_signed(out, i64::from(n)));
}

/// The reverse of [`details`].
pub(crate) fn unpack_details(bytes: &[u8]) -> GpuDetails {
    if bytes.is_empty() {
        return GpuDetails::default();
    }
    let mut from = Unpack(bytes);
    let mask = from.number();
    let has = |bit| mask & bit != 0;
    fn numbers<const N: usize>(from: &mut Unpack<'_>) -> [u32; N] {
        std::array::from_fn(|_| from.number() as u32)
    }
    GpuDetails {
        grid: has(GRID).then(|| numbers(&mut from)),
        block: has(BLOCK).then(|| numbers(&mut from)),
        registers_per_thread: has(REGISTERS).then(|| from.number() as u32),
        shared_memory: has(SHARED).then(|| from.number() as u32),
        context: has(CONTEXT).then(|| from.number() as u32),
        graph_id: has(GRAPH).then(|| from.number() as u32),
        graph_node_id: has(NODE).then(|| from.number()),
        priority: has(PRIORITY).then(|| from.signed() as i32),
        channel: has(CHANNEL).then(|| numbers(&mut from)),
        cluster: has(CLUSTER).then(|| numbers(&mut from)),
        peer: has(PEER).then(|| numbers(&mut from)),
        event: has(EVENT).then(|| from.number() as u32),
        result: has(RESULT).then(|| from.signed() as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Vec::new();
        let unsigned = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let signed = [0, -1, 1, 63, -64, 64, i64::MIN, i64::MAX];
        unsigned.iter().for_each(|&n| put(&mut out, n));
        signed.iter().for_each(|&n| put_signed(&mut out, n));
        let mut from = Unpack(&out);
        assert!(unsigned.iter().all(|&n| from.number() == n));
        assert!(signed.iter().all(|&n| from.signed() == n));
        assert!(from.0.is_empty());
    }

    #[test]
    fn details_come_back() {
        let all = GpuDetails {
            grid: Some([1, 2, 3]),
            block: Some([1024, 1, u32::MAX]),
            registers_per_thread: Some(32),
            shared_memory: Some(49152),
            context: Some(1),
            graph_id: Some(7),
            graph_node_id: Some(u64::MAX),
            priority: Some(-5),
            channel: Some([11, 1]),
            cluster: Some([2, 1, 1]),
            peer: Some([0, 1, u32::MAX, 2]),
            event: Some(17),
            result: Some(-719),
        };
        for details in [all, GpuDetails { context: Some(0), ..Default::default() }, GpuDetails::default()] {
            let mut out = Vec::new();
            super::details(&mut out, &details);
            assert_eq!(unpack_details(&out), details);
        }
    }

    #[test]
    fn ranks_must_fit() {
        let wrong = Inputs { dims: &[1, 2, 3], ranks: &[2, 2], dtypes: Dtypes::None };
        assert!(inputs(&mut Vec::new(), &wrong, &[]).is_err());
    }
}
