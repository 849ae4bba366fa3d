//! Pop receipts: which of them still holds, for whom and how long.

use super::server::{AzureAnswer, AzureServer, encoded, message};

const NOBODY: &str = "00000000-0000-4000-8000-0000deadbeef";

async fn delete(server: &AzureServer, queue: &str, id: &str, receipt: &str) -> super::server::Answer {
    server.ask("DELETE", &format!("/{queue}/messages/{id}?popreceipt={}", encoded(receipt)), "").await
}

async fn update(
    server: &AzureServer,
    id: &str,
    receipt: &str,
    seconds: u32,
    body: &str,
) -> super::server::Answer {
    let path = format!("/orders/messages/{id}?popreceipt={}&visibilitytimeout={seconds}", encoded(receipt));
    server.ask("PUT", &path, body).await
}

#[tokio::test]
async fn the_receipt_of_a_put_deletes_and_updates() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let (id, receipt) = server.put("orders", "", "a").await;
    let updated = update(&server, &id, &receipt, 10, &message("b")).await;
    assert_eq!(updated.status, 204);
    assert_eq!(updated.header("x-ms-time-next-visible"), Some("Thu, 01 Jan 2026 00:00:10 GMT"));
    assert!(server.texts("orders", "").await.is_empty(), "it is hidden now");
    delete(&server, "orders", &id, &receipt).await.is_error(400, "PopReceiptMismatch");
    let newest = updated.header("x-ms-popreceipt").expect("an update returns a new receipt");
    assert_eq!(delete(&server, "orders", &id, newest).await.status, 204);
    delete(&server, "orders", &id, newest).await.is_error(404, "MessageNotFound");
}

/// Vendor: REST reference, "Get Messages", "Delete Message"
#[tokio::test]
async fn a_get_voids_every_earlier_receipt_and_its_own_outlives_its_invisibility() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let (id, first) = server.put("orders", "", "a").await;
    let second = server.ask("GET", "/orders/messages?visibilitytimeout=1", "").await.element("PopReceipt");
    delete(&server, "orders", &id, &first).await.is_error(400, "PopReceiptMismatch");
    server.advance(5).await;
    let updated = update(&server, &id, &second, 0, "").await;
    assert_eq!(updated.status, 204, "nobody has received it since");
    let third = server.ask("GET", "/orders/messages", "").await;
    assert_eq!((third.element("DequeueCount"), third.element("MessageText")), ("2".into(), "a".into()));
    delete(&server, "orders", &id, &second).await.is_error(400, "PopReceiptMismatch");
    assert_eq!(delete(&server, "orders", &id, &third.element("PopReceipt")).await.status, 204);
}

/// Vendor: REST reference, "Update Message"
#[tokio::test]
async fn an_update_keeps_or_empties_or_replaces_the_text_and_nothing_else_changes() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let (id, mut receipt) = server.put("orders", "?messagettl=100", "a").await;
    for (body, text) in [
        (String::new(), "a"),
        ("<QueueMessage/>".to_owned(), "a"),
        (message("b"), "b"),
        ("<QueueMessage><MessageText/></QueueMessage>".to_owned(), ""),
    ] {
        let updated = update(&server, &id, &receipt, 0, &body).await;
        assert_eq!(updated.status, 204, "{}", updated.body);
        receipt = updated.header("x-ms-popreceipt").expect("an update returns a new receipt").to_owned();
        let seen = server.ask("GET", "/orders/messages?peekonly=true", "").await;
        assert_eq!((seen.element("MessageText"), seen.element("DequeueCount")), (text.into(), "0".into()));
        assert_eq!(seen.element("ExpirationTime"), "Thu, 01 Jan 2026 00:01:40 GMT");
    }
}

#[tokio::test]
async fn a_week_can_be_asked_for_again_and_again() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "?messagettl=-1", "a").await;
    let got = server.ask("GET", "/orders/messages?visibilitytimeout=604800", "").await;
    server.advance(604_000).await;
    let updated = update(&server, &got.element("MessageId"), &got.element("PopReceipt"), 604_800, "").await;
    assert_eq!(updated.status, 204, "{}", updated.body);
}

#[tokio::test]
async fn receipts_of_others_and_forged_ones_do_nothing() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.queue("others").await;
    let (id, receipt) = server.put("orders", "", "a").await;
    let (other_id, other_receipt) = server.put("orders", "", "b").await;
    let (_, foreign) = server.put("others", "", "c").await;
    delete(&server, "orders", &id, &other_receipt).await.is_error(400, "PopReceiptMismatch");
    delete(&server, "orders", &id, &foreign).await.is_error(400, "PopReceiptMismatch");
    delete(&server, "orders", NOBODY, &receipt).await.is_error(404, "MessageNotFound");
    let of_another_version = format!("B{}", &receipt[1..]);
    delete(&server, "orders", &id, &of_another_version).await.is_error(400, "PopReceiptMismatch");
    let changed = if receipt.as_bytes()[40] == b'A' { 'B' } else { 'A' };
    let forged = format!("{}{changed}{}", &receipt[..40], &receipt[41..]);
    delete(&server, "orders", &id, &forged).await.is_error(400, "PopReceiptMismatch");
    assert_eq!(delete(&server, "orders", &id, &receipt).await.status, 204);
    assert_eq!(delete(&server, "orders", &other_id, &other_receipt).await.status, 204);
}

/// Vendor: recorded by the .NET SDK's tests `UpdateMessageAsync_Error` and `DeleteMessagAsync_Error`
#[tokio::test]
async fn a_receipt_from_elsewhere_is_judged_after_the_queue_and_the_message() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let (id, receipt) = server.put("orders", "", "a").await;
    for foreign in ["mesbvexorrjhouuwibaj", "AgAAAAMAAAAAAAAANcCsz5Yr1QE="] {
        for unknown in ["test-message-db7fa4dc-f5aa-06ae-a37a-cedd543bf8d0", NOBODY] {
            delete(&server, "orders", unknown, foreign).await.is_error(404, "MessageNotFound");
            update(&server, unknown, foreign, 0, &message("")).await.is_error(404, "MessageNotFound");
        }
        delete(&server, "nowhere", &id, foreign).await.is_error(404, "QueueNotFound");
        delete(&server, "orders", &id, foreign).await.is_error(400, "PopReceiptMismatch");
        update(&server, &id, foreign, 0, "").await.is_error(400, "PopReceiptMismatch");
    }
    assert_eq!(delete(&server, "orders", &id, &receipt).await.status, 204);
}

#[tokio::test]
async fn what_is_missing_or_no_receipt_is_named() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let (id, receipt) = server.put("orders", "", "a").await;
    let path = format!("/orders/messages/{id}");
    let missing = server.ask("DELETE", &path, "").await;
    missing.is_error(400, "MissingRequiredQueryParameter");
    assert_eq!(missing.element("QueryParameterName"), "popreceipt");
    let no_time = server.ask("PUT", &format!("{path}?popreceipt={}", encoded(&receipt)), "").await;
    no_time.is_error(400, "MissingRequiredQueryParameter");
    assert_eq!(no_time.element("QueryParameterName"), "visibilitytimeout");
    for garbage in ["garbage!", "invalid"] {
        let refused = server.ask("DELETE", &format!("{path}?popreceipt={garbage}"), "").await;
        refused.is_error(400, "InvalidQueryParameterValue");
        assert_eq!(refused.element("QueryParameterName"), "popreceipt");
        assert_eq!(refused.element("QueryParameterValue"), garbage);
        assert_eq!(refused.element("Reason"), "Invalid pop receipt format");
    }
    let late = update(&server, &id, &receipt, 604_801, "").await;
    late.is_error(400, "OutOfRangeQueryParameterValue");
    delete(&server, "nowhere", &id, &receipt).await.is_error(404, "QueueNotFound");
}

#[tokio::test]
async fn an_expired_message_is_gone_for_its_receipt_too() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "?messagettl=10", "a").await;
    let got = server.ask("GET", "/orders/messages?visibilitytimeout=60", "").await;
    server.advance(10).await;
    let deleted = delete(&server, "orders", &got.element("MessageId"), &got.element("PopReceipt")).await;
    deleted.is_error(404, "MessageNotFound");
}
