//! What an operator should know of a database before Kew relies on it.

use tokio_postgres::{Client, SimpleQueryMessage};

use crate::PgError;
use crate::error::POOLER_KEEPS_STATEMENTS;
use crate::postgres::Target;

/// How often two connections look which session of the server they have.
const LOOKS_FOR_POOLER: usize = 3;

/// The oldest PostgreSQL that is tested.
const OLDEST: i32 = 150_000;

/// What is wrong with the database's settings.
pub(crate) async fn of_settings(client: &Client) -> Result<Vec<String>, PgError> {
    let mut warnings = Vec::new();
    let text = "SELECT current_setting('server_version_num')::int, current_setting('server_version'),
        current_setting('fsync'), current_setting('full_page_writes'),
        current_setting('synchronous_standby_names')";
    let row = client.query_one(text, &[]).await?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    if number < OLDEST {
        warnings.push(format!("PostgreSQL {version} is older than 15, the oldest that Kew is tested with"));
    }
    for (at, setting) in [(2, "fsync"), (3, "full_page_writes")] {
        if row.get::<_, String>(at) == "off" {
            warnings.push(format!(
                "{setting} is off in PostgreSQL: a crash of its machine may lose or damage what was acknowledged"
            ));
        }
    }
    if row.get::<_, String>(4).is_empty() {
        warnings.push(
            "synchronous_standby_names is empty in PostgreSQL: a fail-over to a standby may lose what was acknowledged"
                .to_owned(),
        );
    }
    Ok(warnings)
}

/// Whether a pooler gives one session of the server to several connections, transaction by transaction. Statements that
/// are prepared on such a session must be kept by the pooler.
///
/// Both connections take turns: a session that both had, or a second one of the same connection, is such a pooler's.
pub(crate) async fn of_pooler(client: &Client, target: &Target) -> Result<Option<String>, PgError> {
    let other = target.open().await?;
    let mut had = [None, None];
    for _ in 0..LOOKS_FOR_POOLER {
        for (at, client) in [client, &other.client].into_iter().enumerate() {
            let session = session_of(client).await?;
            let is_other = had[at].as_ref().is_some_and(|before| *before != session);
            if is_other || had[1 - at].as_ref() == Some(&session) {
                return Ok(Some(format!(
                    "connections share sessions of PostgreSQL: {POOLER_KEEPS_STATEMENTS}"
                )));
            }
            had[at] = Some(session);
        }
    }
    Ok(None)
}

/// The session of the server that a connection has just now. It is asked for in one message: what closes a prepared
/// statement comes behind the answer, and the pooler would give the other connection another session meanwhile.
async fn session_of(client: &Client) -> Result<String, PgError> {
    let answered = client.simple_query("SELECT pg_backend_pid()").await?;
    let session = answered.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
        _ => None,
    });
    session.ok_or_else(|| PgError::Database("the server does not say which session this is".to_owned()))
}
