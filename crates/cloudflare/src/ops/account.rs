//! Who the token belongs to: what clients ask before they ask for queues.

use kew_http::Reply;
use serde_json::{Value, json};

use crate::auth::Trust;
use crate::{Context, encode};

/// The one person there is, as far as clients want to know.
const USER: &str = "00000000000000000000000000000001";

pub(crate) fn user() -> Reply {
    encode::result(&json!({ "id": USER, "email": "user@kew.localhost" }))
}

/// A token that was let in is good.
pub(crate) fn verify_token() -> Reply {
    encode::result(&json!({ "id": USER, "status": "active" }))
}

pub(crate) fn memberships(cx: &Context<'_>) -> Reply {
    let account = shown(cx);
    let membership = json!({ "id": account["id"], "status": "accepted", "account": account });
    encode::list(vec![membership], 1, 20, 1)
}

pub(crate) fn accounts(cx: &Context<'_>) -> Reply {
    encode::list(vec![shown(cx)], 1, 20, 1)
}

pub(crate) fn account(cx: &Context<'_>) -> Reply {
    encode::result(&shown(cx))
}

/// In open mode every id means the one account, which then goes by that id.
fn shown(cx: &Context<'_>) -> Value {
    let id = match cx.settings.trust {
        Trust::Open => cx.route.account.unwrap_or(cx.caller.name),
        Trust::Strict => cx.caller.name,
    };
    json!({ "id": id, "name": "Kew", "type": "standard" })
}
