//! A listener against a service that has its bad days.

use std::sync::Arc;
use std::time::Duration;

use super::Listener;
use crate::project::{DataType, Output, Template, Token};
use crate::stop::Stop;
use crate::trial::{Act, HUNG_UP, Service, account, answer, one_message};

const EMPTY: &str = "<QueueMessagesList/>";

#[tokio::test(start_paused = true)]
async fn troubles_that_pass_are_waited_out() {
    let mut statuses = [401, 408, 429, 500, 401, 503].into_iter();
    let mut service = Service::acting(move |_| {
        Act::Answer(match statuses.next() {
            Some(status) => answer(status, "Other", ""),
            None => answer(200, "Other", EMPTY),
        })
    })
    .await;
    let (shared, lines) = service.shared();
    let (stop, stopped) = Stop::new();
    let listener = Listener::new(shared, service.function(None));
    let listening = tokio::spawn(listener.listen(stopped));
    service.next("GET /acc/q/messages").await;
    service.next("GET /acc/q/messages").await;
    stop.tell();
    assert_eq!(listening.await.expect("the listener does not panic"), Ok(()));
    let lines = lines.lock();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    // Logged when the fault changes, and when it is over.
    assert_eq!(
        (count("is not let in"), count("cannot poll"), count("polls its queue")),
        (2, 2, 1),
        "{lines:?}"
    );
    assert_eq!(count("app setting 'Setting'"), 2, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_read_just_now_is_waited_for() {
    let folder = tempfile::tempdir().expect("the machine has a temporary directory");
    let path = folder.path().join("token");
    let mut service = Service::acting(|_| Act::Answer(answer(200, "Other", EMPTY))).await;
    let (shared, lines) = service.shared();
    let listener = Listener::new(shared, service.function(Some(Token::File(path.clone()))));
    let (_stop, stopped) = Stop::new();
    let listening = tokio::spawn(listener.listen(stopped));
    tokio::time::sleep(Duration::from_secs(100)).await;
    // As it is while it is being replaced.
    std::fs::write(&path, "").expect("the folder is ours");
    tokio::time::sleep(Duration::from_secs(100)).await;
    std::fs::write(&path, "secret\n").expect("the folder is ours");
    let asked = service.next("GET /acc/q?comp=metadata").await;
    assert!(asked.text.contains("authorization: Bearer secret\r\n"), "{}", asked.text);
    assert!(!listening.is_finished());
    let lines = lines.lock();
    assert!(lines[0].contains("cannot read the token in") && lines.len() == 1, "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_answered_leaves_time_for_another() {
    let mut service = Service::acting(|request| match request {
        get if get.starts_with("GET /acc/q?") => Act::Answer(answer(200, "Other", "")),
        get if get.starts_with("GET ") => Act::Answer(answer(200, "Other", &one_message("hello", 1))),
        _ => Act::Hold,
    })
    .await;
    let (shared, _lines) = service.shared();
    let (_stop, stopped) = Stop::new();
    let mut settings = shared.settings.clone();
    settings.new_batch_threshold = 0;
    let shared = Arc::new(crate::shared::Shared {
        settings,
        ..Arc::into_inner(shared).expect("the test holds the only reference")
    });
    let _listening = tokio::spawn(Listener::new(shared, service.function(None)).listen(stopped));
    let run = service.next("POST /fn").await;
    let first = service.next("PUT /acc/q/messages/m").await;
    let second = service.next("PUT /acc/q/messages/m").await;
    let seconds = |asked: &crate::trial::Asked| asked.at.duration_since(run.at).as_secs();
    assert_eq!((seconds(&first), seconds(&second)), (300, 300 + 30 + 150));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_not_let_in_is_tried_again_while_the_message_is_hidden() {
    let mut refusals = [403, 403].into_iter();
    let mut service = Service::acting(move |request| match request {
        get if get.starts_with("GET /acc/q?") => Act::Answer(answer(200, "Other", "")),
        get if get.starts_with("GET ") => Act::Answer(answer(200, "Other", &one_message("hello", 1))),
        put if put.starts_with("PUT ") => Act::Answer(answer(refusals.next().unwrap_or(204), "Other", "")),
        _ => Act::Hold,
    })
    .await;
    let (shared, lines) = service.shared();
    let (_stop, stopped) = Stop::new();
    let mut settings = shared.settings.clone();
    settings.new_batch_threshold = 0;
    let shared = Arc::new(crate::shared::Shared {
        settings,
        ..Arc::into_inner(shared).expect("the test holds the only reference")
    });
    let _listening = tokio::spawn(Listener::new(shared, service.function(None)).listen(stopped));
    let run = service.next("POST /fn").await;
    let mut seconds = Vec::new();
    for _ in 0..4 {
        let renewal = service.next("PUT /acc/q/messages/m");
        let renewal = tokio::time::timeout(Duration::from_secs(600), renewal).await;
        let renewal =
            renewal.unwrap_or_else(|_| panic!("no more renewals after {seconds:?}: {:?}", lines.lock()));
        seconds.push(renewal.at.duration_since(run.at).as_secs());
    }
    assert_eq!(seconds, [300, 300 + 150, 300 + 150 + 75, 300 + 150 + 75 + 300]);
    let lines = lines.lock();
    let count = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!(
        (count("it is tried again"), count("another instance may run it"), count("this machine's clock")),
        (2, 0, 2),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_message_that_is_on_its_way_when_the_host_stops_is_run() {
    let mut service = Service::acting(|request| match request {
        call if call.starts_with("POST /fn") => Act::Answer(answer(200, "handler", "{}")),
        get if get.contains("x-kew-wait") => {
            Act::AnswerAtTheEnd(answer(200, "Kew-Queue/1", &one_message("hello", 1)))
        }
        _ => Act::Answer(answer(200, "Kew-Queue/1", "")),
    })
    .await;
    let (shared, _lines) = service.shared();
    let (stop, stopped) = Stop::new();
    let listening = tokio::spawn(Listener::new(shared, service.function(None)).listen(stopped));
    service.next("GET /acc/q/messages").await;
    stop.tell();
    service.next(HUNG_UP).await;
    service.next("POST /fn").await;
    service.next("DELETE /acc/q/messages/m").await;
    assert_eq!(listening.await.expect("the listener does not panic"), Ok(()));
    assert_eq!(service.rest(), [""; 0], "nothing is asked for after the stop");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_poll_does_not_delay_a_stop() {
    let mut service = Service::acting(|request| {
        if request.contains("x-kew-wait") { Act::Hold } else { Act::Answer(answer(200, "Kew-Queue/1", "")) }
    })
    .await;
    let (shared, _lines) = service.shared();
    let (stop, stopped) = Stop::new();
    let listening = tokio::spawn(Listener::new(shared, service.function(None)).listen(stopped));
    let asked = service.next("GET /acc/q/messages").await;
    stop.tell();
    assert_eq!(listening.await.expect("the listener does not panic"), Ok(()));
    assert!(asked.at.elapsed() < Duration::from_secs(2), "{:?}", asked.at.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_output_waits_for_a_server_that_is_not_there_and_costs_no_try() {
    let mut service = Service::acting(|request| match request {
        get if get.starts_with("GET /acc/q/") => Act::Answer(answer(200, "Other", &one_message("hello", 1))),
        call if call.starts_with("POST /fn") => {
            Act::Answer(answer(200, "handler", r#"{"ReturnValue":"a result"}"#))
        }
        _ => Act::Answer(answer(200, "Other", "")),
    })
    .await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("a bound socket has an address").port();
    drop(listener);
    let mut function = Arc::into_inner(service.function(None)).expect("the test holds the only reference");
    function.outputs.push(Output {
        name: "$return".into(),
        queue: Template::read("results").expect("a plain name is a template"),
        account: account(port, None),
        data_type: DataType::Text,
        encoding: None,
    });
    let (shared, lines) = service.shared();
    let mut settings = shared.settings.clone();
    settings.new_batch_threshold = 0;
    let shared = Arc::new(crate::shared::Shared {
        settings,
        ..Arc::into_inner(shared).expect("the test holds the only reference")
    });
    let (_stop, stopped) = Stop::new();
    let _listening = tokio::spawn(Listener::new(shared, Arc::new(function)).listen(stopped));
    service.next("POST /fn").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let mut results = Service::acting_at(port, |_| Act::Answer(answer(201, "Other", ""))).await;
    assert!(results.next("POST /acc/results/messages").await.text.contains("a result"));
    service.next("DELETE /acc/q/messages/m").await;
    let lines = lines.lock();
    assert!(lines.iter().all(|line| !line.contains("(Failed")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_receipt_lost_with_an_unanswered_renewal_is_logged_as_a_warning() {
    let (ends, mut is_over) = tokio::sync::watch::channel(false);
    let mut service = Service::acting(move |request| match request {
        get if get.starts_with("GET /acc/q/") => Act::Answer(answer(200, "Other", &one_message("hello", 1))),
        // The first renewal is done and its answer lost; from then on the receipt is an old one.
        put if put.starts_with("PUT ") && !ends.send_replace(true) => Act::Hold,
        old if old.starts_with("PUT ") || old.starts_with("DELETE ") => {
            Act::Answer(answer(400, "Other", "<Error><Code>PopReceiptMismatch</Code></Error>"))
        }
        call if call.starts_with("POST /fn") => {
            Act::AnswerAfter(Duration::from_secs(700), answer(200, "handler", "{}"))
        }
        _ => Act::Answer(answer(200, "Other", "")),
    })
    .await;
    let (shared, lines) = service.shared();
    let mut settings = shared.settings.clone();
    settings.new_batch_threshold = 0;
    let shared = Arc::new(crate::shared::Shared {
        settings,
        ..Arc::into_inner(shared).expect("the test holds the only reference")
    });
    let (_stop, stopped) = Stop::new();
    let _listening = tokio::spawn(Listener::new(shared, service.function(None)).listen(stopped));
    is_over.wait_for(|over| *over).await.expect("the renewal ends before its sender is dropped");
    service.next("DELETE /acc/q/messages/m").await;
    service.next("GET /acc/q/messages").await;
    let lines = lines.lock();
    let line =
        lines.iter().find(|line| line.contains("no longer this host's")).expect("the lost lease is logged");
    assert!(line.contains("a renewal that was not answered"), "{lines:?}");
}
