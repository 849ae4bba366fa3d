//! Values made up by a seed, for tests: `forms` says how for everything that has a form, and here is how for what that
//! is made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kew_core::event::{Tag, Words};
use kew_core::{DocumentKey, LeaseToken, MessageId, Text, Timestamp};
use kew_store::contract::model::Random;

use super::bounds::KNOWN;

/// Where made-up values come from.
pub(super) struct Chance {
    random: Random,
    /// Whether every option holds something and every list has two entries. Texts and bodies are short then.
    filled: bool,
}

/// A type of which values can be made up.
pub(super) trait Any: Sized {
    fn any(chance: &mut Chance) -> Self;
}

/// The name of a variant, and how a value of it is made up.
pub(super) type Variant<T> = (&'static str, fn(&mut Chance) -> T);

/// An enum: all its variants.
pub(super) trait Choice: Sized + 'static {
    const EACH: &'static [Variant<Self>];
}

/// A value for the field of a variant that has no name. Its name in the list of forms is not needed.
pub(super) fn of<T: Any>(_name: &str, chance: &mut Chance) -> T {
    T::any(chance)
}

impl Chance {
    /// Values of any size.
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), filled: false }
    }

    /// Values in which nothing is left out.
    pub(super) fn filled(seed: u64) -> Self {
        Self { random: Random::new(seed), filled: true }
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One of a type's variants.
    pub(super) fn choose<T: Choice>(&mut self) -> T {
        let (_, make) = self.random.pick(T::EACH).expect("an enum that has a form has a variant");
        make(self)
    }

    /// A number of any length, the greatest one included.
    fn number(&mut self) -> u64 {
        match self.below(16) {
            0 => u64::MAX,
            1 => 0,
            _ => self.random.bits() >> self.below(64),
        }
    }

    /// How long a list, a text or a body is.
    fn length(&mut self) -> u64 {
        match self.below(200) {
            _ if self.filled => 2,
            0 => 300 + self.below(5_000),
            1..20 => self.below(200),
            _ => self.below(4),
        }
    }

    fn text(&mut self) -> String {
        let signs = ['a', 'Z', '-', '0', 'é', '…', '\u{10ffff}', '\0'];
        let length = self.length();
        (0..length).map(|_| *self.random.pick(&signs).expect("the list of signs is not empty")).collect()
    }

    fn entries<T: Any>(&mut self) -> impl Iterator<Item = T> {
        let count = if self.filled { 2 } else { self.below(4) };
        (0..count).map(|_| T::any(self))
    }

    fn fixed<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.random.bits() as u8)
    }
}

/// Numbers, cut to the bits of their type.
macro_rules! numbers {
    ($($type:ty)+) => {
        $(impl Any for $type {
            fn any(chance: &mut Chance) -> Self {
                chance.number() as $type
            }
        })+
    };
}

numbers! { u16 u32 u64 usize }

impl Any for bool {
    fn any(chance: &mut Chance) -> Self {
        chance.random.chance(50)
    }
}

impl Any for () {
    fn any(_chance: &mut Chance) -> Self {}
}

impl Any for Timestamp {
    fn any(chance: &mut Chance) -> Self {
        Self(chance.number())
    }
}

impl Any for Duration {
    fn any(chance: &mut Chance) -> Self {
        let nanos = if chance.random.chance(70) { 0 } else { chance.below(1_000_000_000) as u32 };
        Self::new(chance.number(), nanos)
    }
}

impl Any for Bytes {
    fn any(chance: &mut Chance) -> Self {
        let length = chance.length();
        (0..length).map(|_| chance.random.bits() as u8).collect()
    }
}

impl Any for String {
    fn any(chance: &mut Chance) -> Self {
        chance.text()
    }
}

impl Any for Text {
    fn any(chance: &mut Chance) -> Self {
        chance.text().into()
    }
}

impl Any for Arc<str> {
    fn any(chance: &mut Chance) -> Self {
        chance.text().into()
    }
}

impl Any for &'static str {
    fn any(chance: &mut Chance) -> Self {
        chance.random.pick(&KNOWN).expect("the list of known texts is not empty")
    }
}

impl Any for Tag {
    fn any(chance: &mut Chance) -> Self {
        let mut tag = Self(chance.fixed());
        let used = chance.below(17) as usize;
        tag.0[used..].fill(0);
        tag
    }
}

impl Any for Words {
    fn any(chance: &mut Chance) -> Self {
        Self::new(&chance.text())
    }
}

impl Any for MessageId {
    fn any(chance: &mut Chance) -> Self {
        Self(chance.fixed())
    }
}

impl Any for LeaseToken {
    fn any(chance: &mut Chance) -> Self {
        let mac = u128::from_be_bytes(chance.fixed());
        Self { queue: Any::any(chance), sequence: Any::any(chance), nonce: chance.number(), mac }
    }
}

impl<T: Any> Any for Option<T> {
    fn any(chance: &mut Chance) -> Self {
        (chance.filled || chance.random.chance(50)).then(|| T::any(chance))
    }
}

impl<T: Any> Any for Vec<T> {
    fn any(chance: &mut Chance) -> Self {
        chance.entries().collect()
    }
}

impl<T: Any> Any for Arc<T> {
    fn any(chance: &mut Chance) -> Self {
        T::any(chance).into()
    }
}

impl<T: Any> Any for Box<T> {
    fn any(chance: &mut Chance) -> Self {
        T::any(chance).into()
    }
}

impl<T: Any, E: Any> Any for Result<T, E> {
    fn any(chance: &mut Chance) -> Self {
        if chance.random.chance(70) { Ok(T::any(chance)) } else { Err(E::any(chance)) }
    }
}

impl Any for (DocumentKey, Bytes) {
    fn any(chance: &mut Chance) -> Self {
        (Any::any(chance), Any::any(chance))
    }
}

impl Any for (DocumentKey, Option<Bytes>) {
    fn any(chance: &mut Chance) -> Self {
        (Any::any(chance), Any::any(chance))
    }
}

impl Any for BTreeMap<DocumentKey, Bytes> {
    fn any(chance: &mut Chance) -> Self {
        chance.entries().collect()
    }
}
