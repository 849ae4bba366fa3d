//! How a disk is found after a cut, and the chance that decides it.

/// How the disk is found after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Nothing unsynced reached the disk.
    Lost,
    /// Everything unsynced did.
    Kept,
    /// Any part did: sectors of any write, names of any folder, lengths in between.
    Torn,
    /// The same, and some sectors were being written when it went: the bytes on their way there are garbage.
    Garbage,
}

/// How much of a file's or a folder's unsynced changes is found.
#[derive(Clone, Copy)]
pub(super) enum Portion {
    Nothing,
    All,
    Some,
}

/// Random numbers from a seed (splitmix64).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A torn disk keeps some files and folders wholly and loses others wholly, to meet every mixture.
    pub(super) fn portion(&mut self, found: Found) -> Portion {
        match found {
            Found::Lost => Portion::Nothing,
            Found::Kept => Portion::All,
            Found::Torn | Found::Garbage => match self.below(4) {
                0 => Portion::Nothing,
                1 => Portion::All,
                _ => Portion::Some,
            },
        }
    }

    pub(super) fn keeps(&mut self, portion: Portion) -> bool {
        match portion {
            Portion::Nothing => false,
            Portion::All => true,
            Portion::Some => self.below(2) == 0,
        }
    }

    /// How many of `count` writes a sector has seen.
    pub(super) fn prefix(&mut self, count: usize) -> usize {
        match self.below(3) {
            0 => 0,
            1 => count,
            _ => self.below(count as u64 + 1) as usize,
        }
    }
}
