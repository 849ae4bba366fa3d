//! What is wrong with a project, worded so that its author knows what to change.

use std::io;
use std::path::{Path, PathBuf};

/// Why a project cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is no such project.
    #[error("{} is not a functions project: it holds no host.json; name the folder that holds it", root.display())]
    NoHostJson {
        /// Where it was looked for.
        root: PathBuf,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// Which one.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// A file is no JSON.
    #[error("{} is not valid JSON: {fault}", path.display())]
    NotJson {
        /// Which one.
        path: PathBuf,
        /// What is wrong, and where.
        fault: String,
    },
    /// A setting has a value it may not have.
    #[error("{}: {key} = {value}: {allowed}", path.display())]
    Setting {
        /// The file it stands in.
        path: PathBuf,
        /// Its place in the file.
        key: String,
        /// What was written.
        value: String,
        /// What may be written, in the documented words where there are any.
        allowed: String,
    },
    /// Something that must be there is not, or the other way round.
    #[error("{}: {fault}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
    /// There is nothing to run.
    #[error("no functions to run in {}: {why}", root.display())]
    NoFunctions {
        /// The project.
        root: PathBuf,
        /// Why there are none.
        why: String,
    },
}

/// The object in a file.
pub(crate) fn read(path: &Path) -> Result<super::lenient::Object, ProjectError> {
    let bytes =
        std::fs::read(path).map_err(|cause| ProjectError::Unreadable { path: path.to_owned(), cause })?;
    super::lenient::parse(&bytes).map_err(|fault| ProjectError::NotJson { path: path.to_owned(), fault })
}
