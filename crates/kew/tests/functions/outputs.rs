//! Output bindings: queues that results are written to.

use crate::rig::Rig;

const OUTPUTS: &str = r#",{"type":"queue","direction":"out","name":"one","queueName":"done-{colour}"},
    {"type":"queue","direction":"out","name":"$return","queueName":"returned","dataType":"binary"}"#;

#[test]
fn results_are_put_into_queues_that_are_made_when_they_are_needed() {
    let rig = Rig::new("", "orders");
    rig.function("fn", "orders", OUTPUTS);
    let _host = rig.host();
    rig.put("orders", r#"{"colour":"red"}"#);
    let body = r#"{"Outputs":{"one":["hello",{"b":1,"a":2}],"unknown":"x"},"ReturnValue":"test"}"#;
    rig.desk.next().reply("200 OK", "application/json", body);
    rig.holds("orders", 0);
    let texts = |queue: &str| rig.peek(queue).into_iter().map(|(text, _)| text).collect::<Vec<_>>();
    assert_eq!(texts("done-red"), ["aGVsbG8=", "eyJiIjoxLCJhIjoyfQ=="]);
    assert_eq!(texts("returned"), ["dGVzdA=="]);
}

#[test]
fn an_output_that_cannot_be_written_fails_the_run() {
    let rig = Rig::new("", "orders");
    rig.function("fn", "orders", OUTPUTS);
    let mut host = rig.host();
    rig.put("orders", "no colour");
    let body = r#"{"Outputs":{"one":"hello!"}}"#;
    rig.desk.next().reply("200 OK", "application/json", body);
    let again = rig.desk.next();
    assert_eq!(again.tries(), "2");
    host.logs("{colour}, for which this message has no value", 1);
    again.reply("200 OK", "application/json", "{}");
    rig.holds("orders", 0);
}

#[test]
fn a_function_of_the_same_host_is_woken_by_what_another_puts() {
    let rig = Rig::new("", "orders");
    rig.function("fn", "orders", r#",{"type":"queue","direction":"out","name":"next","queueName":"second"}"#);
    rig.function("second", "second", "");
    rig.create("second");
    let _host = rig.host_with(&["--wait", "off"]);
    // Pauses have grown to a minute by then.
    rig.advance(300);
    rig.put("orders", "hello");
    rig.advance(61);
    rig.desk.next().reply("200 OK", "application/json", r#"{"Outputs":{"next":"for the second"}}"#);
    let call = rig.desk.next();
    assert_eq!((call.function.as_str(), call.text().as_str()), ("second", "for the second"));
    call.succeed();
    rig.holds("second", 0);
}
