//! Small tables of keys in the order of their first use: the threads and streams that become lanes.

use std::hash::Hash;

use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// Numbers keys from 0 in the order in which they first came.
#[derive(Debug)]
pub(crate) struct Keys<K> {
    order: Vec<K>,
    index: HashMap<K, u32, RandomState>,
    last: Option<(K, u32)>,
}

impl<K> Default for Keys<K> {
    fn default() -> Self {
        Self { order: Vec::new(), index: HashMap::default(), last: None }
    }
}

impl<K: Copy + Eq + Hash> Keys<K> {
    #[inline]
    pub(crate) fn index_of(&mut self, key: K) -> u32 {
        // Events come in runs of one thread.
        if let Some((last, index)) = self.last
            && last == key
        {
            return index;
        }
        let index = *self.index.entry(key).or_insert_with(|| {
            self.order.push(key);
            (self.order.len() - 1) as u32
        });
        self.last = Some((key, index));
        index
    }

    /// The keys, each at its number.
    pub(crate) fn in_order(&self) -> &[K] {
        &self.order
    }

    pub(crate) fn bytes(&self) -> usize {
        self.order.capacity() * size_of::<K>() + self.index.capacity() * (size_of::<(K, u32)>() + 1)
    }
}
