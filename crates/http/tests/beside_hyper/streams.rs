//! What clients send: requests of every kind, most of them good, some of them not, cut anywhere.

use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Bytes, and where they are cut.
#[derive(Clone)]
pub struct Stream {
    bytes: Vec<u8>,
    cuts: Vec<usize>,
    /// All of it was written as requests are; what is wrong with it is among the words of this file.
    pub is_written: bool,
}

impl Stream {
    pub fn whole(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), cuts: Vec::new(), is_written: true }
    }

    fn cut(bytes: Vec<u8>, cuts: Vec<prop::sample::Index>, is_written: bool) -> Self {
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        Self { bytes, cuts, is_written }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.cuts.iter().copied());
        let ends = self.cuts.iter().copied().chain([self.bytes.len()]);
        begins.zip(ends).map(|(begin, end)| &self.bytes[begin..end]).filter(|piece| !piece.is_empty())
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in self.pieces() {
            writeln!(f, "  \"{}\"", piece.escape_ascii())?;
        }
        Ok(())
    }
}

/// Requests behind each other, of which a few bytes may be changed.
pub fn requests() -> impl Strategy<Value = Stream> {
    let changes =
        prop_oneof![4 => Just(Vec::new()), 1 => vec((any::<prop::sample::Index>(), change()), 1..3)];
    let cuts = prop_oneof![
        2 => vec(any::<prop::sample::Index>(), 0..3),
        1 => vec(any::<prop::sample::Index>(), 0..200),
    ];
    (vec(request(), 1..6), changes, cuts).prop_map(|(requests, changes, cuts)| {
        let mut bytes = requests.concat();
        let is_written = changes.is_empty();
        for (at, change) in changes {
            let at = at.index(bytes.len());
            match change {
                Change::To(byte) => bytes[at] = byte,
                Change::Insert(byte) => bytes.insert(at, byte),
                Change::Remove => drop(bytes.remove(at)),
            }
        }
        Stream::cut(bytes, cuts, is_written)
    })
}

/// Bytes that look like requests only by chance.
pub fn noise() -> impl Strategy<Value = Stream> {
    let words = select(vec![
        "GET ",
        "/ ",
        "HTTP/1.1",
        "HTTP/1.0",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        "Host: h\r\n",
        ":",
        " ",
        "a",
        "\0",
        "PRI * HTTP/2.0\r\n\r\n",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "3",
        "0\r\n",
        ";",
    ]);
    let piece = prop_oneof![
        8 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    (vec(piece, 0..40), vec(any::<prop::sample::Index>(), 0..6))
        .prop_map(|(pieces, cuts)| Stream::cut(pieces.concat(), cuts, false))
}

#[derive(Clone, Debug)]
enum Change {
    To(u8),
    Insert(u8),
    Remove,
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![
        3 => select(b"\r\n\t :;,0123456789aAfg/\0\x7f\xff\x0b".to_vec()),
        1 => any::<u8>(),
    ];
    prop_oneof![byte.clone().prop_map(Change::To), byte.prop_map(Change::Insert), Just(Change::Remove),]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        12 => (good(&["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "FOO", "post"]), target())
            .prop_map(|(method, target)| format!("{method} {target} HTTP/1.1")),
        3 => (good(&["GET", "POST", "HEAD"]), target())
            .prop_map(|(method, target)| format!("{method} {target} HTTP/1.0")),
        1 => good(&[
            "GET / HTTP/1.2", "GET / HTTP/2.0", "GET /", "GET  / HTTP/1.1", "G(T / HTTP/1.1", "GET / HTTP/1.1 ",
            "GET /\u{e9} HTTP/1.1", "GET /a b HTTP/1.1", "CONNECT h:80 HTTP/1.1", "\tGET / HTTP/1.1", "GET h HTTP/1.1",
            "GET ? HTTP/1.1", "GET // HTTP/1.1", "GET http://g/ HTTP/1.1", "GET /\u{1} HTTP/1.1",
        ]).prop_map(str::to_owned),
    ];
    let host =
        prop_oneof![20 => Just("Host: h"), 1 => good(&["hOST:h", "Host: h\r\nHost: h", "X: y", "Host: h:x"])];
    let before = prop_oneof![10 => Just(""), 1 => good(&["\r\n", "\n", "\r\n\r\n\r\n", "\r", " "])];
    (before, line, host, vec(header(), 0..4), body(), end_of_line()).prop_map(
        |(before, line, host, headers, (framing, body), end)| {
            let mut head = vec![line, host.to_owned()];
            head.extend(headers.into_iter().map(str::to_owned));
            head.extend(framing);
            let head: String = head.iter().map(|line| format!("{line}{end}")).collect();
            let mut bytes = format!("{before}{head}{end}").into_bytes();
            bytes.extend_from_slice(&body);
            bytes
        },
    )
}

fn good(words: &[&'static str]) -> impl Strategy<Value = &'static str> + use<> {
    select(words.to_vec())
}

fn target() -> impl Strategy<Value = &'static str> {
    good(&[
        "/",
        "/",
        "/204",
        "/304",
        "/404",
        "/empty",
        "/later",
        "/a?b=c%20d",
        "*",
        "http://h/x",
        "http://h",
        "h",
        "/%",
        "/?",
    ])
}

fn end_of_line() -> impl Strategy<Value = &'static str> {
    prop_oneof![30 => Just("\r\n"), 1 => Just("\n")]
}

fn header() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        12 => good(&[
            "X: y", "x-empty:", "X-Space:   a b \t", "Accept: */*", "X: y, z", "Connection: keep-alive",
            "X-Obs: \u{e9}", "User-Agent: a", "Expect: 100-continue", "Upgrade: h2c", "TE: trailers",
        ]),
        3 => good(&[
            "Connection: close", "Connection: Close", "connection: te, CLOSE", "Connection: closed",
            "Connection: Keep-Alive, Upgrade", "Expect: 200-ok", "Expect: 100-CONTINUE",
        ]),
        1 => good(&[
            "X : y", " X: y", "X: y\r\n folded", ": y", "X", "X\0: y", "X: \0", "X: \u{7f}", "X\u{e9}: y", "X:\ty",
            "(: y", "X: a\rb",
        ]),
    ]
}

/// What frames a body, and a body that fits, mostly.
fn body() -> impl Strategy<Value = (Vec<String>, Vec<u8>)> {
    let text = vec(any::<u8>(), 0..40);
    let long = (1_000_usize..40_000).prop_map(|bytes| vec![b'x'; bytes]);
    prop_oneof![
        6 => Just((Vec::new(), Vec::new())),
        6 => text.clone().prop_map(|body| (vec![format!("Content-Length: {}", body.len())], body)),
        1 => long.prop_map(|body| (vec![format!("content-length: {}", body.len())], body)),
        1 => text.clone().prop_map(|body| {
            let length = format!("Content-Length: {}", body.len());
            (vec![length.clone(), length], body)
        }),
        6 => chunked().prop_map(|body| (vec!["Transfer-Encoding: chunked".to_owned()], body)),
        1 => (lengths(), text.clone()).prop_map(|(length, body)| (vec![length.to_owned()], body)),
        1 => (codings(), chunked()).prop_map(|(coding, body)| (vec![coding.to_owned()], body)),
        1 => chunked().prop_map(|body| {
            (vec!["Content-Length: 5".to_owned(), "Transfer-Encoding: chunked".to_owned()], body)
        }),
        1 => chunked().prop_map(|body| {
            (vec!["transfer-encoding: Chunked".to_owned(), "Content-Length: 0".to_owned()], body)
        }),
        1 => text.prop_map(|body| (vec!["Content-Length: 9".to_owned()], body)),
    ]
}

fn lengths() -> impl Strategy<Value = &'static str> {
    good(&[
        "Content-Length:",
        "Content-Length: +3",
        "Content-Length: -3",
        "Content-Length: 3, 3",
        "Content-Length: 03",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: 3\r\nContent-Length: 03",
        "Content-Length: 3 ",
        "Content-Length: 0x3",
        "Content-Length: 99999999999999999999",
        "Content-Length: 9999999999999999999",
        "Content-Length : 3",
    ])
}

/// Codings other than one that is `chunked`.
pub const CODINGS: [&str; 9] = [
    "Transfer-Encoding: identity",
    "Transfer-Encoding: gzip, chunked",
    "Transfer-Encoding: chunked, gzip",
    "Transfer-Encoding:\r",
    "Transfer-Encoding: xchunked",
    "Transfer-Encoding: \u{b}chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Transfer-Encoding : chunked",
];
/// Trailers whose lines are not ended as those of chunks are. After the second hyper takes what follows for trailers.
pub const TRAILERS: [&str; 2] = ["A: b\n", "0\r\n\n"];

fn codings() -> impl Strategy<Value = &'static str> {
    good(&CODINGS).prop_map(str::trim_end)
}

fn chunked() -> impl Strategy<Value = Vec<u8>> {
    let chunk =
        (vec(any::<u8>(), 1..30), good(&["", "", "", ";x", " ", "\t;a=\"b\""]), good(&["", "0", "00"]))
            .prop_map(|(data, extension, zeros)| {
                let mut chunk = format!("{zeros}{:x}{extension}\r\n", data.len()).into_bytes();
                chunk.extend_from_slice(&data);
                chunk.extend_from_slice(b"\r\n");
                chunk
            });
    let broken = good(&[
        "g\r\n",
        "1\r\nab\r\n",
        "1\nab\n",
        "\r\n",
        "ffffffffffffffffff\r\n",
        "-1\r\n",
        "1 2\r\na\r\n",
        "1;\n",
        "2\r\nab\n",
    ]);
    let end = prop_oneof![
        8 => good(&["0\r\n\r\n", "000\r\n\r\n", "0;x\r\n\r\n", "0\r\nA: b\r\nC:\r\n\r\n"]),
        1 => good(&["0\r\nA\r\n\r\n", "0\r\n : b\r\n\r\n", "0\r\n\n", "0\r\nA: b\n\r\n", "0\r\nA: b\n\n", "0\n\n", ""]),
    ];
    let broken = prop_oneof![12 => Just(""), 1 => broken];
    (vec(chunk, 0..4), broken, end)
        .prop_map(|(chunks, broken, end)| [chunks.concat(), broken.into(), end.into()].concat())
}
