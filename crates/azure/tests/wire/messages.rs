//! Put, get, peek, clear: states, times, texts and order.

use super::server::{AzureAnswer, AzureServer, message};

/// Vendor: REST reference, "Put Message", "Get Messages"
#[tokio::test]
async fn a_message_is_put_got_and_shown_with_all_its_times() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let put = server.ask("POST", "/orders/messages?visibilitytimeout=10&messagettl=60", &message("hi")).await;
    assert_eq!(put.status, 201);
    assert_eq!(put.element("InsertionTime"), "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(put.element("ExpirationTime"), "Thu, 01 Jan 2026 00:01:00 GMT");
    assert_eq!(put.element("TimeNextVisible"), "Thu, 01 Jan 2026 00:00:10 GMT");
    let none = server.ask("GET", "/orders/messages", "").await;
    assert!(none.body.ends_with("<QueueMessagesList/>") || none.body.ends_with("<QueueMessagesList />"));
    server.advance(10).await;
    let got = server.ask("GET", "/orders/messages", "").await;
    assert_eq!((got.element("MessageText"), got.element("DequeueCount")), ("hi".into(), "1".into()));
    assert_eq!(got.element("MessageId"), put.element("MessageId"));
    assert_eq!(got.element("TimeNextVisible"), "Thu, 01 Jan 2026 00:00:40 GMT");
    let order: Vec<usize> = [
        "MessageId",
        "InsertionTime",
        "ExpirationTime",
        "PopReceipt",
        "TimeNextVisible",
        "DequeueCount",
        "MessageText",
    ]
    .iter()
    .map(|name| got.body.find(&format!("<{name}>")).expect("each element of the list stands in the reply"))
    .collect();
    assert!(order.is_sorted(), "{}", got.body);
    assert!(server.texts("orders", "").await.is_empty());
    server.advance(30).await;
    let again = server.ask("GET", "/orders/messages?visibilitytimeout=1", "").await;
    assert_eq!(again.element("DequeueCount"), "2");
    server.advance(20).await;
    assert!(server.texts("orders", "").await.is_empty(), "its time is over");
}

#[tokio::test]
async fn a_peek_shows_what_is_visible_and_changes_nothing() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    for text in ["a", "b", "c"] {
        server.put("orders", "", text).await;
    }
    server.texts("orders", "").await;
    for _ in 0..2 {
        let seen = server.ask("GET", "/orders/messages?peekonly=true&numofmessages=32", "").await;
        assert_eq!(seen.elements("MessageText"), ["b", "c"]);
        assert_eq!(seen.elements("DequeueCount"), ["0", "0"]);
        assert!(seen.elements("PopReceipt").is_empty() && seen.elements("TimeNextVisible").is_empty());
    }
}

#[tokio::test]
async fn clearing_removes_everything_hidden_or_not() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "", "a").await;
    server.put("orders", "?visibilitytimeout=60", "b").await;
    server.texts("orders", "").await;
    for _ in 0..2 {
        assert_eq!(server.ask("DELETE", "/orders/messages", "").await.status, 204);
    }
    let shown = server.ask("GET", "/orders?comp=metadata", "").await;
    assert_eq!(shown.header("x-ms-approximate-messages-count"), Some("0"));
}

#[tokio::test]
async fn texts_come_back_as_they_were_sent() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    for (sent, shown) in [
        ("", ""),
        ("  two  ", "  two  "),
        ("a\rb", "a&#xD;b"),
        ("é ☃ 𝄞", "é ☃ 𝄞"),
        ("&lt;b&gt;&amp;", "&lt;b&gt;&amp;"),
        ("<![CDATA[<i>]]>", "&lt;i&gt;"),
    ] {
        server.put("orders", "", sent).await;
        assert_eq!(server.texts("orders", "").await, [shown], "{sent:?}");
    }
    let largest = "m".repeat(65_536);
    server.put("orders", "", &largest).await;
    assert_eq!(server.texts("orders", "").await, [largest.as_str()]);
    let larger = server.ask("POST", "/orders/messages", &message(&format!("{largest}m"))).await;
    larger.is_error(413, "RequestBodyTooLarge");
    assert_eq!(larger.element("MaxLimit"), "65536");
    let escaped = "&#x26;".repeat(65_536);
    assert_eq!(server.ask("POST", "/orders/messages", &message(&escaped)).await.status, 201);
}

#[tokio::test]
async fn a_message_put_back_goes_behind_those_visible_before_it() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    for text in ["a", "b", "c"] {
        server.put("orders", "", text).await;
    }
    assert_eq!(server.texts("orders", "?visibilitytimeout=10").await, ["a"]);
    server.advance(10).await;
    assert_eq!(server.texts("orders", "?numofmessages=32").await, ["b", "c", "a"]);
}

#[tokio::test]
async fn a_message_with_a_delay_takes_its_place_when_it_shows() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "?visibilitytimeout=10", "late").await;
    server.put("orders", "", "early").await;
    server.advance(10).await;
    assert_eq!(server.texts("orders", "?numofmessages=2").await, ["early", "late"]);
}

/// Vendor: REST reference, "Put Message", messagettl
#[tokio::test]
async fn times_to_live_may_be_for_ever_and_outlast_the_longest_delay() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    for ttl in ["-1", "9007199254740991"] {
        let put = server.ask("POST", &format!("/orders/messages?messagettl={ttl}"), &message("a")).await;
        assert_eq!(put.element("ExpirationTime"), "Fri, 31 Dec 9999 23:59:59 GMT", "{ttl}");
    }
    let bad = server.ask("POST", "/orders/messages?messagettl=0", &message("a")).await;
    bad.is_error(400, "InvalidQueryParameterValue");
    assert_eq!(
        bad.element("Reason"),
        "Value must be greater than or equal to 1, or -1 to indicate an infinite TTL."
    );
    let hidden = server.ask("POST", "/orders/messages?messagettl=5&visibilitytimeout=5", &message("a")).await;
    hidden.is_error(400, "InvalidQueryParameterValue");
    assert_eq!(hidden.element("Reason"), "messagettl must be greater than visibilitytimeout.");
    let week = server.ask("POST", "/orders/messages?visibilitytimeout=604800", &message("a")).await;
    assert_eq!(week.status, 201);
}

#[tokio::test]
async fn numbers_out_of_range_are_refused_with_what_is_allowed() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    for (method, query, min, max) in [
        ("GET", "numofmessages=0", "1", "32"),
        ("GET", "numofmessages=33", "1", "32"),
        ("GET", "peekonly=true&numofmessages=33", "1", "32"),
        ("GET", "visibilitytimeout=0", "1", "604800"),
        ("GET", "visibilitytimeout=604801", "1", "604800"),
        ("POST", "visibilitytimeout=-1", "0", "604800"),
        ("POST", "visibilitytimeout=604801", "0", "604800"),
    ] {
        let body = if method == "POST" { message("a") } else { String::new() };
        let answer = server.ask(method, &format!("/orders/messages?{query}"), &body).await;
        answer.is_error(400, "OutOfRangeQueryParameterValue");
        assert_eq!(
            (answer.element("MinimumAllowed"), answer.element("MaximumAllowed")),
            (min.into(), max.into())
        );
    }
    server
        .ask("GET", "/orders/messages?numofmessages=abc", "")
        .await
        .is_error(400, "InvalidQueryParameterValue");
}

#[tokio::test]
async fn documents_that_are_no_message_are_refused_before_they_cost_anything() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let deep = format!("{}{}", "<a>".repeat(1_000), "</a>".repeat(1_000));
    for body in [
        "",
        "hello",
        "<QueueMessage/>",
        "<QueueMessage><MessageText>a</QueueMessage>",
        "<!DOCTYPE x [<!ENTITY e \"e\">]><QueueMessage><MessageText>&e;</MessageText></QueueMessage>",
        "<QueueMessage><MessageText>\u{1}</MessageText></QueueMessage>",
        &format!("<QueueMessage><MessageText>{deep}</MessageText></QueueMessage>"),
    ] {
        server.ask("POST", "/orders/messages", body).await.is_error(400, "InvalidXmlDocument");
    }
    let huge = server.ask("POST", "/orders/messages", &"x".repeat(400_000)).await;
    huge.is_error(413, "RequestBodyTooLarge");
}
