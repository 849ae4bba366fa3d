//! Create, delete, metadata, stored access policies, lists.

use kew_azure::Settings;
use std::time::Duration;

use super::server::{AzureAnswer, AzureServer, settings};

const PROLOG: &str = r#"<?xml version="1.0" encoding="utf-8"?>"#;

/// Vendor: REST reference, "Create Queue"
#[tokio::test]
async fn a_queue_is_made_found_with_equal_metadata_and_refused_with_other() {
    let server = AzureServer::open().await;
    let make = async |value| server.ask_with("PUT", "/orders", &[("x-ms-meta-colour", value)], "").await;
    let made = make("blue").await;
    assert_eq!((made.status, made.header("content-length")), (201, Some("0")));
    assert_eq!(make("blue").await.status, 204);
    make("Blue").await.is_error(409, "QueueAlreadyExists");
    server.ask("PUT", "/orders", "").await.is_error(409, "QueueAlreadyExists");
}

#[tokio::test]
async fn a_deleted_queue_is_gone_with_everything_and_can_be_made_again_at_once() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "", "a").await;
    assert_eq!(server.ask("DELETE", "/orders", "").await.status, 204);
    server.ask("DELETE", "/orders", "").await.is_error(404, "QueueNotFound");
    server.ask("GET", "/orders/messages", "").await.is_error(404, "QueueNotFound");
    server.queue("orders").await;
    assert!(server.texts("orders", "").await.is_empty());
}

#[tokio::test]
async fn a_queue_on_its_way_out_is_in_the_way_as_long_as_the_setting_says() {
    let server =
        AzureServer::with(Settings { queue_deletion_delay: Duration::from_secs(30), ..settings() }).await;
    server.queue("orders").await;
    server.ask("DELETE", "/orders", "").await;
    for (method, path) in [("PUT", "/orders"), ("GET", "/orders?comp=metadata"), ("DELETE", "/orders")] {
        server.ask(method, path, "").await.is_error(409, "QueueBeingDeleted");
    }
    assert!(server.ask("GET", "?comp=list", "").await.elements("Name").is_empty());
    server.advance(30).await;
    server.queue("orders").await;
}

/// Vendor: REST reference, "Set Queue Metadata", "Get Queue Metadata"
#[tokio::test]
async fn metadata_is_replaced_as_a_whole_and_shown_with_the_number_of_messages() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    server.put("orders", "", "a").await;
    server.put("orders", "?visibilitytimeout=60", "b").await;
    server.put("orders", "?messagettl=5", "c").await;
    server.texts("orders", "").await;
    let set = server
        .ask_with("PUT", "/orders?comp=metadata", &[("x-ms-meta-one", "1"), ("x-ms-meta-two", "2")], "")
        .await;
    assert_eq!(set.status, 204);
    for method in ["GET", "HEAD"] {
        let shown = server.ask(method, "/orders?comp=metadata", "").await;
        assert_eq!((shown.status, shown.header("x-ms-meta-one"), shown.body.as_str()), (200, Some("1"), ""));
        assert_eq!(shown.header("x-ms-approximate-messages-count"), Some("3"));
    }
    server.advance(6).await;
    let cleared = server.ask("PUT", "/orders?comp=metadata", "").await;
    assert_eq!(cleared.status, 204);
    let shown = server.ask("GET", "/orders?comp=metadata", "").await;
    assert_eq!(shown.header("x-ms-meta-one"), None);
    assert_eq!(shown.header("x-ms-approximate-messages-count"), Some("2"), "expired ones are not counted");
}

#[tokio::test]
async fn metadata_that_is_no_metadata_is_refused() {
    let server = AzureServer::open().await;
    let large = "x".repeat(8_192);
    for (name, value, code) in [
        ("x-ms-meta-", "a", "EmptyMetadataKey"),
        ("x-ms-meta-1a", "a", "InvalidMetadata"),
        ("x-ms-meta-a-b", "a", "InvalidMetadata"),
        ("x-ms-meta-a", large.as_str(), "MetadataTooLarge"),
    ] {
        server.ask_with("PUT", "/orders", &[(name, value)], "").await.is_error(400, code);
    }
    assert_eq!(server.ask_with("PUT", "/orders", &[("x-ms-meta-a", &large[1..])], "").await.status, 201);
}

#[tokio::test]
async fn names_are_judged_by_length_and_then_by_characters_on_every_operation() {
    let server = AzureServer::open().await;
    for (name, code) in [
        ("ab", "OutOfRangeInput"),
        ("Pq", "OutOfRangeInput"),
        ("Orders", "InvalidResourceName"),
        ("a--b", "InvalidResourceName"),
        ("a.fifo", "InvalidResourceName"),
        (&"a".repeat(64), "OutOfRangeInput"),
    ] {
        server.ask("PUT", &format!("/{name}"), "").await.is_error(400, code);
        server.ask("GET", &format!("/{name}/messages"), "").await.is_error(400, code);
    }
}

/// Vendor: REST reference, "Set Queue ACL", "Get Queue ACL"; recordings of the Python SDK for the form of times
#[tokio::test]
async fn stored_policies_come_back_as_they_were_written() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let policies = "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy><Start>2020-01-01T00:00:00.1234567Z</Start><Expiry>2030-01-01</Expiry><Permission>raup</Permission></AccessPolicy></SignedIdentifier><SignedIdentifier><Id>b</Id></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(server.ask("PUT", "/orders?comp=acl", policies).await.status, 204);
    let shown = server.ask("GET", "/orders?comp=acl", "").await;
    assert_eq!(shown.elements("Id"), ["a", "b"]);
    assert_eq!(shown.element("Start"), "2020-01-01T00:00:00.1234567Z");
    // Clients do not read a date alone.
    assert_eq!(shown.element("Expiry"), "2030-01-01T00:00:00.0000000Z");
    assert_eq!(shown.element("Permission"), "raup");
    let head = server.ask("HEAD", "/orders?comp=acl", "").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(server.ask("PUT", "/orders?comp=acl", "").await.status, 204);
    assert!(server.ask("GET", "/orders?comp=acl", "").await.elements("Id").is_empty());
    server.ask("PUT", "/orders?comp=acl", "<SignedIdentifiers>").await.is_error(400, "InvalidXmlDocument");
    server.ask("GET", "/other?comp=acl", "").await.is_error(404, "QueueNotFound");
}

/// Vendor: recorded by the Python SDK's test `test_set_queue_acl_with_empty_signed_identifier`
#[tokio::test]
async fn a_stored_policy_without_fields_is_shown_without_them() {
    let server = AzureServer::open().await;
    server.queue("orders").await;
    let bare = "<SignedIdentifiers><SignedIdentifier><Id>empty</Id></SignedIdentifier></SignedIdentifiers>";
    assert_eq!(server.ask("PUT", "/orders?comp=acl", bare).await.status, 204);
    let shown = server.ask("GET", "/orders?comp=acl", "").await;
    assert_eq!((shown.status, shown.body), (200, format!("{PROLOG}{bare}")));
    let one = bare.replace("</Id>", "</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>");
    assert_eq!(server.ask("PUT", "/orders?comp=acl", &one).await.status, 204);
    assert_eq!(server.ask("GET", "/orders?comp=acl", "").await.body, format!("{PROLOG}{one}"));
}

#[tokio::test]
async fn lists_are_sorted_filtered_and_go_on_page_by_page_whatever_comes_and_goes() {
    let server = AzureServer::open().await;
    for name in ["b2", "a-1", "b1", "c-1", "b3"].map(|name| format!("{name}x")) {
        server.queue(&name).await;
    }
    let names = async |query: &str| server.ask("GET", &format!("?comp=list{query}"), "").await;
    let all = names("").await;
    assert_eq!(all.elements("Name"), ["a-1x", "b1x", "b2x", "b3x", "c-1x"]);
    assert_eq!((all.element("NextMarker"), all.elements("Prefix").len()), (String::new(), 0));
    assert!(all.body.contains(r#"ServiceEndpoint="http://127.0.0.1:10001/devstoreaccount1""#));
    let first = names("&prefix=b&maxresults=2").await;
    assert_eq!(
        (first.elements("Name"), first.element("Prefix")),
        (vec!["b1x".into(), "b2x".into()], "b".into())
    );
    assert_eq!(first.element("MaxResults"), "2");
    let marker = first.element("NextMarker");
    server.ask("DELETE", "/b2x", "").await;
    server.queue("b0x").await;
    let second = names(&format!("&prefix=b&maxresults=2&marker={marker}")).await;
    assert_eq!((second.elements("Name"), second.element("NextMarker")), (vec!["b3x".into()], String::new()));
    assert_eq!(second.element("Marker"), marker);
    names("&marker=%21").await.is_error(400, "InvalidMarker");
    names("&maxresults=0").await.is_error(400, "OutOfRangeQueryParameterValue");
    names("&maxresults=x").await.is_error(400, "InvalidQueryParameterValue");
}

/// Vendor: REST reference, "Set Queue Metadata": names keep the case in which they were made
#[tokio::test]
async fn names_of_metadata_keep_the_case_in_which_they_were_written() {
    let server = AzureServer::open().await;
    let written = [("X-Ms-Meta-ShoeSize", "44"), ("x-ms-meta-URL", "b")];
    assert_eq!(server.ask_with("PUT", "/orders", &written, "").await.status, 201);
    let listed = async || server.ask("GET", "?comp=list&include=metadata", "").await.body;
    let shown = listed().await;
    assert!(shown.contains("<ShoeSize>44</ShoeSize>") && shown.contains("<URL>b</URL>"), "{shown}");
    // Setting and retrieving properties and metadata for queue resources: names keep the case they were made with.
    // The clients' `metadata` is what the reply's headers are called behind the prefix.
    let shown = server.ask("GET", "/orders?comp=metadata", "").await;
    for (name, value) in [("x-ms-meta-ShoeSize", "44"), ("x-ms-meta-URL", "b")] {
        assert_eq!(shown.header(name), Some(value), "{:?}", shown.headers);
    }
    // Names are compared without it, so this is the same queue with the names it had.
    let again = [("x-ms-meta-shoesize", "44"), ("x-ms-meta-url", "b")];
    assert_eq!(server.ask_with("PUT", "/orders", &again, "").await.status, 204);
    assert!(listed().await.contains("<ShoeSize>44</ShoeSize>"));
    assert_eq!(
        server.ask_with("PUT", "/orders?comp=metadata", &[("x-MS-meta-sHOE", "1")], "").await.status,
        204
    );
    assert!(listed().await.contains("<Metadata><sHOE>1</sHOE></Metadata>"));
}

#[tokio::test]
async fn lists_show_metadata_when_asked() {
    let server = AzureServer::open().await;
    server.ask_with("PUT", "/orders", &[("x-ms-meta-colour", "a<b")], "").await;
    let shown = server.ask("GET", "?comp=list&include=Metadata", "").await;
    assert!(shown.body.contains("<Metadata><colour>a&lt;b</colour></Metadata>"), "{}", shown.body);
    assert!(!server.ask("GET", "?comp=list", "").await.body.contains("Metadata"));
}
