//! Messages that are taken away in mid-run, and replies that are none.

use crate::recorder::Recorder;
use crate::rig::Rig;

fn encoded(receipt: &str) -> String {
    kew_http::percent::encode(receipt.as_bytes()).into_owned()
}

// Scenario 9.
#[test]
fn a_message_deleted_by_somebody_else_is_no_error() {
    let mut rig = Rig::new("", "orders");
    let recorder = Recorder::between(&mut rig);
    let mut host = rig.host();
    rig.put("orders", "hello");
    let call = rig.desk.next();
    let path =
        format!("/orders/messages/{}?popreceipt={}", call.known("Id"), encoded(&call.known("PopReceipt")));
    assert_eq!(rig.ask("DELETE", &path, "").status, 204);
    call.succeed();
    host.logs("Executed 'Functions.fn' (Succeeded", 1);
    rig.put("orders", "next");
    let next = rig.desk.next();
    assert_eq!(next.text(), "next");
    next.succeed();
    rig.holds("orders", 0);
    recorder.has_seen("Delete", 2);
    let statuses: Vec<u16> = recorder.seen("Delete").iter().map(|delete| delete.status).collect();
    assert_eq!(statuses, [404, 204]);
    assert!(!host.log().contains("ERROR"), "{}", host.log());
}

// Scenario 10.
#[test]
fn a_message_that_somebody_else_took_over_is_left_to_them() {
    let mut rig = Rig::new("", "orders");
    let recorder = Recorder::between(&mut rig);
    let mut host = rig.host();
    rig.put("orders", "hello");
    let call = rig.desk.next();
    let path = format!(
        "/orders/messages/{}?popreceipt={}&visibilitytimeout=60",
        call.known("Id"),
        encoded(&call.known("PopReceipt"))
    );
    assert_eq!(rig.ask("PUT", &path, "").status, 204);
    call.succeed();
    host.logs("is no longer this host's", 1);
    recorder.has_seen("Delete", 1);
    let deletes = recorder.seen("Delete");
    assert_eq!(deletes.iter().map(|delete| delete.status).collect::<Vec<_>>(), [400]);
    assert_eq!(rig.count("orders"), Some(1), "it is not lost");
    assert!(!host.log().contains("ERROR"), "{}", host.log());
    rig.advance(60);
    let again = rig.desk.next();
    assert_eq!(again.tries(), "2");
    again.succeed();
    rig.holds("orders", 0);
}

// Scenario 14.
#[test]
fn replies_that_are_none_are_failures() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put("orders", "hello");
    rig.desk.next().fail();
    rig.desk.next().reply("200 OK", "application/json", "oops");
    rig.desk.next().hang_up();
    rig.desk.next().reply("200 OK", "text/plain", "{}");
    let last = rig.desk.next();
    assert_eq!(last.tries(), "5");
    last.reply("201 Created", "application/json", r#"{"Logs":["a line of the function"]}"#);
    rig.holds("orders", 0);
    host.logs("Executed 'Functions.fn' (Failed", 4);
    host.logs("Executed 'Functions.fn' (Succeeded", 1);
    host.logs("a line of the function", 1);
    host.logs("the handler answered 500", 1);
    host.logs("the handler's reply is no JSON object", 1);
    host.logs("the handler did not answer", 1);
    host.logs("no JSON Content-Type", 1);
}

#[test]
fn a_text_that_is_not_base64_goes_to_the_poison_queue_as_it_is() {
    let rig = Rig::new("", "orders");
    let mut host = rig.host();
    rig.put_raw("orders", "not base64!");
    rig.holds("orders-poison", 1);
    assert_eq!(rig.peek("orders-poison")[0].0, "not base64!");
    host.logs("is not valid Base64", 1);
    rig.desk.is_silent();
    rig.put("orders", "fine");
    rig.desk.next().succeed();
    rig.holds("orders", 0);
}

#[test]
fn texts_are_taken_as_they_are_when_the_settings_say_so() {
    let rig = Rig::new(r#""messageEncoding":"none""#, "orders");
    let _host = rig.host();
    rig.put_raw("orders", "plain &lt;text&gt;");
    let call = rig.desk.next();
    assert_eq!(call.text(), "plain <text>");
    call.succeed();
    rig.holds("orders", 0);
}

#[test]
fn a_trigger_may_take_its_texts_otherwise_than_the_host() {
    let rig = Rig::new("", "orders");
    let trigger = |queue: &str, encoding: &str| {
        format!(r#"{{"type":"queueTrigger","direction":"in","name":"item","queueName":"{queue}"{encoding}}}"#)
    };
    let plain = trigger("plain", r#","messageEncoding":"None""#);
    let outputs = r#",{"type":"queue","direction":"out","name":"usual","queueName":"usual"},
        {"type":"queue","direction":"out","name":"bare","queueName":"bare","messageEncoding":"none"}"#;
    rig.file("plain/function.json", &format!(r#"{{"bindings":[{plain}{outputs}]}}"#));
    rig.create("plain");
    let _host = rig.host();
    rig.put_raw("plain", "not base64!");
    let call = rig.desk.next();
    assert_eq!((call.function.as_str(), call.text().as_str()), ("plain", "not base64!"));
    call.reply("200 OK", "application/json", r#"{"Outputs":{"usual":"hello!","bare":"hello!"}}"#);
    rig.holds("plain", 0);
    let texts = |queue: &str| rig.peek(queue).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!((texts("usual"), texts("bare")), (vec!["aGVsbG8h".to_owned()], vec!["hello!".to_owned()]));
    // The other function of the host takes Base64 as before.
    rig.put("orders", "coded");
    let call = rig.desk.next();
    assert_eq!((call.function.as_str(), call.text().as_str()), ("fn", "coded"));
    call.succeed();
    rig.holds("orders", 0);
}

#[test]
fn the_handler_gets_all_metadata_of_a_message() {
    let rig = Rig::new("", "orders");
    let _host = rig.host();
    rig.put("orders", r#"{"colour":"red","size":{"w":1}}"#);
    let call = rig.desk.next();
    assert_eq!(call.function, "fn");
    for header in [
        "content-type: application/json; charset=utf-8",
        "x-azure-functions-invocationid: ",
        "user-agent: Azure-Functions-Host/",
    ] {
        assert!(call.head.to_ascii_lowercase().contains(&header.to_ascii_lowercase()), "{}", call.head);
    }
    let metadata = &call.body["Metadata"];
    assert_eq!((metadata["colour"].as_str(), metadata["size"]["w"].as_i64()), (Some("\"red\""), Some(1)));
    assert_eq!(metadata["sys"]["MethodName"], "fn");
    assert!(metadata.get("QueueTrigger").is_none());
    for name in ["ExpirationTime", "InsertionTime", "NextVisibleTime"] {
        let text = metadata[name].as_str().expect("a date is coded as text");
        assert!(text.len() == 25 && text.ends_with("+00:00"), "{name}: {text}");
    }
    call.succeed();
}
