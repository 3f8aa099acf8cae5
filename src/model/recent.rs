//! Shapes seen lately. A training step repeats its shapes, and comparing them costs less than packing them again.

use super::event::{Dtypes, Inputs};
use super::intern::Id;

const SLOTS: usize = 64;
/// Longer ones are packed each time, which bounds the memory.
const MAX_DIMS: usize = 24;

/// A few packed inputs by what they were packed from.
#[derive(Debug)]
pub(crate) struct RecentInputs(Box<[Option<Slot>; SLOTS]>);

#[derive(Debug)]
struct Slot {
    id: Id,
    dims: Vec<i64>,
    ranks: Vec<u32>,
    codes: Option<Vec<i32>>,
}

impl Default for RecentInputs {
    fn default() -> Self {
        Self(Box::new([const { None }; SLOTS]))
    }
}

/// Where inputs would stand, and their codes; nothing for those that are not kept.
#[inline]
fn place<'a>(inputs: &Inputs<'a>) -> Option<(usize, Option<&'a [i32]>)> {
    let codes = match inputs.dtypes {
        Dtypes::None => None,
        Dtypes::Codes(codes) if codes.len() <= MAX_DIMS => Some(codes),
        _ => return None,
    };
    if inputs.dims.len() > MAX_DIMS || inputs.ranks.len() > MAX_DIMS {
        return None;
    }
    let mix = |sum: u64, &dim: &i64| sum.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(dim as u64);
    let hash = inputs.dims.iter().fold(inputs.ranks.len() as u64, mix).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(((hash >> 58) as usize % SLOTS, codes))
}

impl RecentInputs {
    #[inline]
    pub(crate) fn find(&self, inputs: &Inputs<'_>) -> Option<Id> {
        let (slot, codes) = place(inputs)?;
        let slot = self.0[slot].as_ref()?;
        let same = slot.dims == inputs.dims && slot.ranks == inputs.ranks && slot.codes.as_deref() == codes;
        same.then_some(slot.id)
    }

    #[cold]
    pub(crate) fn note(&mut self, inputs: &Inputs<'_>, id: Id) {
        if let Some((slot, codes)) = place(inputs) {
            let (dims, ranks, codes) = (inputs.dims.to_vec(), inputs.ranks.to_vec(), codes.map(<[i32]>::to_vec));
            self.0[slot] = Some(Slot { id, dims, ranks, codes });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_equal_inputs_are_found() {
        let mut recent = RecentInputs::default();
        let all: Vec<Inputs<'_>> = [
            (&[2, 3][..], &[2][..], Dtypes::None),
            (&[2, 3], &[1, 1], Dtypes::None),
            (&[2, 3], &[2], Dtypes::Codes(&[])),
            (&[2, 3], &[2], Dtypes::Codes(&[8])),
            (&[2, 3], &[2], Dtypes::Codes(&[4])),
            (&[3, 2], &[2], Dtypes::Codes(&[8])),
            (&[], &[], Dtypes::None),
            (&[], &[0], Dtypes::None),
        ]
        .map(|(dims, ranks, dtypes)| Inputs { dims, ranks, dtypes })
        .to_vec();
        for (id, inputs) in (1..).zip(&all) {
            recent.note(inputs, id);
            let found: Vec<Id> = all.iter().filter_map(|inputs| recent.find(inputs)).collect();
            assert_eq!(recent.find(inputs), Some(id));
            // One that shared its slot may be gone; none is taken for another.
            assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "{found:?}");
        }
        let names = Inputs { dims: &[2, 3], ranks: &[2], dtypes: Dtypes::Names(&[]) };
        recent.note(&names, 99);
        assert_eq!(recent.find(&names), None);
    }
}
