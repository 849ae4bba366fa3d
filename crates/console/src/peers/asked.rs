//! Questions to other nodes, each asked once a second at most.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kew_engine::TimeSource;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::fleet::Fleet;

/// How long an answer is good.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// Answers that are kept. Further questions are asked anew each time.
const KEPT_MAX: usize = 64;

/// The node that was asked, and what.
type Question = (String, String);

/// An answer, or the asking of it that is under way. Nothing, where the node is silent.
type Answer = Arc<OnceCell<Option<Arc<Value>>>>;

/// What other nodes were asked within the last second.
pub(super) struct Asked {
    time: Arc<dyn TimeSource>,
    /// Guards the answers, each with the instant of its question; held for a look-up.
    kept: Mutex<HashMap<Question, (Duration, Answer)>>,
}

impl Asked {
    pub(super) fn new(time: Arc<dyn TimeSource>) -> Self {
        Self { time, kept: Mutex::default() }
    }

    /// What a node answers to a question. Those who ask the same within a second share the answer.
    pub(super) async fn ask(&self, fleet: &dyn Fleet, node: &str, question: &Value) -> Option<Arc<Value>> {
        let question = question.to_string();
        let answer = self.place(node, &question);
        let asks = async {
            let text = fleet.look_at(node, &question).await?;
            serde_json::from_str(&text).ok().filter(|answer: &Value| !answer.is_null()).map(Arc::new)
        };
        answer.get_or_init(|| asks).await.clone()
    }

    fn place(&self, node: &str, question: &str) -> Answer {
        let now = self.time.steady();
        let mut kept = self.kept.lock();
        kept.retain(|_, (asked, _)| now.saturating_sub(*asked) < GOOD_FOR);
        let key = (node.to_owned(), question.to_owned());
        if kept.len() >= KEPT_MAX && !kept.contains_key(&key) {
            return Answer::default();
        }
        Arc::clone(&kept.entry(key).or_insert_with(|| (now, Answer::default())).1)
    }
}
