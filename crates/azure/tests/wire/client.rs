//! The client side against the front-end: what one signs the other believes, and what one writes the other reads.

use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::{Call, Endpoint, Stamp, read};
use kew_http::client::{Answer, Client, ClientSettings};

use super::server::{AzureServer, KEY, NOW, settings, strict};

const LONG: Duration = Duration::from_secs(30);
const STAMP: Stamp<'_> = Stamp { now: NOW, id: "6f6b8a3e-0000-4000-8000-000000000001", token: None };

struct Caller {
    client: Client,
    endpoint: Endpoint,
}

impl Caller {
    fn new(server: &AzureServer, credential: &str) -> Self {
        let account = format!("QueueEndpoint=http://{}/devstoreaccount1", server.address);
        let endpoint = Endpoint::from_connection_string(&format!("{account};{credential}"));
        let endpoint = endpoint.expect("the connection string is well formed");
        Self { client: Client::new(ClientSettings::default()), endpoint }
    }

    fn signing(server: &AzureServer) -> Self {
        Self::new(server, &format!("AccountName=devstoreaccount1;AccountKey={KEY}"))
    }

    async fn ask(&self, call: &Call) -> Answer {
        let request = self.endpoint.request(call, STAMP).expect("the call has a valid URI and headers");
        self.client.exchange(request, LONG).await.expect("the front-end answers within the time limit")
    }
}

#[tokio::test]
async fn every_call_is_signed_so_that_a_strict_server_believes_it() {
    let server = AzureServer::with(strict()).await;
    let caller = Caller::signing(&server);
    assert_eq!(caller.ask(&Call::queue_metadata("orders")).await.status, 404);
    assert_eq!(caller.ask(&Call::create_queue("orders")).await.status, 201);
    let text = "a <text> with é, a\rreturn & more";
    let put = caller.ask(&Call::put_message("orders", text)).await;
    assert_eq!(put.status, 201);
    assert!(read::is_of_kew(&put));
    let got = caller.ask(&Call::get_messages("orders", 32, Duration::from_secs(600))).await;
    let messages = read::messages(&got.body).expect("Get Messages answers with a list");
    assert_eq!(messages.len(), 1);
    let message = &messages[0];
    assert_eq!((message.text.as_str(), message.dequeue_count, message.inserted), (text, 1, NOW));
    assert_eq!(message.next_visible, NOW.plus(Duration::from_secs(600)));
    let hide = Call::hide_message("orders", &message.id, &message.pop_receipt, Duration::from_secs(5));
    let hidden = caller.ask(&hide).await;
    assert_eq!(hidden.status, 204);
    let receipt = read::receipt(&hidden).expect("an updated message has a new receipt").to_owned();
    let stale = caller.ask(&Call::delete_message("orders", &message.id, &message.pop_receipt)).await;
    assert_eq!(read::refusal(&stale).0.as_deref(), Some("PopReceiptMismatch"));
    assert_eq!(caller.ask(&Call::delete_message("orders", &message.id, &receipt)).await.status, 204);
    let gone = caller.ask(&Call::delete_message("orders", &message.id, &receipt)).await;
    assert_eq!(read::refusal(&gone).0.as_deref(), Some("MessageNotFound"));
}

#[tokio::test]
async fn a_wrong_key_and_a_changed_request_are_refused() {
    let server = AzureServer::with(strict()).await;
    let wrong = Caller::new(&server, "AccountName=devstoreaccount1;AccountKey=d3Jvbmc=");
    let answer = wrong.ask(&Call::create_queue("orders")).await;
    assert_eq!(read::refusal(&answer).0.as_deref(), Some("AuthenticationFailed"));
    let caller = Caller::signing(&server);
    let call = Call::get_messages("orders", 1, Duration::from_secs(600));
    let mut request = caller.endpoint.request(&call, STAMP).expect("the call has a valid URI and headers");
    request.uri = request
        .uri
        .to_string()
        .replace("=600", "=601")
        .parse()
        .expect("a URI with another number stays valid");
    let answer =
        caller.client.exchange(request, LONG).await.expect("the front-end answers within the time limit");
    assert_eq!(answer.status, 403);
}

#[tokio::test]
async fn a_shared_access_signature_is_appended() {
    let server = AzureServer::with(strict()).await;
    let caller = Caller::new(
        &server,
        "SharedAccessSignature=?sv=2021-06-08&ss=q&srt=sco&sp=rwdlacup&se=2030-01-01T00:00:00Z&sig=bm90IGdlbnVpbmU%3D",
    );
    let request = caller
        .endpoint
        .request(&Call::queue_metadata("orders"), STAMP)
        .expect("the call has a valid URI and headers");
    let address = request.uri.to_string();
    assert!(address.ends_with("/orders?comp=metadata&sv=2021-06-08&ss=q&srt=sco&sp=rwdlacup&se=2030-01-01T00:00:00Z&sig=bm90IGdlbnVpbmU%3D"), "{address}");
    assert!(!request.headers.contains_key("authorization"));
    let refused = read::refusal(&caller.ask(&Call::queue_metadata("orders")).await);
    assert_eq!(refused, (Some("AuthenticationFailed".into()), Some("Signature did not match.".into())));
}

#[tokio::test]
async fn a_poll_that_may_wait_is_held_until_there_is_a_message() {
    let server = Arc::new(AzureServer::with(settings()).await);
    server.queue("orders").await;
    let held = tokio::spawn({
        let server = Arc::clone(&server);
        async move {
            let caller = Caller::signing(&server);
            let call =
                Call::get_messages("orders", 1, Duration::from_secs(600)).waiting(Duration::from_secs(20));
            caller.ask(&call).await
        }
    });
    while server.engine.stats().waiting_receives.value() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.advance(19).await;
    assert!(!held.is_finished());
    server.put("orders", "", "hello").await;
    let answer = held.await.expect("the held call does not panic");
    let messages = read::messages(&answer.body).expect("Get Messages answers with a list");
    assert_eq!(messages[0].text, "hello");
    assert_eq!(messages[0].next_visible, NOW.plus(Duration::from_secs(619)), "hidden from when it was got");
    assert!(!read::has_waited(&answer));
}

#[tokio::test]
async fn a_wait_that_brings_nothing_says_so_and_is_bounded() {
    let server = Arc::new(AzureServer::with(settings()).await);
    server.queue("orders").await;
    let held = tokio::spawn({
        let server = Arc::clone(&server);
        async move { server.ask_with("GET", "/orders/messages", &[("x-kew-wait", "100000")], "").await }
    });
    while server.engine.stats().waiting_receives.value() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.advance(20).await;
    let answer = held.await.expect("the held call does not panic");
    assert_eq!((answer.status, answer.header("x-kew-waited")), (200, Some("1")));
    for nonsense in ["", "-1", "soon"] {
        let answer = server.ask_with("GET", "/orders/messages", &[("x-kew-wait", nonsense)], "").await;
        assert_eq!((answer.status, answer.header("x-kew-waited")), (200, None), "{nonsense}");
    }
}
