//! What a trace is made of: events, texts, threads, clocks, ranks. Knows no JSON and no pointers.
#![forbid(unsafe_code)]

pub(crate) mod clock;
pub(crate) mod counts;
pub(crate) mod dtype;
pub(crate) mod event;
pub(crate) mod extra;
pub(crate) mod gpu;
pub(crate) mod identity;
pub(crate) mod intern;
mod keys;
pub(crate) mod log;
pub(crate) mod pack;
mod recent;
pub(crate) mod record;
mod reserved;
mod since;
pub(crate) mod snapshot;
pub(crate) mod span;
pub(crate) mod store;
