//! The GPU without a GPU: against fake libraries that are compiled here, each in a process of its own.

mod discovery;
mod fakes;
