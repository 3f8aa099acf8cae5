//! The C ABI: pointers to Rust types, errors and panics to statuses.
//!
//! Nothing else in the crate looks up at this module. `include/tracer.h` is generated from it, so the comments here
//! are written for readers of C.
// The safety section of every function is the page of conventions in docs/c-api.md, which the header repeats.
#![allow(unsafe_code, non_camel_case_types, clippy::missing_safety_doc)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]

// In the order of the header.
pub mod status;

pub mod types;

pub mod trace;

pub mod add;

pub mod write;

pub mod merge;
pub mod record;

pub mod journal;
pub mod split;

pub mod gpu;

pub mod collect;

pub mod table;

mod guard;
mod input;
pub mod python;
