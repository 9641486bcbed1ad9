//! Where sockets and programs' counters are: a directory that is root's or the starting user's
//! alone.

use super::Identity;
use maracas_core::control::{self as words, SUFFIX};
use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{env, io};

/// Where the sockets of this user's runs are.
pub fn directory() -> PathBuf {
    // SAFETY: cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    match env::var_os("XDG_RUNTIME_DIR") {
        _ if root => PathBuf::from(words::DIRECTORY),
        Some(own) => Path::new(&own).join("maracas"),
        None => without_environment(),
    }
}

/// Where a user's sockets are when the environment does not say: what a login would have named, if
/// it is there and the user's own, else a directory of the user's own below `/tmp`.
fn without_environment() -> PathBuf {
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    let runtime = PathBuf::from(format!("/run/user/{user}"));
    let own = |meta: fs::Metadata| meta.is_dir() && meta.uid() == user;
    if fs::symlink_metadata(&runtime).is_ok_and(own) {
        return runtime.join("maracas");
    }
    PathBuf::from(format!("/tmp/maracas-{user}"))
}

/// The path of this process' socket. The guardian learns of it before it exists.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn socket_path() -> io::Result<PathBuf> {
    Ok(directory().join(format!("{}{SUFFIX}", Identity::own()?)))
}

/// The files of all runs of this user, dead or alive, with their owners: sockets and counters of
/// programs. Their names begin with the run's.
pub(crate) fn files_of_runs() -> Vec<(Identity, PathBuf)> {
    let Ok(entries) = fs::read_dir(directory()) else { return Vec::new() };
    let owned = |path: PathBuf| {
        let (run, _) = path.file_name()?.to_str()?.split_once('.')?;
        Some((Identity::parse(run)?, path))
    };
    entries.flatten().filter_map(|entry| owned(entry.path())).collect()
}

/// Listens there, without blocking.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    path.parent().map_or(Ok(()), make_directory)?;
    // The path carries our own number and start: what is there is not shared.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    // Any process may connect: one that is not allowed in must read why.
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Makes the directory of sockets, if it is not there.
pub(crate) fn make_directory(directory: &Path) -> io::Result<()> {
    // Below /tmp anyone may have made it first, and may look into it.
    let private = directory.parent() == Some(Path::new("/tmp"));
    let mode = if private { 0o700 } else { 0o755 };
    fs::DirBuilder::new().recursive(true).mode(mode).create(directory)?;
    match private {
        true => must_be_ours(directory),
        // Root's: programs of other users find their sockets there.
        false if directory == Path::new(words::DIRECTORY) => open_to_all(directory),
        false => Ok(()),
    }
}

/// Lets all users look into a directory of ours, whatever the umask was of who made it first.
pub(crate) fn open_to_all(directory: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(directory)?;
    let mode = meta.mode() & 0o7777;
    // SAFETY: cannot fail.
    let is_ours = meta.is_dir() && meta.uid() == unsafe { libc::geteuid() };
    if !is_ours || mode & 0o055 == 0o055 {
        return Ok(());
    }
    fs::set_permissions(directory, Permissions::from_mode(mode | 0o055))
}

/// Refuses a directory that another user made, that others may enter, or that is a link.
pub(crate) fn must_be_ours(directory: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(directory)?;
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    if meta.is_dir() && meta.uid() == user && meta.mode() & 0o077 == 0 {
        return Ok(());
    }
    let path = directory.display();
    Err(io::Error::other(format!("{path} is not this user's alone; set XDG_RUNTIME_DIR")))
}
