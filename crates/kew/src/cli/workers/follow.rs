//! What a deployed Worker says, line by line at the terminal.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use kew_http::Method;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::api::Api;

/// How long one call waits for the next line.
const WAIT_SECONDS: u64 = 25;
/// The rest after a call that failed or came back too soon: the server may be ending, or starting.
const REST: Duration = Duration::from_secs(1);

/// Follows a Worker until it is dropped.
pub(super) struct Follower {
    name: String,
    task: JoinHandle<()>,
}

impl Follower {
    /// Begins with the next line that the Worker will say; lines for people go to `tell`.
    pub(super) async fn begin(api: &Arc<Api>, name: &str, tell: fn(&str)) -> Self {
        let path = format!("/workers/scripts/{name}/kew-log");
        // One that is not there yet is followed from its first line.
        let last = api.call(Method::GET, &path, None).await.ok().and_then(|page| page["last"].as_u64());
        let task = tokio::spawn(follow(Arc::clone(api), path, last.unwrap_or_default(), tell));
        Self { name: name.to_owned(), task }
    }

    /// Whose lines it shows.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(api: Arc<Api>, path: String, mut after: u64, tell: fn(&str)) {
    // Reported once, however often it is met.
    let mut refused = String::new();
    loop {
        let begun = Instant::now();
        let query = format!("{path}?after={after}&wait={WAIT_SECONDS}");
        let page = match api.call(Method::GET, &query, None).await {
            Ok(page) => {
                refused.clear();
                page
            }
            Err(error) => {
                if error != refused {
                    tell(&format!("the Worker's log cannot be read: {error}"));
                    refused = error;
                }
                Value::Null
            }
        };
        let lines = shown(&page, after);
        lines.iter().for_each(|line| tell(line));
        after = page["last"].as_u64().unwrap_or(after);
        if lines.is_empty() && begun.elapsed() < REST {
            tokio::time::sleep(REST).await;
        }
    }
}

/// The lines of a page, and how many are missing before them.
fn shown(page: &Value, after: u64) -> Vec<String> {
    let lines = page["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let first = lines.first().and_then(|line| line["number"].as_u64()).unwrap_or_default();
    // Another log, of a server that was started again or a Worker that was made again, begins at a number of its own.
    let before = after.max(page["opened"].as_u64().unwrap_or_default());
    // The first page of a Worker that was not there begins at any number.
    let missed = if after == 0 { 0 } else { first.saturating_sub(before + 1) };
    let missed = (missed > 0).then(|| format!("… {missed} lines of the Worker are not kept any more"));
    let text = |line: &Value, key: &str| plain(line[key].as_str().unwrap_or_default()).into_owned();
    let told = lines.iter().map(|line| format!("[{}] {}", text(line, "level"), text(line, "text")));
    missed.into_iter().chain(told).collect()
}

/// What somebody's message may hold must not steer the terminal.
fn plain(text: &str) -> Cow<'_, str> {
    let steers = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if text.contains(steers) { text.replace(steers, "\u{fffd}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_shown_with_their_level_and_gaps_are_reported() {
        let line = |number: u64, text: &str| json!({ "number": number, "level": "log", "text": text });
        let page = json!({ "lines": [line(8, "a"), line(9, "b\u{1b}[2J\tc")], "last": 9 });
        assert_eq!(shown(&page, 7), ["[log] a", "[log] b\u{fffd}[2J\tc"]);
        assert_eq!(shown(&page, 0).len(), 2, "it is the beginning");
        assert_eq!(shown(&page, 5)[0], "… 2 lines of the Worker are not kept any more");
        let other = json!({ "lines": [line(1_000_008, "a")], "last": 1_000_008, "opened": 1_000_006 });
        assert_eq!(shown(&other, 7)[0], "… 1 lines of the Worker are not kept any more", "of another log");
        assert_eq!(shown(&Value::Null, 5), [""; 0]);
    }
}
