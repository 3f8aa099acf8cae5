//! Packets that follow one another.
//!
//! Those of one track come in order of time, so each says the time since the last, the track is said once, and texts are
//! sent where they are first used and called by small numbers then. Events that come in any order, and on any track, share
//! one sequence, on which each says its time and its track.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::packet::{Kind, TRACE_PACKET, field, text};
use super::wire::{self, Value};

/// The sequence of what belongs to no track alone. Tracks have those after it.
pub(super) const SHARED: u64 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED`: nothing that came before is needed to read on.
pub(super) const STATE_CLEARED: u64 = 1;

pub(super) const REALTIME: u64 = 1;
pub(super) const BOOTTIME: u64 = 6;
/// The first of the clocks that each sequence has for itself.
const OWN_CLOCK: u64 = 64;

/// What is interned: each kind has numbers of its own, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Interned {
    Category,
    Name,
    Key,
    Text,
}

impl Interned {
    /// The field of `InternedData`.
    fn field(self) -> u32 {
        match self {
            Self::Category => 1,
            Self::Name => 2,
            Self::Key => 3,
            Self::Text => 29,
        }
    }
}

/// Writes events one after the other. What is written can be read without what another sequence has written, in the
/// order of the file or in any other.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// None for the shared one.
    track: Option<u64>,
    /// The time of the last packet, once there was one.
    last: Option<u64>,
    /// Of texts that were sent, by kind and by what the caller knows them by.
    numbers: HashMap<(Interned, u64), u64, FixedState>,
    counts: [u64; 4],
    /// Texts for the packet that is being written.
    news: Vec<u8>,
}

/// An event that is being written: argument by argument, until it is closed.
#[derive(Debug)]
#[must_use]
pub(crate) struct Event {
    packet: usize,
    event: usize,
}

impl Sequence {
    /// For events of any track, in any order.
    pub(crate) fn shared() -> Self {
        Self { track: None, last: None, numbers: HashMap::default(), counts: [0; 4], news: Vec::new() }
    }

    /// For events of one track that come in order of time.
    pub(crate) fn of(track: u64) -> Self {
        Self { track: Some(track), ..Self::shared() }
    }

    fn id(&self) -> u64 {
        self.track.map_or(SHARED, |track| SHARED + 1 + track)
    }

    /// Opens an event at `time`, in nanoseconds, on the sequence's own track.
    #[inline]
    pub(crate) fn event(&mut self, out: &mut Vec<u8>, time: u64, kind: Kind) -> Event {
        self.open(out, time, None, kind)
    }

    /// Opens an event of the shared sequence. Track 0 is that of the whole trace.
    #[inline]
    pub(crate) fn event_on(&mut self, out: &mut Vec<u8>, time: u64, track: u64, kind: Kind) -> Event {
        self.open(out, time, Some(track), kind)
    }

    #[inline]
    fn open(&mut self, out: &mut Vec<u8>, time: u64, track: Option<u64>, kind: Kind) -> Event {
        let last = match self.last {
            Some(last) => last,
            None => {
                self.start(out);
                0
            }
        };
        debug_assert!(self.track.is_none() || time >= last, "{time} after {last}");
        self.last = Some(time);
        let packet = wire::open(out, TRACE_PACKET);
        wire::uint(out, field::TIMESTAMP, if self.track.is_some() { time.saturating_sub(last) } else { time });
        wire::uint(out, field::SEQUENCE, self.id());
        let event = wire::open(out, field::TRACK_EVENT);
        if kind != Kind::Legacy {
            wire::uint(out, 9, kind as u64);
        }
        if let Some(track) = track {
            wire::uint(out, 11, track);
        }
        Event { packet, event }
    }

    /// The packet that the others build on: a clock, and the track. The clock starts at 0, where no event is: the viewer
    /// marks the times at which clocks were read.
    #[cold]
    fn start(&self, out: &mut Vec<u8>) {
        wire::message(out, TRACE_PACKET, |out| {
            wire::uint(out, field::SEQUENCE, self.id());
            wire::uint(out, field::SEQUENCE_FLAGS, STATE_CLEARED);
            let Some(track) = self.track else { return };
            wire::message(out, field::CLOCK_SNAPSHOT, |out| {
                for (id, incremental) in [(OWN_CLOCK, true), (BOOTTIME, false)] {
                    wire::message(out, 1, |out| {
                        wire::uint(out, 1, id);
                        wire::uint(out, 2, 0);
                        if incremental {
                            wire::uint(out, 3, 1);
                        }
                    });
                }
            });
            wire::message(out, field::DEFAULTS, |out| {
                wire::uint(out, field::TIMESTAMP_CLOCK, OWN_CLOCK);
                wire::message(out, field::TRACK_EVENT, |out| wire::uint(out, 11, track));
            });
        });
    }

    /// The number of a text, which the caller knows by `key` among those of its kind. It is sent with the open event if
    /// it is new.
    #[inline]
    pub(crate) fn number(&mut self, kind: Interned, key: u64, content: impl FnOnce(&mut dyn FnMut(&[u8]))) -> u64 {
        if let Some(&number) = self.numbers.get(&(kind, key)) {
            return number;
        }
        let count = &mut self.counts[kind as usize];
        *count += 1;
        let number = *count;
        self.numbers.insert((kind, key), number);
        content(&mut |bytes| {
            wire::message(&mut self.news, kind.field(), |out| {
                wire::uint(out, 1, number);
                text(out, 2, bytes);
            });
        });
        number
    }

    /// Appends the fields of an event that was put aside, whose texts have numbers of the caller's: they get those of this
    /// sequence.
    pub(crate) fn copy<'t>(&mut self, out: &mut Vec<u8>, event: &[u8], text_of: &impl Fn(u64) -> &'t [u8]) {
        for (number, value, whole) in wire::fields(event) {
            match (number, value) {
                (3, Value::Varint(text)) => wire::uint(out, 3, self.renumber(Interned::Category, text, text_of)),
                (10, Value::Varint(text)) => wire::uint(out, 10, self.renumber(Interned::Name, text, text_of)),
                (4, Value::Bytes(argument)) => wire::message(out, 4, |out| {
                    for (number, value, whole) in wire::fields(argument) {
                        match (number, value) {
                            (1, Value::Varint(text)) => {
                                wire::uint(out, 1, self.renumber(Interned::Key, text, text_of));
                            }
                            (17, Value::Varint(text)) => {
                                wire::uint(out, 17, self.renumber(Interned::Text, text, text_of));
                            }
                            _ => out.extend_from_slice(whole),
                        }
                    }
                }),
                _ => out.extend_from_slice(whole),
            }
        }
    }

    #[inline]
    fn renumber<'t>(&mut self, kind: Interned, text: u64, text_of: &impl Fn(u64) -> &'t [u8]) -> u64 {
        self.number(kind, text, |send| send(text_of(text)))
    }
}

impl Event {
    #[inline]
    pub(crate) fn close(self, out: &mut Vec<u8>, sequence: &mut Sequence) {
        wire::close(out, self.event);
        if !sequence.news.is_empty() {
            wire::bytes(out, field::INTERNED, &sequence.news);
            sequence.news.clear();
        }
        wire::close(out, self.packet);
    }
}
