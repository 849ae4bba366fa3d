//! The lines of an export on their way into an import: a queue that no dialect can address is refused with its line. It
//! would take room for ever, and no client could receive from it or delete it.

use std::io::{self, BufRead, Read};

use kew_console::can_name_a_queue;
use kew_core::is_region;
use kew_store_log::LogError;
use serde_json::Value;

/// The largest account: its number has twelve digits.
const ACCOUNT_MAX: u64 = 999_999_999_999;
/// How lines begin that name no queue, as exports write them: most lines do.
const OTHER_LINES: [&[u8]; 2] = [b"{\"message\":", b"{\"remembered\":"];
/// Characters of a name that are said.
const SAID_MAX: usize = 100;

/// Passes lines on, up to the first that is refused.
pub(super) struct Addressed<R> {
    from: R,
    line: Vec<u8>,
    /// What of the line was passed on.
    passed: usize,
    number: u64,
    refused: Option<String>,
    /// Whether none is refused.
    takes_all: bool,
}

impl<R: BufRead> Addressed<R> {
    /// With `takes_all` a queue that no client can address is passed on too.
    pub fn of(from: R, takes_all: bool) -> Self {
        Self { from, line: Vec::new(), passed: 0, number: 0, refused: None, takes_all }
    }

    /// Why the import failed, where it was for a line that was refused here.
    pub fn refusal(self) -> Option<LogError> {
        let detail = format!("{}; --unaddressable takes it as it is", self.refused?);
        let doing = format!("importing line {}", self.number);
        Some(LogError::Io { doing, kind: io::ErrorKind::InvalidData, detail })
    }
}

impl<R: BufRead> BufRead for Addressed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.passed >= self.line.len() {
            self.line.clear();
            self.passed = 0;
            self.from.read_until(b'\n', &mut self.line)?;
            self.number += 1;
            self.refused = if self.takes_all { None } else { why_not(&self.line) };
        }
        match &self.refused {
            Some(why) => Err(io::Error::new(io::ErrorKind::InvalidData, why.clone())),
            None => Ok(self.line.get(self.passed..).unwrap_or_default()),
        }
    }

    fn consume(&mut self, bytes: usize) {
        self.passed += bytes;
    }
}

impl<R: BufRead> Read for Addressed<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

/// Why a line is refused. One that cannot be read is for the import to refuse.
fn why_not(line: &[u8]) -> Option<String> {
    if OTHER_LINES.iter().any(|other| line.starts_with(other)) {
        return None;
    }
    let line = serde_json::from_slice::<Value>(line).ok()?;
    let queue = line.get("queue")?;
    let (account, region, name) =
        (queue["account"].as_u64()?, queue["region"].as_str()?, queue["name"].as_str()?);
    let said = |text: &str| format!("{:?}", text.chars().take(SAID_MAX).collect::<String>());
    if account > ACCOUNT_MAX {
        return Some(format!("the queue {} is of account {account}: one has at most 12 digits", said(name)));
    }
    if !is_region(region) {
        let why = "one has 1 to 32 letters, digits and hyphens";
        return Some(format!("the queue {} is of region {}: {why}", said(name), said(region)));
    }
    (!can_name_a_queue(name)).then(|| {
        let why = "a name has 1 to 80 letters, digits, hyphens and underscores, and may end in .fifo";
        format!("no client can name a queue {}: {why}", said(name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(account: &str, region: &str, name: &str) -> Option<String> {
        let line =
            format!(r#"{{"queue":{{"id":1,"account":{account},"region":"{region}","name":"{name}"}}}}"#);
        why_not(line.as_bytes())
    }

    #[test]
    fn queues_are_refused_at_the_edges_of_what_dialects_can_name() {
        let (longest, region) = ("n".repeat(80), "r".repeat(32));
        for (account, region, name) in
            [("0", "us-east-1", "a"), ("999999999999", &*region, &*longest), ("7", "x", "A_b-9.fifo")]
        {
            assert_eq!(queue(account, region, name), None);
        }
        for (account, region, name, said) in [
            ("1000000000000", "us-east-1", "a", "12 digits"),
            ("0", "", "a", "region"),
            ("0", "us east", "a", "region"),
            ("0", &format!("{region}r"), "a", "region"),
            ("0", "us-east-1", "", "80 letters"),
            ("0", "us-east-1", "a b", "80 letters"),
            ("0", "us-east-1", ".fifo", "80 letters"),
            ("0", "us-east-1", "a\\u001b[2J", "80 letters"),
            ("0", "us-east-1", &format!("{longest}n"), "80 letters"),
        ] {
            let why = queue(account, region, name).unwrap_or_default();
            assert!(why.contains(said) && !why.contains('\u{1b}'), "{account} {region} {name}: {why:?}");
        }
    }

    #[test]
    fn lines_pass_as_they_are_up_to_one_that_is_refused() {
        let good = "{\"store\":{}}\r\nno JSON\n{\"message\":{\"queue\":{\"name\":\"\"}}}\n\n";
        let mut text = String::new();
        Addressed::of(good.as_bytes(), false).read_to_string(&mut text).expect("no line is refused");
        assert_eq!(text, good);
        let bad = format!("{good}{{\"queue\":{{\"account\":0,\"region\":\"r\",\"name\":\"a b\"}}}}\nmore");
        let mut lines = Addressed::of(bad.as_bytes(), false);
        let passed: Vec<String> = lines.by_ref().lines().map_while(Result::ok).collect();
        assert_eq!(passed.len(), 4);
        let refusal = lines.refusal().expect("a line was refused").to_string();
        assert!(refusal.starts_with("importing line 5: "), "{refusal}");
    }
}
