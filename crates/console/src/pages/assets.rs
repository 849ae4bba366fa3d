//! The stylesheet, the script and the sign of the console. They are part of the program.

use std::sync::OnceLock;

use kew_http::{HeaderName, HeaderValue, Method, Reply, Request, StatusCode};
use sha2::{Digest, Sha256};

use super::layout::guarded;
use super::trouble::Trouble;

/// Below this stand all of them.
pub(super) const BELOW: &str = "/assets/";
const CACHE_CONTROL: HeaderName = HeaderName::from_static("cache-control");
/// Their addresses change with their content.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

struct Asset {
    name: &'static str,
    content_type: &'static str,
    text: &'static str,
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "console.css",
        content_type: "text/css; charset=utf-8",
        text: include_str!("../../assets/console.css"),
    },
    Asset {
        name: "console.js",
        content_type: "text/javascript; charset=utf-8",
        text: include_str!("../../assets/console.js"),
    },
    Asset { name: "kew.svg", content_type: "image/svg+xml", text: include_str!("../../assets/kew.svg") },
];

/// The address of one of them, with a mark of its content.
pub(super) fn address(name: &'static str) -> String {
    format!("{BELOW}{name}?{}", mark())
}

/// A mark of the content of all of them.
fn mark() -> &'static str {
    static MARK: OnceLock<String> = OnceLock::new();
    MARK.get_or_init(|| {
        let mut hash = Sha256::new();
        ASSETS.iter().for_each(|asset| hash.update(asset.text));
        hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    })
}

/// `GET /assets/{name}`.
pub(super) fn answer(request: &Request, name: &str) -> Result<Reply, Trouble> {
    let asset = ASSETS.iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(|| Trouble::nothing_at(request.uri.path()))?;
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return Err(Trouble::not_a_form(request.uri.path()));
    }
    let reply = Reply::new(StatusCode::OK, HeaderValue::from_static(asset.content_type), asset.text);
    let reply = guarded(reply);
    let is_this = request.uri.query() == Some(mark());
    Ok(if is_this { reply.with(CACHE_CONTROL, FOR_EVER) } else { reply })
}
