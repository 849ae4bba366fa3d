//! The clients: what each needs of the machine, how its packages are installed, how it is started.
//!
//! Everything that is downloaded or built lands in `e2e/.cache` (packages of Node beside their manifest, as Node
//! wants them) and stays until a lock file or a source changes, so a second run needs no network.

use super::packages::need;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const CACHE: &str = "e2e/.cache";
/// Installing or building one client's packages, cold, on a busy machine with two cores.
const INSTALL: Duration = Duration::from_secs(600);

pub struct Client {
    pub name: &'static str,
    pub what: &'static str,
    /// Whether its errors have classes of their own.
    pub classes: bool,
    kit: Kit,
    arguments: &'static [&'static str],
}

/// What a client is made of; several clients may share a kit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kit {
    /// Python with the packages of this requirements file, or with none.
    Python(Option<&'static str>),
    /// Python with or without packages, and a program that the system has or somebody installed.
    PythonBeside {
        program: &'static str,
        what: &'static str,
        requirements: Option<&'static str>,
    },
    Node,
    /// Node with the packages of Cloudflare, which want a newer one than many machines have: it comes with them.
    Cloudflare,
    /// The crate in this folder.
    Rust(&'static str),
    /// The Go module in this folder.
    Go(&'static str),
    /// The Maven project in this folder.
    Java(&'static str),
}

/// In the order in which they begin: those that take longest first, so that none plays alone at the end.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "openapi",
        what: "schemathesis, the admin API fuzzed from its document",
        classes: false,
        kit: Kit::Python(Some("python-openapi")),
        arguments: &["openapi_play.py"],
    },
    Client {
        name: "wrangler-deploy",
        what: "wrangler, deploying Workers that run",
        classes: false,
        kit: Kit::Cloudflare,
        arguments: &["deploy_play.mjs"],
    },
    Client {
        name: "wrangler",
        what: "wrangler, every command for queues",
        classes: false,
        kit: Kit::Cloudflare,
        arguments: &["wrangler_play.mjs"],
    },
    Client {
        name: "wrangler-dev",
        what: "wrangler dev, producers that reach a running Kew",
        classes: false,
        kit: Kit::Cloudflare,
        arguments: &["dev_play.mjs"],
    },
    Client {
        name: "boto3",
        what: "boto3, JSON protocol",
        classes: true,
        kit: Kit::Python(Some("python")),
        arguments: &["agent.py", "boto3"],
    },
    Client {
        name: "boto3-query",
        what: "boto3 of 2023, Query protocol",
        classes: true,
        kit: Kit::Python(Some("python-query")),
        arguments: &["agent.py", "boto3"],
    },
    Client {
        name: "aws-cli",
        what: "AWS command line, JSON protocol",
        classes: false,
        kit: Kit::Python(Some("python")),
        arguments: &["agent.py", "cli"],
    },
    Client {
        name: "aws-cli-query",
        what: "AWS command line of 2023, Query protocol",
        classes: false,
        kit: Kit::Python(Some("python-query")),
        arguments: &["agent.py", "cli"],
    },
    Client {
        name: "presigned-get",
        what: "no SDK: presigned GET requests",
        classes: false,
        kit: Kit::Python(None),
        arguments: &["agent.py", "get"],
    },
    Client {
        name: "javascript",
        what: "AWS SDK for JavaScript, version 3",
        classes: true,
        kit: Kit::Node,
        arguments: &["agent.mjs"],
    },
    Client { name: "rust", what: "AWS SDK for Rust", classes: true, kit: Kit::Rust("rust"), arguments: &[] },
    Client {
        name: "go",
        what: "AWS SDK for Go, version 2",
        classes: true,
        kit: Kit::Go("go"),
        arguments: &[],
    },
    Client {
        name: "java",
        what: "AWS SDK for Java, version 2",
        classes: true,
        kit: Kit::Java("java"),
        arguments: &["Agent"],
    },
    Client {
        name: "infrastructure",
        what: "create, read, update and delete as infrastructure tools do, with boto3",
        classes: false,
        kit: Kit::Python(Some("python")),
        arguments: &["infrastructure_play.py"],
    },
    Client {
        name: "spring",
        what: "Spring Cloud AWS, listeners of a Boot application",
        classes: false,
        kit: Kit::Java("java-spring"),
        arguments: &["SpringPlay"],
    },
    Client {
        name: "celery",
        what: "Celery workers over kombu's SQS transport",
        classes: false,
        kit: Kit::Python(Some("python")),
        arguments: &["celery_play.py"],
    },
    Client {
        name: "azure-python",
        what: "azure-storage-queue for Python, blocking and not, and boto3 on the same queues",
        classes: false,
        kit: Kit::Python(Some("python-azure")),
        arguments: &["azure_play.py"],
    },
    Client {
        name: "kombu-azure",
        what: "kombu's transport over Azure queues",
        classes: false,
        kit: Kit::Python(Some("python-kombu")),
        arguments: &["kombu_azure_play.py"],
    },
    Client {
        name: "azure-javascript",
        what: "@azure/storage-queue",
        classes: false,
        kit: Kit::Node,
        arguments: &["azure_play.mjs"],
    },
    Client {
        name: "azure-go",
        what: "azqueue, the Azure SDK for Go",
        classes: false,
        kit: Kit::Go("go-azure"),
        arguments: &[],
    },
    Client {
        name: "azure-java",
        what: "com.azure:azure-storage-queue",
        classes: false,
        kit: Kit::Java("java-azure"),
        arguments: &["AzurePlay"],
    },
    Client {
        name: "azure-rust",
        what: "azure_storage_queue, the Azure SDK for Rust",
        classes: false,
        kit: Kit::Rust("rust-azure"),
        arguments: &[],
    },
    Client {
        name: "cloudflare-typescript",
        what: "cloudflare for TypeScript",
        classes: false,
        kit: Kit::Cloudflare,
        arguments: &["sdk_play.mjs"],
    },
    Client {
        name: "cloudflare-python",
        what: "cloudflare for Python, blocking and not",
        classes: false,
        kit: Kit::Python(Some("python-cloudflare")),
        arguments: &["cloudflare_play.py"],
    },
    Client {
        name: "cloudflare-curl",
        what: "curl as Cloudflare's guides write it",
        classes: false,
        kit: Kit::PythonBeside { program: "curl", what: "curl", requirements: None },
        arguments: &["cloudflare_curl_play.py"],
    },
    Client {
        name: "azure-cli",
        what: "the Azure command line",
        classes: false,
        kit: Kit::PythonBeside {
            program: "az",
            what: "the Azure command line, azure-cli 2.91 or newer",
            requirements: None,
        },
        arguments: &["az_play.py"],
    },
    Client {
        name: "dialects",
        what: "boto3, azure-storage-queue and cloudflare for Python on one queue",
        classes: false,
        kit: Kit::Python(Some("python-dialects")),
        arguments: &["dialects_play.py"],
    },
    Client {
        name: "documents",
        what: "the commands of README, transcript and greeting",
        classes: false,
        kit: Kit::PythonBeside { program: "curl", what: "curl", requirements: Some("python") },
        arguments: &["documents_play.py"],
    },
    Client {
        name: "sqs-consumer",
        what: "sqs-consumer",
        classes: false,
        kit: Kit::Node,
        arguments: &["sqs_consumer_play.mjs"],
    },
];

/// Why a client does not run.
pub enum Absent {
    /// The machine lacks the tool; the others still run.
    Missing(String),
    /// The tool is there and its packages could not be had or built.
    Failed(String),
}

impl Client {
    /// Sees to its packages and returns the command that starts it.
    pub fn prepare(&self) -> Result<Command, Absent> {
        match self.kit {
            Kit::Python(requirements) => self.python(requirements),
            Kit::Node => self.node("javascript", PathBuf::from("node")),
            Kit::Cloudflare => self.node("cloudflare", newer_node()),
            Kit::PythonBeside { program, what, requirements } => {
                need(program, &["--version"], what)?;
                self.python(requirements)
            }
            Kit::Rust(room) => self.rust(room),
            Kit::Go(room) => self.go(room),
            Kit::Java(room) => self.java(room),
        }
    }

    fn python(&self, requirements: Option<&str>) -> Result<Command, Absent> {
        need("python3", &["--version"], "Python 3, with venv or pip")?;
        let room = Path::new("e2e/python");
        let (mut command, program) = match requirements {
            None => (Command::new("python3"), "python3".to_owned()),
            Some(name) => python_with(name)?,
        };
        if let Some((script, rest)) = self.arguments.split_first() {
            command.arg(absolute(&room.join(script))?).args(rest);
        }
        // A client started by a client finds the same interpreter.
        command.env("KEW_PYTHON", program);
        Ok(command)
    }

    /// The script of a room of Node's, run by this program.
    fn node(&self, room: &str, program: PathBuf) -> Result<Command, Absent> {
        let path = node_packages(room)?;
        let mut command = Command::new(program);
        for script in self.arguments {
            command.arg(absolute(&path.join(script))?);
        }
        Ok(command)
    }

    fn rust(&self, room: &str) -> Result<Command, Absent> {
        // One for all: more than half of what they are made of is the same.
        let target = absolute(&cache("rust"))?;
        let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--locked", "--manifest-path"]);
        build.arg(Path::new("e2e").join(room).join("Cargo.toml"));
        build.env("CARGO_TARGET_DIR", &target);
        run(&mut build)?;
        Ok(Command::new(target.join("debug").join(format!("kew-e2e-{room}"))))
    }

    fn go(&self, room: &str) -> Result<Command, Absent> {
        need("go", &["version"], "Go, version 1.21 or newer, which fetches the one it needs")?;
        let program = absolute(&cache(&format!("{room}/agent")))?;
        let mut build = Command::new("go");
        build
            .args(["build", "-mod=readonly", "-o"])
            .arg(&program)
            .arg(".")
            .current_dir(Path::new("e2e").join(room));
        // A Go that is set up to keep to its own version may still fetch the one that go.mod names.
        if env::var_os("GOTOOLCHAIN").is_none() {
            build.env("GOTOOLCHAIN", "auto");
        }
        run(&mut build)?;
        Ok(Command::new(program))
    }

    fn java(&self, room: &str) -> Result<Command, Absent> {
        need("javac", &["-version"], "a JDK, version 17 or newer")?;
        need("mvn", &["--version"], "Maven")?;
        let path = Path::new("e2e").join(room);
        let mut sources = vec![path.join("pom.xml")];
        sources.extend(files(&path.join("src/main/java"))?);
        let made = cache(room);
        once(room, &sources, &made.join("classes"), || {
            let mut build = Command::new("mvn");
            run(build.args(["--batch-mode", "--quiet", "compile"]).current_dir(&path))
        })?;
        let mut command = Command::new("java");
        let parts = [made.join("classes"), made.join("libraries/*")].map(|part| part.display().to_string());
        command.args(["-XX:TieredStopAtLevel=1", "-cp", &parts.join(":")]).args(self.arguments);
        Ok(command)
    }
}

/// Sees to Node and the packages of a folder below `e2e`; the folder's path.
pub fn node_packages(room: &str) -> Result<PathBuf, Absent> {
    need("node", &["--version"], "Node.js, version 20 or newer")?;
    need("npm", &["--version"], "npm")?;
    let path = Path::new("e2e").join(room);
    let locks = [path.join("package-lock.json")];
    once(room, &locks, &path.join("node_modules"), || {
        let mut install = Command::new("npm");
        install.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&path);
        // The browser is the machine's own.
        run(install.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"))
    })?;
    Ok(path)
}

/// The files of a folder, in the order of their names.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Absent> {
    let failed = |error: std::io::Error| Absent::Failed(format!("{}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry.map_err(failed)?.path())).collect::<Result<_, Absent>>()?;
    paths.sort();
    Ok(paths)
}

/// The machine's Node where wrangler accepts it (22.12), else the one that is installed beside it.
fn newer_node() -> PathBuf {
    let said = Command::new("node").arg("--version").stdin(Stdio::null()).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut parts = said.trim().trim_start_matches('v').split('.').map_while(|part| part.parse::<u32>().ok());
    let is_new_enough = (parts.next(), parts.next()) >= (Some(22), Some(12));
    let cpu = if env::consts::ARCH == "aarch64" { "arm64" } else { "x64" };
    let packed = PathBuf::from(format!("e2e/cloudflare/node_modules/node-linux-{cpu}/bin/node"));
    if is_new_enough { PathBuf::from("node") } else { std::path::absolute(&packed).unwrap_or(packed) }
}

/// The runtime of Workers, which comes with the packages of wrangler, once they are installed.
pub fn workerd() -> Option<PathBuf> {
    let package = if env::consts::ARCH == "aarch64" { "workerd-linux-arm64" } else { "workerd-linux-64" };
    let program = Path::new("e2e/cloudflare/node_modules/@cloudflare").join(package).join("bin/workerd");
    program.canonicalize().ok()
}

fn cache(name: &str) -> PathBuf {
    Path::new(CACHE).join(name)
}

fn absolute(path: &Path) -> Result<PathBuf, Absent> {
    std::path::absolute(path).map_err(|error| Absent::Failed(format!("{}: {error}", path.display())))
}

/// The interpreter of a virtual environment with the packages; where the machine cannot make one, packages in a
/// folder on the module path.
fn python_with(name: &str) -> Result<(Command, String), Absent> {
    let requirements = Path::new("e2e/python").join(format!("{name}.txt"));
    let venv = absolute(&cache(name))?;
    let folder = venv.join("packages");
    once(name, std::slice::from_ref(&requirements), &venv, || {
        let pip = ["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"];
        let packages = ["--require-hashes", "--only-binary", ":all:", "-r"];
        let made = run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).is_ok();
        if !made {
            let _half = fs::remove_dir_all(&venv);
            // Debian keeps venv and pip in packages of their own, which root may install.
            let pip_is_there = run(Command::new("python3").args(["-m", "pip", "--version"])).is_ok();
            if !pip_is_there {
                run(Command::new("apt-get").args(["-qq", "update"]))?;
                run(Command::new("apt-get").args(["-qq", "-y", "install", "python3-venv", "python3-pip"]))?;
            }
            if run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).is_err() {
                let mut install = Command::new("python3");
                install.args(pip).arg("--target").arg(&folder).args(packages).arg(&requirements);
                return run(&mut install);
            }
        }
        run(Command::new(venv.join("bin/python")).args(pip).args(packages).arg(&requirements))
    })?;
    let inside = venv.join("bin/python");
    let program = if inside.exists() { inside } else { PathBuf::from("python3") };
    let mut command = Command::new(&program);
    if folder.exists() {
        command.env("PYTHONPATH", &folder);
    }
    Ok((command, program.display().to_string()))
}

/// Guards the cache: clients that share packages are prepared side by side, and one of them installs for all.
static INSTALLING: Mutex<()> = Mutex::new(());

/// Installs unless the same lock files were installed before and the result is still there.
fn once(
    name: &str,
    locks: &[PathBuf],
    result: &Path,
    install: impl FnOnce() -> Result<(), Absent>,
) -> Result<(), Absent> {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let broken = |error: std::io::Error| Absent::Failed(format!("{name}: {error}"));
    let mut wanted = String::new();
    for lock in locks {
        wanted.push_str(&fs::read_to_string(lock).map_err(broken)?);
    }
    let stamp = cache(&format!("{name}.installed"));
    if result.exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(CACHE).map_err(broken)?;
    let _outdated = fs::remove_dir_all(result);
    install()?;
    fs::write(&stamp, wanted).map_err(broken)
}

/// Runs a step of an installation, with a bound in time; its words are shown when it fails.
pub fn run(command: &mut Command) -> Result<(), Absent> {
    let said = format!("{command:?}");
    let failed = |reason: &str| Absent::Failed(format!("{said}: {reason}"));
    let thread = std::thread::current().id();
    let log = cache(&format!("install-{:x}-{thread:?}.log", std::process::id()));
    let output = fs::create_dir_all(CACHE).and_then(|()| fs::File::create(&log));
    let output = output.map_err(|error| failed(&error.to_string()))?;
    let errors = output.try_clone().map_err(|error| failed(&error.to_string()))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| failed(&error.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() > INSTALL => {
                let _ended = (child.kill(), child.wait());
                return Err(failed("takes too long"));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let words = fs::read_to_string(&log).unwrap_or_default();
    let _done = fs::remove_file(&log);
    if status.success() { Ok(()) } else { Err(failed(words.trim())) }
}
