//! What is said of the trace, of processes, lanes and counters, before their events.

use super::packet::{TRACE_PACKET, field, text};
use super::sequence::{BOOTTIME, REALTIME, SHARED, STATE_CLEARED};
use super::wire;

fn packet(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    wire::message(out, TRACE_PACKET, |out| {
        content(out);
        wire::uint(out, field::SEQUENCE, SHARED);
    });
}

/// The first packet. `realtime_ns`: what the wall clock showed at time 0, if that is known.
pub(crate) fn start(out: &mut Vec<u8>, realtime_ns: Option<u64>) {
    packet(out, |out| {
        wire::uint(out, field::FIRST_ON_SEQUENCE, 1);
        wire::uint(out, field::SEQUENCE_FLAGS, STATE_CLEARED);
        wire::message(out, field::CLOCK_SNAPSHOT, |out| {
            let mut clock = |id: u64, time: u64| {
                wire::message(out, 1, |out| {
                    wire::uint(out, 1, id);
                    wire::uint(out, 2, time);
                });
            };
            clock(BOOTTIME, 0);
            if let Some(time) = realtime_ns {
                clock(REALTIME, time);
            }
            wire::uint(out, 2, BOOTTIME);
        });
    });
}

fn descriptor(out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>)) {
    packet(out, |out| wire::message(out, field::TRACK_DESCRIPTOR, content));
}

/// A track with its place among the others.
fn ranked(out: &mut Vec<u8>, track: u64, rank: Option<i32>, content: impl FnOnce(&mut Vec<u8>)) {
    descriptor(out, |out| {
        wire::uint(out, 1, track);
        if let Some(rank) = rank {
            wire::int(out, 12, i64::from(rank));
        }
        content(out);
    });
}

/// Says that processes and threads are sorted by the ranks that they have. Before them.
pub(crate) fn sorted_by_rank(out: &mut Vec<u8>) {
    descriptor(out, |out| {
        wire::uint(out, 1, 0);
        wire::uint(out, 19, 1);
        wire::uint(out, 20, 1);
    });
}

/// A process, with what it is called and its place among the others.
pub(crate) fn process(out: &mut Vec<u8>, track: u64, pid: u32, name: &[u8], labels: &[&[u8]], rank: Option<i32>) {
    ranked(out, track, rank, |out| {
        wire::message(out, 3, |out| {
            wire::uint(out, 1, u64::from(pid));
            text(out, 6, name);
            labels.iter().for_each(|label| text(out, 8, label));
        });
    });
}

/// A thread or a stream: a track of slices of a process.
pub(crate) fn thread(out: &mut Vec<u8>, track: u64, pid: u32, tid: u32, name: Option<&[u8]>, rank: Option<i32>) {
    ranked(out, track, rank, |out| {
        wire::message(out, 4, |out| {
            wire::uint(out, 1, u64::from(pid));
            wire::uint(out, 2, u64::from(tid));
            if let Some(name) = name {
                text(out, 5, name);
            }
        });
    });
}

/// A counter of the process whose track is `parent`.
pub(crate) fn counter(out: &mut Vec<u8>, track: u64, parent: u64, name: &[u8]) {
    descriptor(out, |out| {
        wire::uint(out, 1, track);
        wire::uint(out, 5, parent);
        text(out, 2, name);
        wire::message(out, 8, |_| {});
    });
}
