//! Servers to compare with, each if it is installed: the same bodies and connections, full cycles by a small client of
//! our own, the durability it runs with said in its row. What is missing is said too, with how to get it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::page::{Row, Verdict};
use super::server::{Folder, cpu};
use super::{Bench, Fault, count};
use crate::report::median;

const BODY: usize = 256;
const CONNECTIONS: usize = 16;

/// One server: how it is had, started and spoken to.
struct Other {
    name: &'static str,
    program: &'static str,
    package: &'static str,
    durability: &'static str,
    /// The words it is started with, on a port and in a folder.
    words: fn(u16, &Path) -> Vec<String>,
    /// Prepares the server once.
    prepare: fn(&mut Link) -> Result<(), Fault>,
    /// Sends, receives and deletes one message.
    cycle: fn(&mut Link) -> Result<(), Fault>,
}

const ALL: [Other; 2] = [
    Other {
        name: "Redis streams (XADD, XREADGROUP, XACK and XDEL)",
        program: "redis-server",
        package: "redis-server",
        durability: "append-only file, fsync always: synced before each answer",
        words: redis_words,
        prepare: redis_prepare,
        cycle: redis_cycle,
    },
    Other {
        name: "beanstalkd (put, reserve, delete)",
        program: "beanstalkd",
        package: "beanstalkd",
        durability: "write-ahead log, -f 0: synced at each write",
        words: |port, dir| {
            let words = ["-l", "127.0.0.1", "-f", "0", "-p", &port.to_string(), "-b", &dir.to_string_lossy()];
            words.iter().map(|word| (*word).to_owned()).collect()
        },
        prepare: |_| Ok(()),
        cycle: beanstalk_cycle,
    },
];

/// Servers that are named and not driven.
const UNDRIVEN: [&str; 3] = [
    "NATS JetStream and RabbitMQ: not driven, this client does not speak their protocols",
    "npm emulators of SQS: none is installed by itself; any server that speaks SQS can be measured with `kew bench --endpoint http://HOST:PORT --pid PID`",
    "Azurite: `kew bench --dialect azure --endpoint http://127.0.0.1:10001 --access-key devstoreaccount1 --secret KEY --pid PID` measures it as it stands",
];

/// Rows of the servers that are there, and what is missing.
pub fn rows(bench: &Bench, install: bool) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for other in &ALL {
        let there = is_there(other) || (install && installed(other));
        if !there {
            missing.push(format!(
                "MISSING {}: apt-get install {}, or `make bench ARGS=\"budget --install\"`",
                other.program, other.package
            ));
            continue;
        }
        eprintln!("{} …", other.program);
        rows.push(measure(bench, other).unwrap_or_else(|fault| Row::failed(other.name, &fault.to_string())));
    }
    missing.extend(UNDRIVEN.map(str::to_owned));
    (rows, missing)
}

fn is_there(other: &Other) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths)
        .chain(["/usr/sbin".into()])
        .any(|folder| folder.join(other.program).exists())
}

fn installed(other: &Other) -> bool {
    let mut command = Command::new("apt-get");
    command.args(["install", "--yes", "--no-install-recommends", other.package]);
    // Debian starts what it installs, unless the run level forbids it.
    command.env("RUNLEVEL", "1").env("DEBIAN_FRONTEND", "noninteractive");
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success()) && is_there(other)
}

/// A server that is ended when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = (self.0.kill(), self.0.wait());
    }
}

fn measure(bench: &Bench, other: &Other) -> Result<Row, Fault> {
    let folder = Folder::new(&bench.dir, other.program)?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let words = (other.words)(port, &folder.0);
    let mut command = Command::new(other.program);
    command.args(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let running = Running(command.spawn()?);
    let mut first = Link::open_within(port, Duration::from_secs(10))?;
    (other.prepare)(&mut first)?;
    let (mut rates, mut cpus) = (Vec::new(), Vec::new());
    for _ in 0..bench.loads.rounds {
        let (rate, each) = round(bench, other, port, running.0.id())?;
        rates.push(rate);
        cpus.push(each);
    }
    let measured = format!("{:.1} us, {} msg/s", median(cpus), count(median(rates)));
    let words = words.join(" ").replace(&*folder.0.to_string_lossy(), "DIR");
    let command = format!("{} {words}", other.program);
    let scenario = format!("{}, {CONNECTIONS} connections", other.name);
    Ok(Row::new(&scenario, other.durability, measured, Verdict::Unjudged, &command))
}

/// Cycles a second, and CPU of each in microseconds.
fn round(bench: &Bench, other: &Other, port: u16, pid: u32) -> Result<(f64, f64), Fault> {
    let done = AtomicU64::new(0);
    let (before, begun) = (cpu(pid), Instant::now());
    let until = begun + Duration::from_secs(bench.loads.seconds);
    std::thread::scope(|scope| {
        let work = || -> Result<(), Fault> {
            let mut link = Link::open_within(port, Duration::from_secs(10))?;
            while Instant::now() < until {
                (other.cycle)(&mut link)?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let workers: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a connection panicked")?)
    })?;
    let cycles = done.load(Ordering::Relaxed) as f64;
    let used = (cpu(pid) - before).as_secs_f64() * 1e6;
    Ok((cycles / begun.elapsed().as_secs_f64(), used / cycles.max(1.0)))
}

/// A connection that writes requests and reads lines.
struct Link {
    reader: BufReader<TcpStream>,
}

impl Link {
    fn open_within(port: u16, within: Duration) -> Result<Self, Fault> {
        let until = Instant::now() + within;
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
                    return Ok(Self { reader: BufReader::new(stream) });
                }
                Err(fault) if Instant::now() > until => return Err(fault.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn write(&mut self, request: &[u8]) -> Result<(), Fault> {
        Ok(self.reader.get_mut().write_all(request)?)
    }

    fn line(&mut self) -> Result<String, Fault> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err("the server closed the connection".into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn skip(&mut self, bytes: usize) -> Result<(), Fault> {
        let mut skipped = vec![0; bytes];
        Ok(self.reader.read_exact(&mut skipped)?)
    }

    /// One command to Redis; the texts and numbers in its reply, lists taken apart.
    fn redis(&mut self, words: &[&str]) -> Result<Vec<String>, Fault> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.write(request.as_bytes())?;
        let (mut found, mut left) = (Vec::new(), 1_i64);
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            let (kind, rest) = line.split_at_checked(1).ok_or("an empty line")?;
            match kind {
                "*" => left += rest.parse::<i64>()?.max(0),
                "$" if rest.starts_with('-') => {}
                "$" => {
                    let mut text = vec![0; rest.parse::<usize>()? + 2];
                    self.reader.read_exact(&mut text)?;
                    text.truncate(text.len() - 2);
                    found.push(String::from_utf8(text)?);
                }
                "-" => return Err(format!("Redis refused {words:?}: {rest}").into()),
                _ => found.push(rest.to_owned()),
            }
        }
        Ok(found)
    }
}

fn redis_words(port: u16, dir: &Path) -> Vec<String> {
    let (port, dir) = (port.to_string(), dir.to_string_lossy());
    let words = ["--port", &port, "--bind", "127.0.0.1", "--dir", &dir, "--save", "", "--appendonly", "yes"];
    words.iter().chain(&["--appendfsync", "always"]).map(|word| (*word).to_owned()).collect()
}

fn redis_prepare(link: &mut Link) -> Result<(), Fault> {
    link.redis(&["XGROUP", "CREATE", "bench", "all", "0", "MKSTREAM"]).map(drop)
}

fn redis_cycle(link: &mut Link) -> Result<(), Fault> {
    let body = "m".repeat(BODY);
    link.redis(&["XADD", "bench", "*", "body", &body])?;
    let read = link.redis(&["XREADGROUP", "GROUP", "all", "one", "COUNT", "1", "STREAMS", "bench", ">"])?;
    // The stream's name, the entry's id, its field and its value.
    let [_, id, _, found] = read.as_slice() else { return Err(format!("no entry in {read:?}").into()) };
    if *found != body {
        return Err(format!("another body came: {found}").into());
    }
    // A deletion is both: the group forgets it, the stream drops it.
    link.redis(&["XACK", "bench", "all", id])?;
    link.redis(&["XDEL", "bench", id]).map(drop)
}

fn beanstalk_cycle(link: &mut Link) -> Result<(), Fault> {
    let body = "m".repeat(BODY);
    link.write(format!("put 0 0 3600 {BODY}\r\n{body}\r\n").as_bytes())?;
    let put = link.line()?;
    if !put.starts_with("INSERTED ") {
        return Err(format!("put: {put}").into());
    }
    link.write(b"reserve\r\n")?;
    let reserved = link.line()?;
    let fields: Vec<&str> = reserved.split(' ').collect();
    let ["RESERVED", id, bytes] = fields.as_slice() else {
        return Err(format!("reserve: {reserved}").into());
    };
    link.skip(bytes.parse::<usize>()? + 2)?;
    link.write(format!("delete {id}\r\n").as_bytes())?;
    match link.line()?.as_str() {
        "DELETED" => Ok(()),
        other => Err(format!("delete: {other}").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers each request with the next reply, whatever it says.
    fn answering(replies: &'static [&'static str]) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the machine has a free port");
        let port = listener.local_addr().expect("the listener is bound").port();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the test connects");
            let mut bytes = [0; 4096];
            for reply in replies {
                let read = stream.read(&mut bytes).expect("the test writes");
                assert!(read > 0);
                stream.write_all(reply.as_bytes()).expect("the test reads");
            }
        });
        port
    }

    #[test]
    fn redis_replies_are_taken_apart() {
        const NESTED: &str =
            "*1\r\n*2\r\n$5\r\nbench\r\n*1\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$4\r\nbody\r\n$1\r\nm\r\n";
        let port = answering(&[NESTED, ":1\r\n", "-ERR no\r\n"]);
        let mut link = Link::open_within(port, Duration::from_secs(5)).expect("the other server listens");
        assert_eq!(link.redis(&["XREADGROUP"]).expect("a reply"), ["bench", "1-0", "body", "m"]);
        assert_eq!(link.redis(&["XACK"]).expect("a reply"), ["1"]);
        assert!(link.redis(&["NO"]).is_err());
    }

    #[test]
    fn a_beanstalk_cycle_puts_reserves_and_deletes() {
        let port = answering(&[
            "INSERTED 7\r\n",
            "RESERVED 7 2\r\nmm\r\n",
            "DELETED\r\n",
            "INSERTED 8\r\n",
            "TIMED_OUT\r\n",
        ]);
        let mut link = Link::open_within(port, Duration::from_secs(5)).expect("the other server listens");
        beanstalk_cycle(&mut link).expect("a whole cycle");
        assert!(beanstalk_cycle(&mut link).is_err());
    }
}
