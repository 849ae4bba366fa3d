//! azure_storage_queue, the Azure SDK for Rust: queues, metadata, messages, receipts and refusals, with signed URLs.
//!
//! The crate signs with tokens over TLS, or with what its URL carries; here that is an account SAS.

use azure_core::credentials::Secret;
use azure_core::error::ErrorKind;
use azure_core::hmac::hmac_sha256;
use azure_core::http::headers::HeaderName;
use azure_core::http::{ClientOptions, RetryOptions, Url};
use azure_storage_queue::models::{
    CorsRule, ListQueuesIncludeType, QueueClientCreateOptions, QueueClientGetPropertiesResultHeaders,
    QueueClientPeekMessagesOptions, QueueClientReceiveMessagesOptions, QueueClientSendMessageOptions,
    QueueClientUpdateMessageOptions, QueueMessage, QueueServiceClientListQueuesOptions,
    QueueServiceProperties, ReceivedMessage,
};
use azure_storage_queue::{QueueClient, QueueServiceClient, QueueServiceClientOptions};
use futures::TryStreamExt;
use std::collections::HashMap;
use std::error::Error;
use std::fmt::Debug;

const ACCOUNT: &str = "devstoreaccount1";
const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

type Played = Result<(), Box<dyn Error>>;

/// A client of the account that may do what the letters say, until the end of 2099.
fn service(permissions: &str) -> Result<QueueServiceClient, Box<dyn Error>> {
    let (version, expiry) = ("2024-11-04", "2099-12-31T23:59:59Z");
    let signed = format!("{ACCOUNT}\n{permissions}\nq\nsco\n\n{expiry}\n\nhttps,http\n{version}\n\n");
    let signature = hmac_sha256(&signed, &Secret::new(KEY))?;
    let mut url = Url::parse(&format!("{}/{ACCOUNT}", std::env::var("KEW_AZURE")?))?;
    url.query_pairs_mut().extend_pairs([
        ("sv", version),
        ("ss", "q"),
        ("srt", "sco"),
        ("sp", permissions),
        ("se", expiry),
        ("spr", "https,http"),
        ("sig", &signature),
    ]);
    let options = ClientOptions { retry: RetryOptions::none(), ..Default::default() };
    let options = QueueServiceClientOptions { client_options: options, ..Default::default() };
    Ok(QueueServiceClient::new(url, None, Some(options))?)
}

async fn queue(name: &str) -> Result<QueueClient, Box<dyn Error>> {
    let client = service("rwdlacup")?.queue_client(&format!("rust-{name}"))?;
    client.create(None).await?;
    Ok(client)
}

fn same<T: PartialEq + Debug>(found: T, expected: T) -> Played {
    if found == expected { Ok(()) } else { Err(format!("found {found:?}, expected {expected:?}").into()) }
}

fn refused<T>(result: azure_core::Result<T>, status: u16, expected: &str) -> Played {
    let Err(error) = result else { return Err(format!("not refused with {expected}").into()) };
    match error.kind() {
        ErrorKind::HttpResponse { status: found, error_code, .. } => {
            same((u16::from(*found), error_code.as_deref()), (status, Some(expected)))
        }
        _ => Err(error.into()),
    }
}

/// Moves the server's clock on.
fn clock(seconds: u32) -> Played {
    println!("CLOCK {}", seconds * 1000);
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn message(text: &str) -> QueueMessage {
    QueueMessage { message_text: Some(text.to_owned()) }
}

async fn send(client: &QueueClient, text: &str, hidden: i32, life: i32) -> Played {
    let options = QueueClientSendMessageOptions {
        visibility_timeout: Some(hidden),
        message_time_to_live: Some(life),
        ..Default::default()
    };
    client.send_message(message(text).try_into()?, Some(options)).await?;
    Ok(())
}

async fn receive(client: &QueueClient, hidden: i32) -> Result<Vec<ReceivedMessage>, Box<dyn Error>> {
    let options = QueueClientReceiveMessagesOptions {
        number_of_messages: Some(32),
        visibility_timeout: Some(hidden),
        ..Default::default()
    };
    Ok(client.receive_messages(Some(options)).await?.into_model()?.items.unwrap_or_default())
}

async fn peeked(client: &QueueClient) -> Result<Vec<String>, Box<dyn Error>> {
    let options = QueueClientPeekMessagesOptions { number_of_messages: Some(32), ..Default::default() };
    let shown = client.peek_messages(Some(options)).await?.into_model()?.items.unwrap_or_default();
    Ok(shown.into_iter().map(|message| message.message_text.unwrap_or_default()).collect())
}

async fn a_message_is_sent_received_and_deleted_by_the_crate() -> Played {
    let client = queue("life").await?;
    let text = "hello <you> & \r\n Grüße 🚀";
    let sent = client.send_message(message(text).try_into()?, None).await?.into_model()?.into_message()?;
    let life = sent.expiration_time.ok_or("no expiry")? - sent.insertion_time.ok_or("no insertion")?;
    same(life.whole_days(), 7)?;
    let got = receive(&client, 10).await?.pop().ok_or("nothing received")?;
    let (id, receipt) = (got.message_id.ok_or("no id")?, got.pop_receipt.ok_or("no receipt")?);
    same(got.message_text.as_deref(), Some(text))?;
    same((Some(&id), got.dequeue_count), (sent.message_id.as_ref(), Some(1)))?;
    same(receive(&client, 10).await?.len(), 0)?;
    client.delete_message(&id, &receipt, None).await?;
    refused(client.delete_message(&id, &receipt, None).await, 404, "MessageNotFound")?;
    clock(11)?;
    same(receive(&client, 10).await?.len(), 0)
}

async fn an_update_gives_the_crate_a_receipt_that_replaces_the_first() -> Played {
    let client = queue("update").await?;
    client.send_message(message("one").try_into()?, None).await?;
    let got = receive(&client, 5).await?.pop().ok_or("nothing received")?;
    let (id, first) = (got.message_id.ok_or("no id")?, got.pop_receipt.ok_or("no receipt")?);
    let options = QueueClientUpdateMessageOptions {
        queue_message: Some(message("two").try_into()?),
        ..Default::default()
    };
    let updated = client.update_message(&id, &first, 7, Some(options)).await?;
    let second = updated.headers().get_str(&HeaderName::from_static("x-ms-popreceipt"))?.to_owned();
    refused(client.delete_message(&id, &first, None).await, 400, "PopReceiptMismatch")?;
    clock(6)?;
    same(peeked(&client).await?, vec![])?;
    // Without a text the message keeps its own.
    client.update_message(&id, &second, 0, None).await?;
    let again = receive(&client, 5).await?.pop().ok_or("nothing received")?;
    same((again.message_text.as_deref(), again.dequeue_count), (Some("two"), Some(2)))
}

async fn messages_wait_expire_and_are_cleared_for_the_crate() -> Played {
    let client = queue("times").await?;
    send(&client, "never", 0, -1).await?;
    send(&client, "brief", 0, 5).await?;
    send(&client, "later", 10, 100).await?;
    same(peeked(&client).await?, vec!["never".to_owned(), "brief".to_owned()])?;
    clock(5)?;
    same(peeked(&client).await?, vec!["never".to_owned()])?;
    clock(5)?;
    same(peeked(&client).await?, vec!["never".to_owned(), "later".to_owned()])?;
    same(client.get_properties(None).await?.approximate_messages_count()?, Some(2))?;
    client.clear(None).await?;
    same(peeked(&client).await?, vec![])
}

async fn a_queue_of_the_crate_keeps_metadata_and_refuses_another_s() -> Played {
    let client = service("rwdlacup")?.queue_client("rust-metadata")?;
    let pairs = |list: &[(&str, &str)]| -> HashMap<String, String> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let with = |metadata| Some(QueueClientCreateOptions { metadata: Some(metadata), ..Default::default() });
    same(client.exists().await?, false)?;
    let first = pairs(&[("owner", "ann"), ("purpose", "test")]);
    same(u16::from(client.create(with(first.clone())).await?.status()), 201)?;
    same(u16::from(client.create(with(first.clone())).await?.status()), 204)?;
    refused(client.create(with(pairs(&[("owner", "bob")]))).await, 409, "QueueAlreadyExists")?;
    same(client.get_properties(None).await?.metadata()?, first)?;
    let second = pairs(&[("stage", "two")]);
    client.set_metadata(&second, None).await?;
    same(client.get_properties(None).await?.metadata()?, second)?;
    client.delete(None).await?;
    same(client.exists().await?, false)?;
    refused(client.delete(None).await, 404, "QueueNotFound")?;
    refused(client.get_properties(None).await.map(drop), 404, "QueueNotFound")
}

async fn the_crate_s_pager_finds_all_queues_and_their_metadata() -> Played {
    let service = service("rwdlacup")?;
    for number in 0..5 {
        let metadata = HashMap::from([("Number".to_owned(), number.to_string())]);
        let options = QueueClientCreateOptions { metadata: Some(metadata), ..Default::default() };
        service.queue_client(&format!("rust-page-{number}"))?.create(Some(options)).await?;
    }
    let options = QueueServiceClientListQueuesOptions {
        prefix: Some("rust-page-".to_owned()),
        maxresults: Some(2),
        include: Some(vec![ListQueuesIncludeType::Metadata]),
        ..Default::default()
    };
    let mut pages = service.list_queues(Some(options))?.into_pages();
    let (mut found, mut sizes) = (Vec::new(), Vec::new());
    while let Some(page) = pages.try_next().await? {
        let queues = page.into_model()?.queue_items;
        sizes.push(queues.len());
        for queue in queues {
            let metadata = queue.metadata.unwrap_or_default();
            let number = metadata.iter().find(|(name, _)| name.eq_ignore_ascii_case("number"));
            found.push(queue.name.ok_or("no name")? + number.ok_or("no metadata")?.1);
        }
    }
    same(sizes, vec![2, 2, 1])?;
    same(found, (0..5).map(|number| format!("rust-page-{number}{number}")).collect())
}

async fn service_properties_come_back_to_the_crate() -> Played {
    let service = service("rwdlacup")?;
    let rule = CorsRule {
        allowed_origins: Some("https://a.example".to_owned()),
        allowed_methods: Some("GET".to_owned()),
        allowed_headers: Some("x-ms-*".to_owned()),
        exposed_headers: Some(String::new()),
        max_age_in_seconds: Some(60),
    };
    let properties = QueueServiceProperties { cors: Some(vec![rule]), ..Default::default() };
    service.set_properties(properties.try_into()?, None).await?;
    let shown = service.get_properties(None).await?.into_model()?.cors.unwrap_or_default();
    same(shown.first().and_then(|rule| rule.max_age_in_seconds), Some(60))?;
    let none = QueueServiceProperties { cors: Some(vec![]), ..Default::default() };
    service.set_properties(none.try_into()?, None).await?;
    Ok(())
}

async fn the_crate_is_refused_what_is_wrong_or_not_granted() -> Played {
    let client = queue("refused").await?;
    let guest = service("ra")?.queue_client("rust-refused")?;
    guest.send_message(message("let in").try_into()?, None).await?;
    same(peeked(&guest).await?, vec!["let in".to_owned()])?;
    refused(guest.receive_messages(None).await.map(drop), 403, "AuthorizationPermissionMismatch")?;
    let mut forged = guest.url().clone();
    forged.set_query(Some(&forged.query().unwrap_or_default().replace("sp=ra", "sp=rap")));
    let forged = QueueClient::new(forged, None, None)?;
    refused(forged.receive_messages(None).await.map(drop), 403, "AuthenticationFailed")?;
    let misnamed = service("rwdlacup")?.queue_client("no--name")?;
    refused(misnamed.create(None).await, 400, "InvalidResourceName")?;
    refused(send_long(&client).await, 413, "RequestBodyTooLarge")?;
    let many = QueueClientReceiveMessagesOptions { number_of_messages: Some(33), ..Default::default() };
    refused(client.receive_messages(Some(many)).await.map(drop), 400, "OutOfRangeQueryParameterValue")
}

async fn send_long(client: &QueueClient) -> azure_core::Result<()> {
    client.send_message(message(&"x".repeat(64 * 1024 + 1)).try_into()?, None).await.map(drop)
}

fn report(name: &str, played: Played) {
    match played {
        Ok(()) => println!("PASS {name}"),
        Err(reason) => println!("FAIL {name}: {}", format!("{reason} {reason:?}").replace('\n', " ")),
    }
}

macro_rules! play {
    ($($scenario:ident),+ $(,)?) => { $(report(stringify!($scenario), $scenario().await);)+ };
}

fn main() -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        play!(
            a_message_is_sent_received_and_deleted_by_the_crate,
            an_update_gives_the_crate_a_receipt_that_replaces_the_first,
            messages_wait_expire_and_are_cleared_for_the_crate,
            a_queue_of_the_crate_keeps_metadata_and_refuses_another_s,
            the_crate_s_pager_finds_all_queues_and_their_metadata,
            service_properties_come_back_to_the_crate,
            the_crate_is_refused_what_is_wrong_or_not_granted,
        );
    });
    Ok(())
}
