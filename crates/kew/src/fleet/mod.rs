//! A node of a fleet: the store in PostgreSQL that it joins, its links to the other nodes, and the shards it keeps.

mod home;
mod links;
mod names;
mod one_process;
mod reports;
mod shares;
mod shown;
mod silent;
mod time;
mod tls;
mod unlinked;
mod unopened;

use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kew_console::Console;
use kew_core::Entropy;
use kew_engine::Engine;
use kew_fleet::{
    Fleet, FleetMap, Keeper, MAP_AGE_MAX, MapPart, MovedRow, NodeId, NodeRow, Phase, ShardNews, ShardRow,
    TOLD_FOR, UNREADY_AFTER, WANTED_FOR,
};
use kew_log_pg::{Founding, Map, Node, PROMISED, PgNode, TENURE};
use kew_peer::link::{Address, Dial, Dialing, Endpoint, Identity, Opened, Peers, Secret, TcpDial, Versions};
use kew_push::workers::Workers;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use crate::config::PgUrl;
use crate::listen::Beside;
use crate::log::{Level, Log};
use crate::start_error::StartError;

pub use home::Opens;
pub use one_process::ShownProcess;
pub use shown::ShownFleet;
pub use time::FleetTime;

use home::{PgHome, SharedHome};
use links::{Answers, Links};
use names::PgNames;
use tls::PeerTls;
use unopened::Unopened;

// What a fleet goes by, beside what the database promises.
const _: () = {
    let tenure = TENURE.as_millis();
    assert!(MAP_AGE_MAX.as_millis() < tenure, "a map that young knows every owner that may answer");
    assert!(UNREADY_AFTER.as_millis() >= tenure, "a node that may answer for its shards is ready");
    assert!(TOLD_FOR.as_millis() > tenure, "a node that is notified no more may answer for no shard");
    assert!(WANTED_FOR.as_millis() > PROMISED.as_millis(), "a shard is left to the node that it is kept for");
};

/// How long a node that stops waits until others keep its shards.
const LEAVES_WITHIN: Duration = Duration::from_secs(10);
/// How long it takes to close those that no other node keeps.
const CLOSES_WITHIN: Duration = Duration::from_secs(10);

/// A node that has joined its fleet, and keeps no shard yet.
pub struct FleetNode {
    node: PgNode,
    fleet: Arc<Fleet>,
    home: Arc<PgHome>,
    links: Arc<Links>,
    answers: Arc<Answers>,
    socket: TcpListener,
    /// How connections to this node are encrypted, if they are.
    tls: Option<PeerTls>,
    phase: watch::Sender<Phase>,
    handed_over: watch::Sender<bool>,
    log: Log,
}

/// What has a node hand its shards to others before it stops.
pub struct FleetEnd {
    phase: watch::Sender<Phase>,
    handed_over: watch::Receiver<bool>,
}

/// A node that keeps shards.
pub struct FleetRunning {
    phase: watch::Sender<Phase>,
    /// The keeper, what passes maps on, and what takes connections. None ends before the keeper does, which
    /// ends when it is asked to.
    tasks: JoinSet<()>,
    node: PgNode,
    _answers: Arc<Answers>,
}

/// Where the other nodes of a fleet reach this one.
pub struct PeerPlace {
    /// It listens there.
    pub socket: TcpListener,
    /// Whether all nodes speak TLS.
    pub is_encrypted: bool,
}

/// Joins a fleet, as the node that others reach at a place.
pub fn join(
    (url, name): (&PgUrl, &str),
    (place, founding): (PeerPlace, Founding),
    entropy: &Arc<dyn Entropy>,
    opens: Opens,
    log: Log,
) -> Result<FleetNode, StartError> {
    let failed = |cause| StartError::Postgres { url: url.clone(), cause };
    let machine = |cause| StartError::Machine { doing: "listening for other nodes", cause };
    let PeerPlace { socket, is_encrypted } = place;
    let address = socket.local_addr().map_err(machine)?;
    let tls = if is_encrypted { Some(PeerTls::new().map_err(machine)?) } else { None };
    if tls.is_none() && !address.ip().is_loopback() {
        let line =
            "what nodes say to each other is not encrypted; --peer-tls on encrypts it, on all nodes alike";
        log.tell(Level::Warn, line, &[("peer", &address.to_string())]);
    }
    let id = kew_log_pg::node_id(name, entropy.wide_bits());
    let me = Node {
        peer: Some(reached_at(address)),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        ..Node::alone(&id, name)
    };
    let joined = kew_log_pg::join(&url.0, &me, founding).map_err(failed)?;
    for warning in &joined.warnings {
        log.tell(Level::Warn, warning, &[("store", &url.to_string())]);
    }
    let node = joined.node;
    let answers = Arc::new(Answers::default());
    let links = Arc::new(Links::new(peers(&node, &answers, entropy, tls.clone())?, node.clone()));
    let home = Arc::new(PgHome::new(node.clone(), url.clone(), opens));
    let names = Arc::new(PgNames::new(node.clone(), Arc::clone(&home)));
    let id = NodeId(id.as_str().into());
    let fleet = Arc::new(Fleet::new(id, node.shards(), Arc::clone(&links) as _, names));
    answers.serve_with(&fleet);
    Ok(FleetNode {
        node,
        fleet,
        home,
        links,
        answers,
        socket,
        tls,
        phase: watch::Sender::new(Phase::Staying),
        handed_over: watch::Sender::new(false),
        log,
    })
}

/// Where others reach a node that listens on this address: by its machine's name, if it listens everywhere.
fn reached_at(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("{}:{}", crate::machine::host_name(), address.port())
    } else {
        address.to_string()
    }
}

fn peers(
    node: &PgNode,
    answers: &Arc<Answers>,
    entropy: &Arc<dyn Entropy>,
    tls: Option<PeerTls>,
) -> Result<Peers, StartError> {
    let invalid = || StartError::Machine {
        doing: "naming this node",
        cause: std::io::Error::other("the name of the node is too long"),
    };
    let id = kew_peer::link::NodeId::new(&node.node().id).ok_or_else(invalid)?;
    let named = kew_peer::link::Node::new(id, &node.node().name).ok_or_else(invalid)?;
    let versions = Versions { oldest: kew_peer::PROTOCOL, newest: kew_peer::PROTOCOL };
    let identity = Identity { node: named, versions, secret: Secret(node.secret().0) };
    let endpoint = Endpoint::new(identity, Arc::clone(entropy), Arc::clone(answers) as _);
    let dial: Arc<dyn Dial> = tls.map_or_else(|| Arc::new(TcpDial) as _, |tls| Arc::new(tls) as _);
    Ok(Peers::new(endpoint, dial))
}

impl FleetNode {
    /// The store that the node's engine stands on.
    pub fn store(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet)
    }

    /// The time of the fleet.
    pub fn time(&self) -> Arc<FleetTime> {
        Arc::new(FleetTime::following(&self.node))
    }

    /// What the console shows of the fleet.
    pub fn shown(&self) -> ShownFleet {
        ShownFleet::new(&self.fleet, &self.node, &self.home)
    }

    /// Answers what other nodes want to see of this one by its Workers, once they run, and its console.
    pub fn show_with(&self, console: &Console, workers: &Arc<OnceLock<Arc<Workers>>>) {
        // They know the fleet.
        let (console, workers) = (console.clone(), Arc::downgrade(workers));
        self.fleet.show_with(Box::new(move |question| {
            let there = workers.upgrade();
            let of_workers =
                there.as_ref().and_then(|there| there.get()).and_then(|workers| workers.answer(&question));
            let console = console.clone();
            Box::pin(async move {
                match of_workers {
                    Some(answer) => answer.await.unwrap_or_default(),
                    None => console.show_to_node(question).await,
                }
            })
        }));
    }

    /// What has it hand its shards over.
    pub fn end(&self) -> FleetEnd {
        FleetEnd { phase: self.phase.clone(), handed_over: self.handed_over.subscribe() }
    }

    /// Begins to keep shards with an engine, on the engine's event loop.
    pub fn run(self, engine: &Arc<Engine>) -> std::io::Result<FleetRunning> {
        self.fleet.serve_with(engine);
        self.socket.set_nonblocking(true)?;
        let socket = tokio::net::TcpListener::from_std(self.socket)?;
        let (peers, mut tasks) = (self.links.peers().clone(), JoinSet::new());
        tasks.spawn(accept(socket, self.tls, peers.clone()));
        let databases = self.node.databases();
        let (maps, shown) = watch::channel(Arc::new(FleetMap::of_databases(databases)));
        let (log, maps) = (self.log, Arc::new(maps));
        tasks.spawn(unlinked::watch(self.node.clone(), peers.clone(), log));
        for database in 0..databases {
            if databases > 1 {
                tasks.spawn(silent::watch(self.node.clone(), database, log));
            }
            tasks.spawn(follow(self.node.clone(), database, peers.clone(), Arc::clone(&maps)));
        }
        drop(maps);
        let unopened = Mutex::new(Unopened::default());
        let tell = move |news| tell(log, &news, &mut unopened.lock());
        let keeper = Keeper::new(&self.fleet, Arc::new(SharedHome(self.home)), tell);
        tasks.spawn(keeper.run(shown, self.phase.subscribe(), self.handed_over));
        Ok(FleetRunning { phase: self.phase, tasks, node: self.node, _answers: self.answers })
    }
}

impl Beside for FleetRunning {
    fn fallen(&mut self) -> Pin<Box<dyn Future<Output = Result<(), JoinError>> + Send + '_>> {
        Box::pin(async {
            match self.tasks.join_next().await {
                Some(ended) => ended,
                None => Ok(()),
            }
        })
    }

    /// Closes the shards that this node still keeps, and takes the node out of the fleet.
    fn finish(mut self: Box<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            self.phase.send_replace(Phase::Closing);
            // The keeper is the first to end. What is not closed in time is recovered by its next owner.
            let _in_time = tokio::time::timeout(CLOSES_WITHIN, self.tasks.join_next()).await;
            let node = self.node;
            let _left = tokio::task::spawn_blocking(move || node.leave()).await;
        })
    }
}

impl FleetEnd {
    /// Hands the shards of this node to others, as far as there are some. Requests are served meanwhile.
    pub fn hand_over(mut self) {
        self.phase.send_replace(Phase::Leaving);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            // Where it takes longer the other nodes take the shards over.
            let _in_time = runtime.block_on(async {
                tokio::time::timeout(LEAVES_WITHIN, self.handed_over.wait_for(|done| *done)).await.is_ok()
            });
        }
    }
}

/// Takes connections of other nodes.
async fn accept(socket: tokio::net::TcpListener, tls: Option<PeerTls>, peers: Peers) {
    loop {
        match socket.accept().await {
            Ok((stream, from)) => {
                // Without it small requests wait for one another.
                let _at_once = stream.set_nodelay(true);
                let opening: Dialing = match &tls {
                    Some(tls) => tls.accept(stream),
                    None => Box::pin(std::future::ready(Ok(Opened::plain(stream)))),
                };
                peers.accept(from.ip(), opening);
            }
            // No file is left for it; some are in a moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Passes on what a database says of the fleet. A renewal that fails brings no map, and the one before says nothing
/// new.
async fn follow(node: PgNode, database: u16, peers: Peers, maps: Arc<watch::Sender<Arc<FleetMap>>>) {
    let mut memberships = node.subscribe(database);
    let mut passed_on = None;
    loop {
        let map = memberships.borrow_and_update().map.clone();
        if let Some(map) = map.filter(|map| passed_on < Some(map.read_at)) {
            passed_on = Some(map.read_at);
            // Links are there before the map that needs them.
            let all = maps.borrow().with(database, shown(&map));
            let address = |node: &NodeRow| {
                let id = kew_peer::link::NodeId::new(&node.id.0)?;
                (!node.address.is_empty()).then(|| (id, Address(node.address.to_string())))
            };
            peers.set_nodes(all.nodes().into_iter().filter_map(address));
            maps.send_replace(Arc::new(all));
        }
        if memberships.changed().await.is_err() {
            return;
        }
    }
}

/// The map of a database in the words of the fleet.
fn shown(map: &Map) -> MapPart {
    let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
    let node = |node: &Node| NodeRow {
        id: NodeId(node.id.as_str().into()),
        name: node.name.as_str().into(),
        address: text(&node.peer),
        version: text(&node.version),
    };
    let lives = |id: &Option<String>| {
        let id = id.as_deref()?;
        map.node(id).map(|node| NodeId(node.id.as_str().into()))
    };
    let shard = |row: &kew_log_pg::ShardRow| ShardRow {
        shard: row.shard,
        epoch: row.epoch,
        owner: lives(&row.node),
        wanted: lives(&row.wanted),
        moves: row.moves,
        wanted_in: row.wanted_in,
    };
    MapPart {
        nodes: map.nodes.iter().map(node).collect(),
        shards: map.shards.iter().map(shard).collect(),
        moved: map.moved().map(|(shard, moves, to)| MovedRow { shard, moves, to }).collect(),
        read_at: Some(map.read_at),
    }
}

fn tell(log: Log, news: &ShardNews, unopened: &mut Unopened) {
    match news {
        ShardNews::Came(shard) => {
            unopened.ended(*shard);
            log.tell(Level::Info, "this node keeps a shard", &[("shard", &shard.to_string())]);
        }
        ShardNews::Left(shard, to) => {
            let to = to.as_ref().map(ToString::to_string).unwrap_or_default();
            log.tell(Level::Info, "a shard is handed over", &[("shard", &shard.to_string()), ("to", &to)]);
        }
        ShardNews::Moves(shard, database) => {
            let (shard, database) = (shard.to_string(), (u32::from(*database) + 1).to_string());
            let line = "a shard was copied to another database and goes there";
            log.tell(Level::Info, line, &[("shard", &shard), ("database", &database)]);
        }
        ShardNews::NotMoved(shard, database, why) => {
            let (shard, database) = (shard.to_string(), (u32::from(*database) + 1).to_string());
            let line = "a shard could not be copied to another database; it is served where it lies, and that is tried again";
            log.tell(Level::Warn, line, &[("shard", &shard), ("database", &database), ("cause", why)]);
        }
        ShardNews::Lost(shard, why) => {
            let line = "this node owns a shard no more";
            log.tell(Level::Warn, line, &[("shard", &shard.to_string()), ("cause", why)]);
        }
        ShardNews::NotOpened(shard, why) => {
            if let Some(times) = unopened.failed(*shard, Instant::now()) {
                let (shard, times) = (shard.to_string(), times.to_string());
                let line = "a shard could not be opened; it is tried again";
                log.tell(Level::Warn, line, &[("shard", &shard), ("times", &times), ("cause", why)]);
            }
        }
    }
}
