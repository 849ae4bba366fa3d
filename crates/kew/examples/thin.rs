//! The hot path against its floor, in one run: `cargo run --release --package kew --example thin`.
//!
//! Full cycles (send, receive, delete) over keep-alive connections against `kew serve` on a real directory, and in
//! alternation requests of the same size against a bare server of the same HTTP library that reads them and answers
//! 200 fixed bytes ("null"). What counts is the server's CPU per cycle and its ratio to three null requests; times on
//! a shared machine are only told. Last the latency of a send at one connection beside a raw write and sync of the
//! same disk.
//!
//! Arguments: `[--seconds N] [--rounds N] [--connections A,B,…] [--kew PATH] [--dir PATH]`; build `kew` itself first.

use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Done<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Done {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.first().is_some_and(|first| first == "null") {
        return runtime.block_on(null::serve());
    }
    runtime.block_on(measure(&Plan::read(&arguments)?))
}

struct Plan {
    seconds: u64,
    rounds: usize,
    connections: Vec<usize>,
    kew: PathBuf,
    dir: PathBuf,
}

impl Plan {
    fn read(arguments: &[String]) -> Done<Self> {
        // target/release/examples/thin → target/release/kew
        let beside =
            std::env::current_exe()?.ancestors().nth(2).map(|dir| dir.join("kew")).unwrap_or_default();
        let mut plan = Self {
            seconds: 3,
            rounds: 3,
            connections: vec![16, 64],
            kew: beside,
            dir: std::env::temp_dir().join(format!("kew-thin-{}", std::process::id())),
        };
        for pair in arguments.chunks(2) {
            let [flag, value] = pair else { return Err("each flag takes a value".into()) };
            match flag.as_str() {
                "--seconds" => plan.seconds = value.parse()?,
                "--rounds" => plan.rounds = value.parse()?,
                "--connections" => {
                    plan.connections = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--kew" => plan.kew = value.into(),
                "--dir" => plan.dir = value.into(),
                _ => return Err(format!("unknown flag {flag}").into()),
            }
        }
        Ok(plan)
    }
}

async fn measure(plan: &Plan) -> Done {
    std::fs::create_dir_all(&plan.dir)?;
    let kew = Server::kew(plan)?;
    let null = Server::null(plan)?;
    kew.create_queue().await?;
    let length = Duration::from_secs(plan.seconds);
    println!("connections  kew msg/s  kew us/cycle  null req/s  null us/request  ratio");
    for &connections in &plan.connections {
        let mut ratios = Vec::new();
        for _ in 0..plan.rounds {
            let cycles = kew.load(connections, length, Work::Cycle).await?;
            let requests = null.load(connections, length, Work::Null).await?;
            let ratio = cycles.cpu_each / (3.0 * requests.cpu_each);
            ratios.push(ratio);
            println!(
                "{connections:>11}  {:>9.0}  {:>12.2}  {:>10.0}  {:>15.2}  {ratio:>5.2}",
                cycles.rate, cycles.cpu_each, requests.rate, requests.cpu_each
            );
        }
        println!("{connections:>11}  median ratio {:.2}", median(ratios));
    }
    latency(&kew, plan).await?;
    drop((kew, null));
    std::fs::remove_dir_all(&plan.dir)?;
    Ok(())
}

/// Sends and raw writes in turn, so that both meet the same disk.
async fn latency(kew: &Server, plan: &Plan) -> Done {
    const TURNS: u32 = 2_000;
    let file = File::create(plan.dir.join("raw"))?;
    file.write_all_at(&vec![1; 1 << 20], 0)?;
    file.sync_all()?;
    let mut connection = Connection::open(&kew.address).await?;
    let (mut sends, mut syncs) = (Vec::new(), Vec::new());
    let send = request(&kew.address, "SendMessage", &send_body());
    for turn in 0..TURNS {
        let begun = Instant::now();
        connection.ask(&send).await?;
        sends.push(begun.elapsed().as_secs_f64() * 1e6);
        let begun = Instant::now();
        file.write_all_at(&[2; 600], u64::from(turn % 1_000) * 600)?;
        file.sync_data()?;
        syncs.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    let (send, sync) = (median(sends), median(syncs));
    println!(
        "one connection: send p50 {send:.0} us, raw write and sync p50 {sync:.0} us, difference {:.0} us",
        send - sync
    );
    Ok(())
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// A server in a process of its own.
struct Server {
    child: Child,
    address: String,
}

#[derive(Clone, Copy)]
enum Work {
    Cycle,
    Null,
}

struct Figures {
    /// Cycles or requests a second.
    rate: f64,
    /// The server's CPU for each, in microseconds.
    cpu_each: f64,
}

impl Server {
    fn kew(plan: &Plan) -> Done<Self> {
        let ports = plan.dir.join("ports");
        let child = Command::new(&plan.kew)
            .args(["serve", "--sqs", "127.0.0.1:0", "--azure", "off", "--cloudflare", "off", "--store"])
            .arg(plan.dir.join("data"))
            .arg("--ports-file")
            .arg(&ports)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", plan.kew.display()))?;
        let text = appeared(&ports)?;
        let address = text.split('"').nth(3).ok_or("the ports file names no address")?.to_owned();
        Ok(Self { child, address })
    }

    fn null(plan: &Plan) -> Done<Self> {
        let ports = plan.dir.join("null");
        let child = Command::new(std::env::current_exe()?).arg("null").arg(&ports).spawn()?;
        Ok(Self { child, address: appeared(&ports)? })
    }

    async fn create_queue(&self) -> Done {
        let mut connection = Connection::open(&self.address).await?;
        connection.ask(&request(&self.address, "CreateQueue", r#"{"QueueName":"thin"}"#)).await?;
        Ok(())
    }

    async fn load(&self, connections: usize, length: Duration, work: Work) -> Done<Figures> {
        let cpu_before = self.cpu()?;
        let begun = Instant::now();
        let until = begun + length;
        let tasks: Vec<_> = (0..connections)
            .map(|_| {
                let address = self.address.clone();
                tokio::spawn(async move {
                    match work {
                        Work::Cycle => cycles(&address, until).await,
                        Work::Null => requests(&address, until).await,
                    }
                    .map_err(|error| error.to_string())
                })
            })
            .collect();
        let mut done = 0_u32;
        for task in tasks {
            done += task.await??;
        }
        let done = f64::from(done);
        let elapsed = begun.elapsed().as_secs_f64();
        Ok(Figures { rate: done / elapsed, cpu_each: (self.cpu()? - cpu_before) * 1e6 / done })
    }

    /// User and system time so far, in seconds.
    fn cpu(&self) -> Done<f64> {
        const TICKS_A_SECOND: f64 = 100.0;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let behind_the_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = behind_the_name.split_whitespace().skip(11);
        let (user, system): (f64, f64) =
            (fields.next().ok_or("no user time")?.parse()?, fields.next().ok_or("no system time")?.parse()?);
        Ok((user + system) / TICKS_A_SECOND)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = (self.child.kill(), self.child.wait());
    }
}

fn appeared(path: &PathBuf) -> Done<String> {
    for _ in 0..500 {
        if let Ok(text) = std::fs::read_to_string(path) {
            return Ok(text);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(format!("{} did not appear", path.display()).into())
}

async fn cycles(address: &str, until: Instant) -> Done<u32> {
    let mut connection = Connection::open(address).await?;
    let send = request(address, "SendMessage", &send_body());
    let receive = request(address, "ReceiveMessage", &format!(r#"{{"QueueUrl":"{}"}}"#, queue_url(address)));
    let mut done = 0;
    while Instant::now() < until {
        connection.ask(&send).await?;
        let reply = connection.ask(&receive).await?;
        let handle = reply.split("\"ReceiptHandle\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let handle = handle.ok_or("a receive after a send found nothing")?;
        let body = format!(r#"{{"QueueUrl":"{}","ReceiptHandle":"{handle}"}}"#, queue_url(address));
        connection.ask(&request(address, "DeleteMessage", &body)).await?;
        done += 1;
    }
    Ok(done)
}

async fn requests(address: &str, until: Instant) -> Done<u32> {
    let mut connection = Connection::open(address).await?;
    let send = request(address, "SendMessage", &send_body());
    let mut done = 0;
    while Instant::now() < until {
        connection.ask(&send).await?;
        done += 1;
    }
    Ok(done)
}

fn queue_url(address: &str) -> String {
    format!("http://{address}/000000000000/thin")
}

fn send_body() -> String {
    format!(r#"{{"QueueUrl":"http://127.0.0.1:9324/000000000000/thin","MessageBody":"{}"}}"#, "m".repeat(256))
}

/// With the headers an SDK sends.
fn request(address: &str, action: &str, body: &str) -> Vec<u8> {
    format!(
        "POST / HTTP/1.1\r\nhost: {address}\r\nx-amz-target: AmazonSQS.{action}\r\ncontent-type: application/x-amz-json-1.0\r\n\
         user-agent: thin/1 lang/rust\r\nx-amz-date: 20260101T000000Z\r\n\
         authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature={:064}\r\n\
         content-length: {}\r\n\r\n{body}",
        0,
        body.len()
    )
    .into_bytes()
}

/// One keep-alive connection that speaks just enough HTTP.
struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> Done<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(4096) })
    }

    /// Sends a request and returns the body of its reply.
    async fn ask(&mut self, request: &[u8]) -> Done<&str> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        loop {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let Some(head) = find(&self.buffer, b"\r\n\r\n") else { continue };
            let text = std::str::from_utf8(self.buffer.get(..head).unwrap_or_default())?;
            let length = text.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
            let length: usize = length.ok_or("no content-length")?.parse()?;
            if self.buffer.len() >= head + 4 + length {
                if !text.starts_with("HTTP/1.1 200") {
                    return Err(String::from_utf8_lossy(&self.buffer).into());
                }
                return Ok(std::str::from_utf8(self.buffer.get(head + 4..).unwrap_or_default())?);
            }
        }
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// The floor: the same HTTP library, one event loop, bodies read, 200 bytes answered.
mod null {
    use super::Done;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use hyper::body::Incoming;
    use hyper::header::{CONTENT_TYPE, HeaderValue};
    use hyper::service::service_fn;
    use hyper::{Request, Response};
    use hyper_util::rt::TokioIo;
    use std::path::Path;

    static ANSWER: [u8; 200] = [b' '; 200];

    async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        drop(request.into_body().collect().await?);
        let mut response = Response::new(Full::new(Bytes::from_static(&ANSWER)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    pub(super) async fn serve() -> Done {
        let ports = std::env::args().nth(2).ok_or("null needs a file for its address")?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let beside = format!("{ports}.tmp");
        std::fs::write(&beside, listener.local_addr()?.to_string())?;
        std::fs::rename(beside, Path::new(&ports))?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer)),
            );
        }
    }
}
