//! Small numbers by large ones, of which neighbours lie together.
//!
//! Messages mostly come, are leased and leave in the order of their places. In a plain hash table neighbours lie
//! anywhere: a thousand leases that end together, each looked up in a table of millions that was not used for long,
//! take 20 to 50 ms, all of it waits for memory. Here sixteen in a row lie in one line of memory, and the table is one
//! of lines. Where each key is alone in its line, it takes about five times the memory of one in a plain table: about
//! a hundred bytes.

use super::keyed::Places;
use super::parted::Parted;

/// Numbers in a line.
const LINE: usize = 16;

/// What stands in a line where nothing is.
const NONE: u32 = u32::MAX;

/// Numbers below `u32::MAX`, by larger numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Near {
    /// By the key without its lowest bits. No line is empty.
    lines: Parted<u64, [u32; LINE]>,
    len: usize,
}

#[inline]
fn place(key: impl Into<u64>) -> (u64, usize) {
    let key = key.into();
    (key / LINE as u64, (key % LINE as u64) as usize)
}

impl<K: Copy + Into<u64>> Places<K> for Near {
    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn get(&self, key: &K) -> Option<u32> {
        let (line, place) = place(*key);
        Some(self.lines.get(&line)?[place]).filter(|number| *number != NONE)
    }

    #[inline]
    fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> u32) -> u32 {
        let (line, place) = place(key);
        let number = &mut self.lines.get_or_insert_with(line, |_| [NONE; LINE])[place];
        if *number == NONE {
            *number = make();
            self.len += 1;
        }
        *number
    }

    #[inline]
    fn set(&mut self, key: &K, number: u32) {
        let (line, place) = place(*key);
        if let Some(line) = self.lines.get_mut(&line) {
            line[place] = number;
        }
    }

    #[inline]
    fn remove(&mut self, key: &K) -> Option<u32> {
        let (line, place) = place(*key);
        let number = self.lines.change(&line, |line| {
            let number = std::mem::replace(&mut line[place], NONE);
            (number, *line != [NONE; LINE])
        })?;
        self.len -= usize::from(number != NONE);
        Some(number).filter(|number| *number != NONE)
    }

    fn into_pieces(self) -> impl Iterator<Item = ()> {
        self.lines.into_values().map(|_| ())
    }

    fn heap_bytes(&self) -> usize {
        self.lines.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_keys_and_an_empty_line_goes() {
        let mut near = Near::default();
        let count = 100 * LINE as u64;
        for key in (0..count).map(|key| key * 7) {
            assert_eq!(near.get(&key), None);
            assert_eq!(near.get_or_insert_with(key, || key as u32), key as u32);
            assert_eq!(near.get_or_insert_with(key, || panic!("key {key} has a number")), key as u32);
            near.set(&key, key as u32 + 1);
        }
        assert_eq!(
            (Places::<u64>::len(&near), near.get(&8_u64), near.get(&7_u64)),
            (count as usize, None, Some(8))
        );
        for key in (0..count * 7).rev() {
            let expected = (key % 7 == 0).then_some(key as u32 + 1);
            assert_eq!((near.get(&key), near.remove(&key), near.remove(&key)), (expected, expected, None));
        }
        assert_eq!((Places::<u64>::len(&near), near.lines.len()), (0, 0));
    }
}
