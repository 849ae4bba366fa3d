//! Makes the calls that it reads with the AWS SDK for Rust.
//!
//! One JSON object a line in, one a line out; `xtask/src/e2e/agent.rs` says what they hold.

mod actions;
mod json;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::io::{AsyncBufReadExt, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut clients: HashMap<String, Client> = HashMap::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let call: Value = serde_json::from_str(&line).expect("calls are JSON");
        let name = format!("{} {} {}", call["endpoint"], call["region"], call["key"]);
        let client = clients.entry(name).or_insert_with(|| connect(&call)).clone();
        tokio::spawn(async move {
            let action = call["action"].as_str().unwrap_or_default();
            let mut answer = match actions::perform(&client, action, &call["input"]).await {
                Ok(output) => json!({ "output": output }),
                Err(refused) => refused,
            };
            answer["id"] = call["id"].clone();
            println!("{answer}");
        });
    }
}

fn connect(call: &Value) -> Client {
    let text = |name: &str| call[name].as_str().unwrap_or_default().to_owned();
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(text("endpoint"))
        .region(Region::new(text("region")))
        .credentials_provider(Credentials::new(text("key"), text("secret"), None, None, "e2e"))
        .build();
    Client::from_conf(config)
}
