//! A functions project as it lies in its folder: host.json, */function.json, local.settings.json, and the environment.

mod app_settings;
mod connection;
mod encoding;
mod error;
mod function_json;
mod host_json;
mod lenient;
mod overrides;
mod queue_name;
mod template;
mod time_span;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use error::ProjectError;

pub(crate) use connection::{Account, Token};
pub(crate) use encoding::Encoding;
pub(crate) use function_json::{DataType, Function, Output, Trigger};
pub(crate) use host_json::{HandlerSettings, QueueSettings};
pub(crate) use queue_name::read as read_queue_name;
#[cfg(test)]
pub(crate) use template::Template;

use app_settings::AppSettings;
use connection::Connections;
use function_json::Loaded;
use host_json::HostJson;

/// The setting that names the account of bindings which name none.
const STORAGE: &str = "AzureWebJobsStorage";

/// A project, checked.
#[derive(Debug)]
pub struct Project {
    pub(crate) root: PathBuf,
    pub(crate) queues: QueueSettings,
    pub(crate) handler: HandlerSettings,
    pub(crate) run_within: Option<std::time::Duration>,
    pub(crate) functions: Vec<Arc<Function>>,
    /// What the handler's environment gets beside the host's own.
    pub(crate) for_handler: Vec<(String, String)>,
    /// What its author should know.
    pub(crate) warnings: Vec<String>,
    /// Functions that cannot be loaded, with the reason. The others run.
    pub(crate) faults: Vec<String>,
}

impl Project {
    /// Reads the project in `root` under these environment variables, for a machine with this number of processors.
    /// Where `AzureWebJobsStorage` is not set, or means the development account, `storage` takes its place.
    pub fn read(
        root: &Path,
        environment: &[(String, String)],
        storage: Option<&str>,
        processors: usize,
    ) -> Result<Self, ProjectError> {
        let path = root.join("host.json");
        if !path.is_file() {
            return Err(ProjectError::NoHostJson { root: root.to_owned() });
        }
        let root = std::path::absolute(root)
            .map_err(|cause| ProjectError::Unreadable { path: root.to_owned(), cause })?;
        let mut settings = AppSettings::read(&root, environment)?;
        if let Some(storage) = storage
            && settings.connection(STORAGE).is_none_or(is_development)
        {
            settings.insert(STORAGE, storage);
        }
        let mut file = error::read(&path)?;
        overrides::apply(&mut file, &settings);
        let host = HostJson::read(&root, &path, &file, &settings, processors)?;
        let mut project = Self {
            root,
            queues: host.queues,
            handler: host.handler,
            run_within: host.run_within,
            functions: Vec::new(),
            for_handler: settings.for_handler().to_vec(),
            warnings: host.warnings,
            faults: Vec::new(),
        };
        project.load(&settings)?;
        Ok(project)
    }

    fn load(&mut self, settings: &AppSettings) -> Result<(), ProjectError> {
        let mut connections = Connections::new(settings);
        let mut off = 0_usize;
        for folder in folders(&self.root)? {
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match function_json::load(&folder, &name, settings, &mut connections) {
                Ok(Loaded::Runs(function)) => self.functions.push(Arc::new(function)),
                Ok(Loaded::SwitchedOff) => {
                    off += 1;
                    self.warnings.push(format!("Function '{name}' is disabled"));
                }
                Err(fault) => self.faults.push(format!("The '{name}' function is in error: {fault}")),
            }
        }
        if !self.functions.is_empty() {
            return Ok(());
        }
        let why = match (self.faults.is_empty(), off) {
            (false, _) => self.faults.join(" "),
            (true, 0) => "each function is a folder with a function.json in it, and there is none".to_owned(),
            (true, _) => "all of them are disabled".to_owned(),
        };
        Err(ProjectError::NoFunctions { root: self.root.clone(), why })
    }

    /// One line for each function, for people.
    pub fn lines(&self) -> Vec<String> {
        let line = |function: &Arc<Function>| {
            let Trigger { queue, account, .. } = &function.trigger;
            format!("{}: queueTrigger on '{queue}' at {}", function.name, account.endpoint.base())
        };
        self.functions.iter().map(line).collect()
    }
}

fn is_development(connection: &str) -> bool {
    let text: String = connection.to_ascii_lowercase().split_whitespace().collect();
    text.trim_matches(';') == "usedevelopmentstorage=true"
}

/// The folders that hold a function, by name.
fn folders(root: &Path) -> Result<Vec<PathBuf>, ProjectError> {
    let unreadable = |cause| ProjectError::Unreadable { path: root.to_owned(), cause };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root).map_err(unreadable)? {
        let folder = entry.map_err(unreadable)?.path();
        if folder.join("function.json").is_file() {
            folders.push(folder);
        }
    }
    folders.sort_unstable();
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str =
        r#"{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}"#;

    fn project(files: &[(&str, &str)], storage: Option<&str>) -> Result<Project, String> {
        let root = tempfile::tempdir().expect("the machine has a temporary directory");
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a file of the project has a parent"))
                .expect("the folder is ours");
            std::fs::write(path, text).expect("the folder is ours");
        }
        let environment = [("AzureWebJobsStorage".to_owned(), "UseDevelopmentStorage=true".to_owned())];
        Project::read(root.path(), &environment, storage, 1).map_err(|error| error.to_string())
    }

    fn function(queue: &str) -> String {
        format!(
            r#"{{"bindings":[{{"type":"queueTrigger","direction":"in","name":"item","queueName":"{queue}"}}]}}"#
        )
    }

    #[test]
    fn every_folder_with_a_function_is_one_and_a_broken_one_stops_no_other() {
        let (one, two) = (function("one"), function("two"));
        let files = [
            ("host.json", HOST),
            ("b/function.json", two.as_str()),
            ("a/function.json", one.as_str()),
            ("broken/function.json", "{"),
            ("bin/readme.txt", "no function"),
        ];
        let project = project(&files, None).expect("two of them are fine");
        let names: Vec<&str> = project.functions.iter().map(|function| function.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let [fault] = project.faults.as_slice() else { panic!("{:?}", project.faults) };
        assert!(
            fault.starts_with("The 'broken' function is in error:") && fault.contains("line 1"),
            "{fault}"
        );
    }

    #[test]
    fn a_folder_without_functions_has_an_error_that_says_what_it_lacks() {
        assert!(project(&[], None).expect_err("nothing is there").contains("holds no host.json"));
        assert!(project(&[("host.json", HOST)], None).expect_err("no function").contains("there is none"));
        let off = function("one").replace("\"bindings\"", "\"disabled\":true,\"bindings\"");
        let error = project(&[("host.json", HOST), ("a/function.json", &off)], None).expect_err("it is off");
        assert!(error.contains("all of them are disabled"), "{error}");
        let error = project(&[("host.json", "{\"version\"")], None).expect_err("it is broken");
        assert!(error.contains("host.json is not valid JSON") && error.contains("line 1"), "{error}");
    }

    #[test]
    fn a_server_beside_takes_the_development_accounts_place() {
        let one = function("one");
        let files = [("host.json", HOST), ("a/function.json", one.as_str())];
        let beside =
            "AccountName=devstoreaccount1;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:7/devstoreaccount1";
        let project = project(&files, Some(beside)).expect("the project is valid");
        assert_eq!(project.lines(), ["a: queueTrigger on 'one' at http://127.0.0.1:7/devstoreaccount1"]);
    }
}
