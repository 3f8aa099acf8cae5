//! Write and merge GPU and CPU traces that every trace viewer opens.
#![deny(unsafe_code)]

mod error;
pub mod output;

pub use error::{Error, Result};
