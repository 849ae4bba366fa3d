//! A thousand consumers waiting on one queue: how soon one of them has the message, that only one has it, and what
//! waiting costs. Figures of time are taken only with `KEW_LONG=1`, on a machine that has nothing else to do.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::body;
use crate::program::{Kew, data_directory};

const POLLERS: usize = 1_000;
/// Beyond the raw sync, in the median.
const DELIVERY_MAX: Duration = Duration::from_millis(2);
/// Of one core, by the pollers that wait.
const IDLE_MAX: f64 = 0.01;
/// How long a second delivery would have to show itself.
const SECOND_DELIVERY: Duration = Duration::from_millis(200);

fn long_run() -> bool {
    let long = std::env::var("KEW_LONG").is_ok_and(|value| value == "1");
    if !long {
        println!("figures are not taken: KEW_LONG=1 takes them");
    }
    long
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a machine has a runtime")
}

#[test]
fn a_message_reaches_exactly_one_of_a_thousand_waiting_pollers() {
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    let rounds = if long_run() { 200 } else { 3 };
    let (mut deliveries, mut syncs) = (Vec::new(), Vec::new());
    runtime().block_on(async {
        let mut crowd = Crowd::gather(&kew).await;
        let mut raw = File::create(directory.path().join("raw")).expect("the directory is ours");
        for round in 0..rounds {
            syncs.push(raw_sync(&mut raw));
            let text = format!("message {round}");
            let sent = Instant::now();
            crowd.send(&text).await;
            let (arrived, got) = crowd.next().await.expect("the pollers wait");
            assert!(got.contains(&text), "{got}");
            deliveries.push(arrived.duration_since(sent));
            if round % 50 == 0 {
                let second = tokio::time::timeout(SECOND_DELIVERY, crowd.next()).await;
                assert!(second.is_err(), "delivered twice: {second:?}");
            }
        }
    });
    let (delivery, sync) = (median(deliveries), median(syncs));
    println!("delivery {delivery:?} in the median of {rounds}, raw sync {sync:?}");
    if long_run() {
        let beyond = delivery.saturating_sub(sync);
        assert!(beyond < DELIVERY_MAX, "{beyond:?} beyond the raw sync of {sync:?}");
    }
}

#[test]
fn a_thousand_waiting_pollers_use_less_than_a_hundredth_of_a_core() {
    if !long_run() {
        return;
    }
    let directory = data_directory();
    let kew = Kew::start(directory.path());
    body(&kew, "CreateQueue", r#"{"QueueName":"orders"}"#);
    runtime().block_on(async {
        let crowd = Crowd::gather(&kew).await;
        let (begun, before) = (Instant::now(), kew.processor_time());
        tokio::time::sleep(Duration::from_secs(12)).await;
        let used = kew.processor_time().saturating_sub(before);
        let share = used.as_secs_f64() / begun.elapsed().as_secs_f64();
        println!("{POLLERS} idle pollers use {share:.4} of a core");
        assert!(share < IDLE_MAX, "{share}");
        drop(crowd);
    });
}

/// Pollers on connections of their own, each asking again when it was answered.
struct Crowd {
    arrivals: mpsc::UnboundedReceiver<(Instant, String)>,
    sender: TcpStream,
    address: String,
}

impl Crowd {
    /// Returns when every poller waits.
    async fn gather(kew: &Kew) -> Self {
        let (tell, arrivals) = mpsc::unbounded_channel();
        for _ in 0..POLLERS {
            let mut stream = TcpStream::connect(&kew.sqs).await.expect("the server accepts connections");
            stream.set_nodelay(true).expect("the connection is open");
            let poll = request(&kew.sqs, "ReceiveMessage", r#"{"QueueUrl":"orders","WaitTimeSeconds":20}"#);
            let tell = tell.clone();
            tokio::spawn(async move {
                while stream.write_all(poll.as_bytes()).await.is_ok() {
                    let Some(reply) = reply(&mut stream).await else { return };
                    // A poll that ends empty is no delivery.
                    if reply.contains("MessageId") && tell.send((Instant::now(), reply)).is_err() {
                        return;
                    }
                }
            });
        }
        let sender = TcpStream::connect(&kew.sqs).await.expect("the server accepts connections");
        sender.set_nodelay(true).expect("the connection is open");
        // The polls were written before; half a second lets the server read them all.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Self { arrivals, sender, address: kew.sqs.clone() }
    }

    async fn next(&mut self) -> Option<(Instant, String)> {
        self.arrivals.recv().await
    }

    /// Returns when the server has acknowledged it.
    async fn send(&mut self, text: &str) {
        let json = format!(r#"{{"QueueUrl":"orders","MessageBody":"{text}"}}"#);
        let request = request(&self.address, "SendMessage", &json);
        self.sender.write_all(request.as_bytes()).await.expect("the server reads the request");
        let reply = reply(&mut self.sender).await.expect("the server answers");
        assert!(reply.contains("MessageId"), "{reply}");
    }
}

fn request(address: &str, action: &str, json: &str) -> String {
    let length = json.len();
    format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nX-Amz-Target: AmazonSQS.{action}\r\nContent-Length: {length}\r\n\r\n{json}"
    )
}

/// The body of the next reply.
async fn reply(stream: &mut TcpStream) -> Option<String> {
    let mut said = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&said).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if length.is_some_and(|length| body.len() >= length) {
                return Some(body.to_owned());
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(read) if read > 0 => said.extend_from_slice(&piece[..read]),
            _ => return None,
        }
    }
}

/// What the disk takes by itself for as much as a small message.
fn raw_sync(file: &mut File) -> Duration {
    let begun = Instant::now();
    file.write_all(&[7; 512]).and_then(|()| file.sync_data()).expect("the disk has room");
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
