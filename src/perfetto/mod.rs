//! Perfetto's own format: a sequence of packets, as `protos/perfetto/trace/trace_packet.proto` of Perfetto describes them.
//!
//! Each track has a sequence of packets of its own, which says times as the time since the last packet, and texts by
//! numbers. Times end up as nanoseconds of the boot clock, which is the clock that Perfetto shows.
#![forbid(unsafe_code)]

pub(crate) mod describe;
pub(crate) mod packet;
pub(crate) mod sequence;
pub(crate) mod wire;
