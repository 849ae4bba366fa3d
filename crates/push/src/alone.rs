//! Messages that are brought one by one, because one of them may have failed all that were with it.
//!
//! It is remembered until they have been brought, and not over a restart: then they fail together once more, and are
//! tried apart after that.

use std::collections::HashSet;

use kew_core::MessageId;
use kew_core::outcome::Leased;

/// Maximum messages that are remembered; past it all are forgotten, and tried apart again.
const REMEMBERED: usize = 10_000;

/// Messages of one queue that are brought alone.
#[derive(Debug, Default)]
pub(crate) struct Alone(HashSet<MessageId>);

impl Alone {
    /// These shall come alone next time.
    pub(crate) fn add(&mut self, messages: &[MessageId]) {
        if self.0.len() + messages.len() > REMEMBERED {
            self.0.clear();
        }
        self.0.extend(messages);
    }

    /// What was leased together as what is brought together: all others first, in their order.
    pub(crate) fn part(&mut self, leased: Vec<Leased>) -> Vec<Vec<Leased>> {
        if self.0.is_empty() {
            return vec![leased];
        }
        let (alone, others): (Vec<Leased>, Vec<Leased>) =
            leased.into_iter().partition(|leased| self.0.remove(&leased.message.id));
        let others = (!others.is_empty()).then_some(others);
        others.into_iter().chain(alone.into_iter().map(|leased| vec![leased])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::leased;
    use kew_core::ContentType;

    fn messages(ids: &[u8]) -> Vec<Leased> {
        let message = |id: &u8| {
            let mut leased = leased(ContentType::V8, b"x");
            leased.message.id = MessageId([*id; 16]);
            leased
        };
        ids.iter().map(message).collect()
    }

    fn parted(alone: &mut Alone, ids: &[u8]) -> Vec<Vec<u8>> {
        let parts = alone.part(messages(ids));
        parts.iter().map(|part| part.iter().map(|leased| leased.message.id.0[0]).collect()).collect()
    }

    #[test]
    fn what_shall_come_alone_does_so_once_and_the_others_stay_together() {
        let mut alone = Alone::default();
        assert_eq!(parted(&mut alone, &[1, 2, 3]), [vec![1, 2, 3]]);
        alone.add(&[2, 4].map(|id| MessageId([id; 16])));
        assert_eq!(parted(&mut alone, &[1, 2, 3]), [vec![1, 3], vec![2]]);
        assert_eq!(parted(&mut alone, &[4]), [vec![4]], "it has waited for its turn");
        assert_eq!(parted(&mut alone, &[1, 2, 3, 4]), [vec![1, 2, 3, 4]]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut alone = Alone::default();
        let id = |number: u128| MessageId(number.to_be_bytes());
        for number in 0..25_000 {
            alone.add(&[id(number)]);
            assert!(alone.0.len() <= REMEMBERED);
        }
        assert!(alone.0.contains(&id(24_999)));
    }
}
