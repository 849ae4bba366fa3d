//! The canonical form of a request: what a signature covers, hashed as it is written.
//!
//! Method, path (encoded once more, dot segments removed), query (decoded, encoded anew, sorted, without the
//! signature), each signed header, the list of them, the hash of the body. Nothing is put together in memory but the
//! query.

use std::borrow::Cow;

use kew_http::form::Pair;
use kew_http::{Headers, Request, hex, percent};
use sha2::{Digest, Sha256};

/// A body that its signer left out, and said so.
const UNSIGNED: &str = "UNSIGNED-PAYLOAD";
const CONTENT_HASH: &str = "x-amz-content-sha256";

/// The hash of a request's canonical form, as hex digits.
///
/// `pairs` are those of its query string.
pub(super) fn hash(request: &Request, pairs: &[Pair<'_>], signed_headers: &[&str]) -> Vec<u8> {
    if leaves_body_out(request, pairs) {
        return hash_over(request, pairs, signed_headers, UNSIGNED.as_bytes());
    }
    // Whatever a header says: the body that came is the one that counts.
    hash_over(request, pairs, signed_headers, &hex_of(&Sha256::digest(&request.body)))
}

/// The same as far as its head tells it: with the hash of the body that the head names, if it names one.
pub(super) fn hash_of_head(
    request: &Request,
    pairs: &[Pair<'_>],
    signed_headers: &[&str],
) -> Option<Vec<u8>> {
    let body = if leaves_body_out(request, pairs) {
        UNSIGNED
    } else {
        request.header(CONTENT_HASH).filter(|hash| hash.len() == 64)?
    };
    Some(hash_over(request, pairs, signed_headers, body.as_bytes()))
}

fn hash_over(request: &Request, pairs: &[Pair<'_>], signed_headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut form = Sha256::new();
    form.update(request.method.as_str());
    form.update(b"\n");
    form.update(path(request.uri.path()));
    form.update(b"\n");
    form.update(query(pairs));
    form.update(b"\n");
    for name in signed_headers {
        form.update(name);
        form.update(b":");
        header(&mut form, request, name);
        form.update(b"\n");
    }
    form.update(b"\n");
    for (place, name) in signed_headers.iter().enumerate() {
        form.update(if place == 0 { "" } else { ";" });
        form.update(name);
    }
    form.update(b"\n");
    form.update(body);
    hex_of(&form.finalize())
}

/// Whether a request has a header of this name; the host may be in its target instead.
pub(super) fn has_header(request: &Request, name: &str) -> bool {
    request.headers.contains(name) || (name == "host" && request.uri.authority().is_some())
}

/// Whether a request's signer left its body out.
pub(super) fn leaves_body_out(request: &Request, pairs: &[Pair<'_>]) -> bool {
    let by_query = || pairs.iter().any(|(name, value)| name == "X-Amz-Content-Sha256" && value == UNSIGNED);
    request.header(CONTENT_HASH) == Some(UNSIGNED) || by_query()
}

fn hex_of(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(64);
    hex::push(&mut text, bytes);
    text
}

/// All values of a header, each trimmed, its runs of spaces folded, with commas between them.
fn header(form: &mut Sha256, request: &Request, name: &str) {
    if name == "host" && !request.headers.contains(name) {
        form.update(request.uri.authority().map_or("", |authority| authority.as_str()));
        return;
    }
    values(form, &request.headers, name);
}

fn values(form: &mut Sha256, headers: &Headers, name: &str) {
    for (place, value) in headers.get_all(name).enumerate() {
        form.update(if place == 0 { "" } else { "," });
        let words = value.as_bytes().split(|byte| *byte == b' ' || *byte == b'\t');
        for (place, word) in words.filter(|word| !word.is_empty()).enumerate() {
            form.update(if place == 0 { "" } else { " " });
            form.update(word);
        }
    }
}

/// The path without dot segments and doubled slashes, encoded once more.
fn path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let is_folder = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    let end = if is_folder && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", percent::encode_path(segments.join("/").as_bytes()))
}

/// The query's pairs without the signature, sorted as they are encoded.
fn query(pairs: &[Pair<'_>]) -> String {
    let signed = pairs.iter().filter(|(name, _)| name != "X-Amz-Signature");
    let mut pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> = signed
        .map(|(name, value)| (percent::encode(name.as_bytes()), percent::encode(value.as_bytes())))
        .collect();
    pairs.sort_unstable();
    let mut text = String::new();
    for (place, (name, value)) in pairs.iter().enumerate() {
        let between = if place == 0 { "" } else { "&" };
        text.extend([between, name.as_ref(), "=", value.as_ref()]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain_and_encoded_once_more() {
        for (given, canonical) in [
            ("/", "/"),
            ("", "/"),
            ("//", "/"),
            ("/000000000000/orders", "/000000000000/orders"),
            ("/a/./b/../c", "/a/c"),
            ("/../..", "/"),
            ("/a//b/", "/a/b/"),
            ("/a/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a%20b", "/a%2520b"),
        ] {
            assert_eq!(path(given), canonical, "{given}");
        }
    }

    #[test]
    fn queries_are_sorted_as_they_are_encoded_and_lose_the_signature() {
        for (given, canonical) in [
            ("", ""),
            ("b=2&a=1", "a=1&b=2"),
            ("a=2&a=1&a", "a=&a=1&a=2"),
            ("a=x+y%20z%2bw~*", "a=x%20y%20z%2Bw~%2A"),
            ("Z=1&a=1&%C3%A9=1", "%C3%A9=1&Z=1&a=1"),
            ("X-Amz-Signature=0&b=%2f", "b=%2F"),
            ("&&a=1&", "a=1"),
        ] {
            let pairs = kew_http::form::pairs(given.as_bytes(), 9)
                .expect("a query of nine pairs is within its bound");
            assert_eq!(query(&pairs), canonical, "{given}");
        }
    }
}
