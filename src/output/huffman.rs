//! Length-limited Huffman codes for deflate.

/// Longest code of literals, lengths and distances.
pub(super) const MAX_BITS: usize = 15;

/// The code lengths of the best prefix code for `counts`, none longer than `limit`; 0 for symbols that do not occur.
/// At least two symbols get a code, so that every decoder takes the code as complete.
pub(super) fn lengths(counts: &[u32], limit: usize, lengths: &mut [u8]) {
    lengths.fill(0);
    let mut used: Vec<(u32, u16)> =
        (0..).zip(counts).filter(|&(_, &count)| count > 0).map(|(symbol, &count)| (count, symbol)).collect();
    let mut filler = 0;
    while used.len() < 2 {
        if used.iter().all(|&(_, symbol)| symbol != filler) {
            used.push((1, filler));
        }
        filler += 1;
    }
    used.sort_unstable();
    let mut depths = depths(&used);
    limit_depths(&mut depths, limit);
    for (&(_, symbol), depth) in used.iter().zip(depths) {
        lengths[usize::from(symbol)] = depth;
    }
}

/// The depth of each leaf in the Huffman tree; `used` ascends by count, so depths descend.
fn depths(used: &[(u32, u16)]) -> Vec<u8> {
    let leaves = used.len();
    // Leaves and inner nodes are both made in ascending order of weight: two queues instead of a heap.
    let mut inner: Vec<u64> = Vec::with_capacity(leaves - 1);
    let mut parent = vec![0usize; 2 * leaves - 1];
    let (mut leaf, mut first) = (0, 0);
    for node in 0..leaves - 1 {
        let mut weight = 0;
        for _ in 0..2 {
            let take_leaf = leaf < leaves && (first >= inner.len() || u64::from(used[leaf].0) <= inner[first]);
            let child = if take_leaf {
                weight += u64::from(used[leaf].0);
                leaf += 1;
                leaf - 1
            } else {
                weight += inner[first];
                first += 1;
                leaves + first - 1
            };
            parent[child] = leaves + node;
        }
        inner.push(weight);
    }
    let mut depth = vec![0u8; 2 * leaves - 1];
    for node in (0..2 * leaves - 2).rev() {
        depth[node] = depth[parent[node]].saturating_add(1);
    }
    depth.truncate(leaves);
    depth
}

/// Shortens codes over the limit and lengthens others until the code is a prefix code again.
fn limit_depths(depths: &mut [u8], limit: usize) {
    if depths.iter().all(|&depth| usize::from(depth) <= limit) {
        return;
    }
    let mut number = [0u32; MAX_BITS + 1];
    depths.iter().for_each(|&depth| number[usize::from(depth).min(limit)] += 1);
    let full = 1u32 << limit;
    let mut taken: u32 = (1..=limit).map(|bits| number[bits] << (limit - bits)).sum();
    while taken > full {
        // One code of the greatest length goes under a shorter one, which moves down by a bit.
        number[limit] -= 1;
        let shorter = (1..limit).rev().find(|&bits| number[bits] > 0).unwrap_or(1);
        number[shorter] -= 1;
        number[shorter + 1] += 2;
        taken -= 1;
    }
    // The rarest symbols come first and get the longest codes.
    let mut at = 0;
    for bits in (1..=limit).rev() {
        for _ in 0..number[bits] {
            depths[at] = bits as u8;
            at += 1;
        }
    }
}

/// The canonical codes for `lengths`, each with its first bit lowest, as deflate writes them.
pub(super) fn codes(lengths: &[u8], codes: &mut [u16]) {
    let mut number = [0u16; MAX_BITS + 1];
    lengths.iter().for_each(|&length| number[usize::from(length)] += 1);
    number[0] = 0;
    let mut next = [0u16; MAX_BITS + 2];
    for bits in 1..=MAX_BITS {
        next[bits + 1] = (next[bits] + number[bits]) << 1;
    }
    for (code, &length) in codes.iter_mut().zip(lengths) {
        if length > 0 {
            let length = usize::from(length);
            *code = next[length].reverse_bits() >> (16 - length);
            next[length] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(counts: &[u32], limit: usize) -> Vec<u8> {
        let mut found = vec![0; counts.len()];
        lengths(counts, limit, &mut found);
        let space: u64 = found.iter().filter(|&&l| l > 0).map(|&l| 1u64 << (limit - usize::from(l))).sum();
        assert_eq!(space, 1 << limit, "complete: {found:?}");
        assert!(counts.iter().zip(&found).all(|(&count, &length)| count == 0 || length > 0));
        found
    }

    #[test]
    fn codes_are_complete() {
        assert_eq!(check(&[0, 0, 5], 15), [1, 0, 1]);
        assert_eq!(check(&[0, 0, 0], 15), [1, 1, 0]);
        assert_eq!(check(&[1, 1, 2, 4], 15), [3, 3, 2, 1]);
        check(&[7; 286], 15);
    }

    #[test]
    fn codes_keep_the_limit() {
        let mut fibonacci = vec![1u32, 1];
        while fibonacci.len() < 40 {
            fibonacci.push(fibonacci[fibonacci.len() - 1] + fibonacci[fibonacci.len() - 2]);
        }
        for limit in [7, 9, 15] {
            assert!(check(&fibonacci, limit).iter().all(|&length| usize::from(length) <= limit));
        }
    }
}
