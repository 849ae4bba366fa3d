//! A reply, taken apart.

/// A whole HTTP/1.1 reply.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The text behind the status.
    pub reason: String,
    /// Names and values, in the order of the reply.
    pub headers: Vec<(String, String)>,
    /// As long as `content-length` says; empty after a HEAD request.
    pub body: String,
}

impl Answer {
    /// A reply without its body. A 200 carries exactly one date.
    #[track_caller]
    pub(crate) fn of_head(head: &str) -> Self {
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or_default();
        let mut words = status.splitn(3, ' ').skip(1);
        let code = words.next().and_then(|code| code.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let dates = headers.iter().filter(|(name, _)| name == "date").count();
        let answer = Self {
            status: code.unwrap_or_else(|| panic!("no status in {status:?}")),
            reason: words.next().unwrap_or_default().to_owned(),
            headers,
            body: String::new(),
        };
        assert!(answer.status != 200 || dates == 1, "{dates} dates in {:?}", answer.headers);
        answer
    }

    pub(crate) fn content_length(&self) -> usize {
        let length = self.header("content-length");
        length.map_or(0, |length| length.parse().expect("content-length is a number of bytes"))
    }

    /// The value of the first header of this name, in whatever case it is written.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All headers but the date as `name: value`, sorted.
    pub fn headers_without_date(&self) -> Vec<String> {
        let others = self.headers.iter().filter(|(name, _)| name != "date");
        let mut lines: Vec<String> = others.map(|(name, value)| format!("{name}: {value}")).collect();
        lines.sort();
        lines
    }
}
