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
        let last = api.call(Method::GET, &path, None).await.ok().and_then(|page| last_of(&page));
        let last = last.unwrap_or_else(|| "0".to_owned());
        let task = tokio::spawn(follow(Arc::clone(api), path, last, tell));
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

async fn follow(api: Arc<Api>, path: String, mut after: String, tell: fn(&str)) {
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
        let lines = shown(&page);
        lines.iter().for_each(|line| tell(line));
        after = last_of(&page).unwrap_or(after);
        if lines.is_empty() && begun.elapsed() < REST {
            tokio::time::sleep(REST).await;
        }
    }
}

/// What to ask for lines after, next time: a number, or the text of several nodes. Both go into a query as they are.
fn last_of(page: &Value) -> Option<String> {
    let last = &page["last"];
    last.as_u64().map(|number| number.to_string()).or_else(|| last.as_str().map(str::to_owned))
}

/// The lines of a page, and how many are missing before them.
fn shown(page: &Value) -> Vec<String> {
    let lines = page["lines"].as_array().map(Vec::as_slice).unwrap_or_default();
    let missed = page["missed"].as_u64().filter(|missed| *missed > 0);
    let missed = missed.map(|missed| format!("… {missed} lines of the Worker are not kept any more"));
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
        let lines = json!([line(8, "a"), line(9, "b\u{1b}[2J\tc")]);
        let shown_lines = ["[log] a", "[log] b\u{fffd}[2J\tc"];
        let page = json!({ "lines": lines, "last": 9, "missed": 0 });
        assert_eq!(
            (shown(&page), last_of(&page).as_deref()),
            (shown_lines.map(str::to_owned).into(), Some("9"))
        );
        let page = json!({ "lines": lines, "last": "n.e30", "missed": 2 });
        assert_eq!(shown(&page)[0], "… 2 lines of the Worker are not kept any more");
        assert_eq!(
            (&shown(&page)[1..], last_of(&page).as_deref()),
            (&shown_lines.map(str::to_owned)[..], Some("n.e30"))
        );
        assert_eq!((shown(&Value::Null), last_of(&Value::Null)), (Vec::new(), None));
    }
}
