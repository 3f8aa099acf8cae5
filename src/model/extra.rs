//! What only some events carry, packed beside the records so that the others do not pay for it.

use super::event::Int;
use super::intern::{Id, NONE};
use super::pack::{Unpack, put, put_signed};

/// The rare part of an op.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OpExtra {
    /// NaN for unknown.
    pub(crate) gpu_ms: f64,
    pub(crate) kernel_count: i64,
    pub(crate) output_bytes: i64,
    pub(crate) stack: Id,
    pub(crate) args: Id,
}

impl Default for OpExtra {
    fn default() -> Self {
        Self { gpu_ms: f64::NAN, kernel_count: 0, output_bytes: 0, stack: NONE, args: NONE }
    }
}

/// The rare part of a GPU activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct GpuExtra {
    pub(crate) bytes: Int,
    pub(crate) copy_kind: i64,
    pub(crate) value: u32,
    pub(crate) details: Id,
    pub(crate) args: Id,
}

const GPU_MS: u8 = 1;
const KERNELS: u8 = 1 << 1;
const OUTPUT: u8 = 1 << 2;
const STACK: u8 = 1 << 3;
const ARGS: u8 = 1 << 4;

impl OpExtra {
    /// Packs what is there; nothing for nothing. A mask says which numbers follow.
    pub(crate) fn pack(&self, out: &mut Vec<u8>) {
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        let mask = bit(!self.gpu_ms.is_nan(), GPU_MS)
            | bit(self.kernel_count != 0, KERNELS)
            | bit(self.output_bytes != 0, OUTPUT)
            | bit(self.stack != NONE, STACK)
            | bit(self.args != NONE, ARGS);
        if mask == 0 {
            return;
        }
        out.push(mask);
        if mask & GPU_MS != 0 {
            out.extend_from_slice(&self.gpu_ms.to_le_bytes());
        }
        for (flag, number) in [(KERNELS, self.kernel_count), (OUTPUT, self.output_bytes)] {
            if mask & flag != 0 {
                put_signed(out, number);
            }
        }
        for (flag, id) in [(STACK, self.stack), (ARGS, self.args)] {
            if mask & flag != 0 {
                put(out, u64::from(id));
            }
        }
    }

    /// The reverse of [`OpExtra::pack`].
    #[inline]
    pub(crate) fn unpack(bytes: &[u8]) -> Self {
        let mut from = Unpack(bytes);
        let mask = from.byte();
        let has = |bit| mask & bit != 0;
        Self {
            gpu_ms: if has(GPU_MS) { from.float() } else { f64::NAN },
            kernel_count: if has(KERNELS) { from.signed() } else { 0 },
            output_bytes: if has(OUTPUT) { from.signed() } else { 0 },
            stack: if has(STACK) { from.number() as Id } else { NONE },
            args: if has(ARGS) { from.number() as Id } else { NONE },
        }
    }
}

const BYTES: u8 = 1;
const NEGATIVE_BYTES: u8 = 1 << 1;
const COPY_KIND: u8 = 1 << 2;
const VALUE: u8 = 1 << 3;
const DETAILS: u8 = 1 << 4;
const GPU_ARGS: u8 = 1 << 5;

impl GpuExtra {
    /// As [`OpExtra::pack`].
    pub(crate) fn pack(&self, out: &mut Vec<u8>) {
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        let mask = match self.bytes {
            Int::Unsigned(bytes) => bit(bytes != 0, BYTES),
            Int::Negative(_) => NEGATIVE_BYTES,
        } | bit(self.copy_kind != 0, COPY_KIND)
            | bit(self.value != 0, VALUE)
            | bit(self.details != NONE, DETAILS)
            | bit(self.args != NONE, GPU_ARGS);
        if mask == 0 {
            return;
        }
        out.push(mask);
        match self.bytes {
            Int::Unsigned(0) => {}
            Int::Unsigned(bytes) => put(out, bytes),
            Int::Negative(bytes) => put_signed(out, bytes),
        }
        if mask & COPY_KIND != 0 {
            put_signed(out, self.copy_kind);
        }
        for (flag, number) in [(VALUE, self.value), (DETAILS, self.details), (GPU_ARGS, self.args)] {
            if mask & flag != 0 {
                put(out, u64::from(number));
            }
        }
    }

    /// The reverse of [`GpuExtra::pack`].
    #[inline]
    pub(crate) fn unpack(bytes: &[u8]) -> Self {
        let mut from = Unpack(bytes);
        let mask = from.byte();
        let has = |bit| mask & bit != 0;
        let bytes = match mask & (BYTES | NEGATIVE_BYTES) {
            0 => Int::default(),
            BYTES => Int::Unsigned(from.number()),
            _ => Int::Negative(from.signed()),
        };
        Self {
            bytes,
            copy_kind: if has(COPY_KIND) { from.signed() } else { 0 },
            value: if has(VALUE) { from.number() as u32 } else { 0 },
            details: if has(DETAILS) { from.number() as Id } else { NONE },
            args: if has(GPU_ARGS) { from.number() as Id } else { NONE },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ops_come_back(gpu_ms in any::<f64>(), kernel_count: i64, output_bytes: i64, stack: Id, args: Id) {
            let extra = OpExtra { gpu_ms, kernel_count, output_bytes, stack, args };
            let mut out = Vec::new();
            extra.pack(&mut out);
            let back = OpExtra::unpack(&out);
            prop_assert_eq!(OpExtra { gpu_ms: 0.0, ..back }, OpExtra { gpu_ms: 0.0, ..extra });
            prop_assert!(back.gpu_ms == gpu_ms || gpu_ms.is_nan() && back.gpu_ms.is_nan());
        }

        #[test]
        fn gpu_activities_come_back(bytes: i64, large: bool, copy_kind: i64, value: u32, details: Id, args: Id) {
            let bytes = match bytes {
                0.. => Int::Unsigned(if large { u64::MAX - bytes as u64 } else { bytes as u64 }),
                _ => Int::Negative(bytes),
            };
            let extra = GpuExtra { bytes, copy_kind, value, details, args };
            let mut out = Vec::new();
            extra.pack(&mut out);
            prop_assert_eq!(GpuExtra::unpack(&out), extra);
        }
    }

    #[test]
    fn nothing_takes_nothing() {
        let mut out = Vec::new();
        OpExtra::default().pack(&mut out);
        GpuExtra::default().pack(&mut out);
        assert!(out.is_empty());
        assert!(OpExtra::unpack(&out).gpu_ms.is_nan());
        assert_eq!(GpuExtra::unpack(&out), GpuExtra::default());
    }
}
