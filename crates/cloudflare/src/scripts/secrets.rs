//! A Worker's secrets: their names are shown, their texts never.

use kew_http::Reply;
use serde_json::{Value, json};

use super::{Context, asked, shown, unfit, upload};
use crate::decode::object;
use crate::encode;
use crate::error::WireError;

/// Of a Worker that is about to be deployed for the first time there are none.
pub(super) fn list(cx: &Context<'_>, name: &str) -> Reply {
    let found = cx.workers.describe(cx.account, name);
    let secrets = found.map(|found| shown::secrets(&found)).unwrap_or_default();
    encode::result(&Value::from(secrets))
}

pub(super) async fn put(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let secret: asked::Secret = object(&cx.request.body)?;
    if secret.kind != "secret_text" {
        return Err(unfit("A secret here is of the type secret_text"));
    }
    cx.workers.put_secret(cx.account, name, &secret.name, Some(secret.text)).await?;
    Ok(encode::result(&json!({ "name": secret.name, "type": "secret_text" })))
}

pub(super) async fn change(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    let changes: asked::SecretChanges = object(&cx.request.body)?;
    let changes =
        changes.secrets.into_iter().map(|(secret, change)| (secret, change.map(|change| change.text)));
    cx.workers.put_secrets(cx.account, name, changes.collect()).await?;
    Ok(encode::result(&Value::from(shown::secrets(&cx.described(name)?))))
}

/// Of a Worker's settings its secrets alone can be changed without its code.
pub(super) async fn change_settings(cx: &Context<'_>, name: &str) -> Result<Reply, WireError> {
    cx.described(name)?;
    let changes = upload::read_secrets(cx.request)?.into_iter().map(|(secret, text)| (secret, Some(text)));
    cx.workers.put_secrets(cx.account, name, changes.collect()).await?;
    Ok(encode::result(&shown::settings(&cx.described(name)?)))
}

pub(super) async fn delete(cx: &Context<'_>, name: &str, secret: &str) -> Result<Reply, WireError> {
    cx.workers.put_secret(cx.account, name, secret, None).await?;
    Ok(encode::result(&Value::Null))
}
