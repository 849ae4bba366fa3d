//! The store that this program opens: how it is opened and closed, its backups, and what it cannot give back.

pub(crate) mod backups;
pub(crate) mod fresh;
pub(crate) mod kept;
pub mod opening;
pub(crate) mod undropped;
