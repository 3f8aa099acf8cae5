//! Perfetto's own format: a sequence of packets, as `protos/perfetto/trace/trace_packet.proto` of Perfetto describes them.
//!
//! All packets are of one sequence. Names are sent once and called by number (interned). Times are nanoseconds of the
//! boot clock, which is the clock that Perfetto shows, so that none is ever converted.
#![forbid(unsafe_code)]

pub(crate) mod packet;
pub(crate) mod wire;
