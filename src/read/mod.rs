//! Trace documents as a stream: what stands around the events, and the events one by one, in bounded memory.
//!
//! [`document`] finds the events, [`cutter`] cuts them into pieces, which threads may take, and [`walk`] checks a piece
//! and hands out its events. All that reads documents is built on this: merging, summaries, checks.
#![forbid(unsafe_code)]

pub(crate) mod args;
mod bounds;
pub(crate) mod cutter;
pub(crate) mod document;
pub(crate) mod event;
pub(crate) mod first;
mod input;
pub(crate) mod json;
pub(crate) mod names;
pub(crate) mod nest;
pub(crate) mod pieces;
pub(crate) mod ranks;
pub(crate) mod reader;
pub(crate) mod repair;
pub(crate) mod simd;
pub(crate) mod sorter;
pub(crate) mod time;
pub(crate) mod walk;

pub use input::{Input, Limits};
