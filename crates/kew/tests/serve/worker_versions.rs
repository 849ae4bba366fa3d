//! Versions of a Worker, and which of them ran when. Without the runtime this says so aloud and passes.

use serde_json::{Value, json};

use super::program::{self, data_directory};
use super::workers::{
    PASSES_ON, TOKEN, call, consume, done, metadata, queues, send, start, upload, upload_to, wait_for,
};

#[test]
fn each_version_keeps_what_it_is_made_of_and_each_deployment_is_remembered() {
    let Some(runtime) = program::workerd() else { return };
    let directory = data_directory();
    let mut kew = start(directory.path(), &runtime);
    let (orders, results) = queues(&kew);
    assert_eq!(upload(&kew, &[TOKEN], &metadata(), PASSES_ON).0, 200);
    consume(&kew, &orders);
    let mut second = metadata();
    second["compatibility_date"] = json!("2025-01-01");
    second["compatibility_flags"] = json!(["nodejs_compat"]);
    second["bindings"] = json!([
        { "type": "queue", "name": "OUT", "queue_name": "results" },
        { "type": "plain_text", "name": "TOKEN", "text": "of the second" },
    ]);
    second["annotations"] = json!({ "workers/message": "with a text", "workers/tag": "v2" });
    let versions = "/workers/scripts/w/versions";
    let (status, reply) = upload_to(&kew, ("POST", versions), &[TOKEN], &second, PASSES_ON);
    assert_eq!(status, 200, "{reply}");
    assert_eq!(reply["result"]["resources"]["bindings"][1]["text"], "of the second", "{reply}");
    let newest = reply["result"]["id"].as_str().expect("id is text").to_owned();

    let listed = done(&kew, "GET", &format!("{versions}?deployable=true"), &Value::Null);
    let listed = listed["items"].as_array().expect("items is a list").clone();
    assert_eq!(listed.iter().map(|version| &version["number"]).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(listed[0]["annotations"]["workers/tag"], "v2");
    let oldest = listed[1]["id"].as_str().expect("id is text").to_owned();
    let shown = |kew: &_, id: &str| done(kew, "GET", &format!("{versions}/{id}"), &Value::Null);
    let [first, kept] = [&oldest, &newest].map(|id| shown(&kew, id));
    assert_eq!(first["resources"]["script_runtime"]["compatibility_date"], "2026-04-01");
    assert_eq!(kept["resources"]["script_runtime"]["compatibility_date"], "2025-01-01");
    assert_eq!(kept["resources"]["script_runtime"]["compatibility_flags"], json!(["nodejs_compat"]));
    assert_eq!(kept["resources"]["bindings"][1]["name"], "TOKEN");
    assert_eq!(kept["annotations"]["workers/message"], "with a text");

    // What runs is still the first: the second is only kept.
    send(&kew, &orders, &json!({ "number": 1 }));
    assert_eq!(wait_for(&kew, &results, |body| body["got"]["number"] == 1)["token"], Value::Null);
    let deployments = "/workers/scripts/w/deployments";
    let deploy = |kew: &_, id: &str, message: &str| {
        let body = json!({
            "strategy": "percentage",
            "versions": [{ "version_id": id, "percentage": 100 }],
            "annotations": { "workers/message": message },
        });
        done(kew, "POST", deployments, &body)
    };
    let made = deploy(&kew, &newest, "on with it");
    assert_eq!(made["versions"][0]["version_id"], newest.as_str());
    send(&kew, &orders, &json!({ "number": 2 }));
    assert_eq!(wait_for(&kew, &results, |body| body["got"]["number"] == 2)["token"], "of the second");
    deploy(&kew, &oldest, "and back");
    send(&kew, &orders, &json!({ "number": 3 }));
    assert_eq!(wait_for(&kew, &results, |body| body["got"]["number"] == 3)["token"], Value::Null);

    let history = |kew: &_| {
        let found = done(kew, "GET", deployments, &Value::Null);
        let found = found["deployments"].as_array().expect("deployments is a list").clone();
        let one = |deployment: &Value| {
            let message =
                deployment["annotations"]["workers/message"].as_str().unwrap_or_default().to_owned();
            (deployment["versions"][0]["version_id"].as_str().unwrap_or_default().to_owned(), message)
        };
        found.iter().map(one).collect::<Vec<_>>()
    };
    let row = |id: &str, message: &str| (id.to_owned(), message.to_owned());
    let expected = [row(&oldest, "and back"), row(&newest, "on with it"), row(&oldest, "")];
    assert_eq!(history(&kew), expected);
    assert_eq!(call(&kew, "GET", &format!("{versions}/nothing"), &Value::Null).0, 404);

    kew.kill();
    let again = start(directory.path(), &runtime);
    assert_eq!(history(&again), expected, "it is written down");
    assert_eq!(shown(&again, &newest)["resources"], kept["resources"]);
}
