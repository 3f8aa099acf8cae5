//! Texts and side data of events: interned, packed, stored once.

use std::collections::HashSet;

use super::{Aside, Store};
use crate::error::Result;
use crate::model::event::{Arg, Dtypes, Inputs, Text, Value};
use crate::model::intern::{Id, NONE};
use crate::model::pack;

impl Store {
    #[inline]
    pub(super) fn text(&mut self, text: Text<'_>) -> Result<Id> {
        match self.texts.find(text.0) {
            // Only UTF-8 is stored, so what is found is UTF-8.
            Some(id) => Ok(id),
            None => self.new_text(text),
        }
    }

    #[cold]
    pub(super) fn new_text(&mut self, text: Text<'_>) -> Result<Id> {
        let lossy = String::from_utf8_lossy(text.0);
        self.counts.repaired_texts += u64::from(matches!(lossy, std::borrow::Cow::Owned(_)));
        match &mut self.aside {
            Some(aside) => aside.texts.intern(&mut self.texts, lossy.as_bytes()),
            None => self.texts.intern(lossy.as_bytes()),
        }
    }

    /// An id for side data: one for all that are equal, or a new one for what hardly ever repeats.
    #[inline]
    fn store_packed(&mut self, repeats: bool) -> Result<Id> {
        match (&mut self.aside, repeats) {
            (None, true) => self.packed.intern(&self.bytes_scratch),
            (None, false) => self.packed.push(&self.bytes_scratch),
            (Some(aside), true) => aside.packed.intern(&mut self.packed, &self.bytes_scratch),
            (Some(aside), false) => aside.packed.push(&self.bytes_scratch),
        }
    }

    /// Does `make` with what it puts into the store, but for threads, put beside it.
    pub(super) fn beside<T>(&mut self, aside: &mut Option<Box<Aside>>, make: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(&mut self.aside, aside);
        let made = make(self);
        std::mem::swap(&mut self.aside, aside);
        made
    }

    /// Packs side data into a scratch buffer and stores it once.
    pub(super) fn pack(&mut self, fill: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<()>) -> Result<Id> {
        let mut bytes = std::mem::take(&mut self.bytes_scratch);
        bytes.clear();
        let filled = fill(self, &mut bytes);
        self.bytes_scratch = bytes;
        filled?;
        if self.bytes_scratch.is_empty() { Ok(NONE) } else { self.store_packed(true) }
    }

    /// Packs the rare part of an event, if it has one: once for all events if others are likely to have the same.
    #[inline]
    pub(super) fn pack_extra(&mut self, repeats: bool, fill: impl FnOnce(&mut Vec<u8>)) -> Result<Id> {
        self.bytes_scratch.clear();
        fill(&mut self.bytes_scratch);
        if self.bytes_scratch.is_empty() { Ok(NONE) } else { self.store_packed(repeats) }
    }

    pub(super) fn text_ids(&mut self, texts: &[Text<'_>]) -> Result<Vec<Id>> {
        let mut ids = std::mem::take(&mut self.ids_scratch);
        ids.clear();
        for &text in texts {
            ids.push(self.text(text)?);
        }
        Ok(ids)
    }

    /// Packs shapes and element types.
    pub(super) fn inputs(&mut self, inputs: &Inputs<'_>) -> Result<Id> {
        if let Some(id) = self.recent_inputs.find(inputs) {
            return Ok(id);
        }
        let names = match inputs.dtypes {
            Dtypes::Names(names) => self.text_ids(names)?,
            _ => Vec::new(),
        };
        let id = self.pack(|_, out| pack::inputs(out, inputs, &names))?;
        if self.aside.is_none() {
            self.recent_inputs.note(inputs, id);
        }
        Ok(id)
    }

    pub(super) fn stack(&mut self, stack: &[Text<'_>]) -> Result<Id> {
        if stack.is_empty() {
            return Ok(NONE);
        }
        let ids = self.text_ids(stack)?;
        let id = self.pack(|_, out| {
            pack::ids(out, &ids);
            Ok(())
        });
        self.ids_scratch = ids;
        id
    }

    /// Packs free arguments: keys of the format's own get a prefix, of equal keys the last one counts.
    pub(super) fn args(&mut self, args: &[Arg<'_>], reserved: &[&str]) -> Result<Id> {
        if args.is_empty() {
            return Ok(NONE);
        }
        let mut kept = Vec::with_capacity(args.len());
        let mut seen = HashSet::<Id>::with_capacity(args.len());
        for arg in args.iter().rev() {
            let key = if reserved.iter().any(|name| name.as_bytes() == arg.key.0) {
                self.text(Text(&[b"user.", arg.key.0].concat()))?
            } else {
                self.text(arg.key)?
            };
            if seen.insert(key) {
                let text = if let Value::Text(text) = arg.value { self.text(text)? } else { NONE };
                kept.push((key, arg.value, text));
            }
        }
        let mut bytes = std::mem::take(&mut self.bytes_scratch);
        bytes.clear();
        pack::put(&mut bytes, kept.len() as u64);
        for (key, value, text) in kept.iter().rev() {
            pack::put(&mut bytes, u64::from(*key));
            pack::value(&mut bytes, value, *text);
        }
        self.bytes_scratch = bytes;
        self.store_packed(false)
    }
}
