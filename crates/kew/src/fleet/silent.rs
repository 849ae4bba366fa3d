//! Says which database of the store does not answer this node, and when it does again.

use std::time::Duration;

use kew_fleet::UNREADY_AFTER;
use kew_log_pg::{DatabasePlace, Membership, PgNode};
use tokio::time::Instant;

use crate::log::{Level, Log};

/// How often it is looked.
const LOOKS: Duration = Duration::from_millis(500);
/// A database that goes on being silent is named again this long after it was.
const NAMED_AGAIN: Duration = Duration::from_secs(60);

/// Looks for as long as the node runs.
pub(super) async fn watch(node: PgNode, database: u16, log: Log) {
    let (mut silence, begun) = (Silence::default(), Instant::now());
    let mut stuck_named: Option<Instant> = None;
    let place = DatabasePlace { number: database, of: node.databases() };
    loop {
        tokio::time::sleep(LOOKS).await;
        let Membership { map, failing, stuck } = node.membership(database);
        let heard = map.map_or(begun, |map| map.read_at);
        let news = silence.look(Instant::now(), heard);
        let which = place.to_string();
        stuck_named = stuck_named.filter(|_| stuck.is_some());
        if let Some(cause) = stuck
            && stuck_named.is_none_or(|named_at| named_at.elapsed() >= NAMED_AGAIN)
        {
            stuck_named = Some(Instant::now());
            let line = "a shard that was moved to the database does not lie in it yet, and its queues are not served";
            log.tell(Level::Error, line, &[("which", &which), ("cause", &cause)]);
        }
        match news {
            None => {}
            Some(News::Silent(long)) => {
                let cause = failing.unwrap_or_else(|| "it has not answered".to_owned());
                let line =
                    "the database does not answer this node, which may not answer for its shards there";
                let long = long.as_secs().to_string();
                log.tell(Level::Warn, line, &[("which", &which), ("seconds", &long), ("cause", &cause)]);
            }
            Some(News::Answers) => {
                log.tell(Level::Info, "the database answers this node again", &[("which", &which)]);
            }
        }
    }
}

/// When the silence of a database was named, if it was.
#[derive(Default)]
struct Silence {
    named_at: Option<Instant>,
}

#[derive(PartialEq, Eq, Debug)]
enum News {
    Silent(Duration),
    Answers,
}

impl Silence {
    fn look(&mut self, now: Instant, heard: Instant) -> Option<News> {
        let long = now - heard;
        if long <= UNREADY_AFTER {
            return self.named_at.take().map(|_| News::Answers);
        }
        if self.named_at.is_some_and(|named_at| now - named_at < NAMED_AGAIN) {
            return None;
        }
        self.named_at = Some(now);
        Some(News::Silent(long))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_named_when_the_node_is_not_ready_once_a_minute_and_at_its_end() {
        let (mut silence, begun) = (Silence::default(), Instant::now());
        let mut look = |millis: u64, heard: u64| {
            let at = |millis| begun + Duration::from_millis(millis);
            silence.look(at(millis), at(heard))
        };
        assert_eq!(look(500, 0), None);
        assert_eq!(look(2_500, 0), None);
        assert_eq!(look(2_501, 0), Some(News::Silent(Duration::from_millis(2_501))));
        assert_eq!(look(62_500, 0), None);
        assert_eq!(look(62_501, 0), Some(News::Silent(Duration::from_millis(62_501))));
        assert_eq!(look(63_000, 62_900), Some(News::Answers));
        assert_eq!(look(63_500, 63_400), None);
    }
}
