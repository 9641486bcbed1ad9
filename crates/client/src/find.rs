//! Finds the socket of the run that is meant.

use crate::Error;
use maracas_core::control::{DIRECTORY, INITIAL_PID_NAMESPACE, SOCKET_VARIABLE, SUFFIX};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The socket of the run whose process is `pid`.
pub(crate) fn socket_of(pid: u32) -> Result<PathBuf, Error> {
    let prefix = format!("{pid}-");
    let of_run = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    all().into_iter().find(of_run).ok_or(Error::NoSuchRun(pid))
}

/// The socket that the environment names, else that of the only living run.
pub(crate) fn socket() -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os(SOCKET_VARIABLE) {
        return Ok(path.into());
    }
    let mut found = all();
    match found.len() {
        0 => Err(Error::NoRun),
        1 => Ok(found.swap_remove(0)),
        _ => Err(Error::SeveralRuns(found)),
    }
}

/// The sockets of all living runs that may be ours, sorted.
fn all() -> Vec<PathBuf> {
    let mut found: Vec<_> = directories().iter().flat_map(|path| living(path)).collect();
    found.sort();
    found.dedup();
    found
}

/// Where sockets may be: for root's runs, and where this user's runs put theirs.
fn directories() -> Vec<PathBuf> {
    // SAFETY: cannot fail.
    let user = unsafe { libc::geteuid() };
    let mut directories = vec![PathBuf::from(DIRECTORY)];
    directories.extend(env::var_os("XDG_RUNTIME_DIR").map(|own| Path::new(&own).join("maracas")));
    directories.push(PathBuf::from(format!("/run/user/{user}/maracas")));
    // Anyone can make a directory of this name: only our own is trusted, and no link.
    let last = PathBuf::from(format!("/tmp/maracas-{user}"));
    let ours = fs::symlink_metadata(&last).is_ok_and(|meta| meta.is_dir() && meta.uid() == user);
    directories.extend(ours.then_some(last));
    directories
}

fn living(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let alive = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.strip_suffix(SUFFIX)).is_some_and(is_alive)
    };
    entries.flatten().map(|entry| entry.path()).filter(alive).collect()
}

/// Whether the process that a socket is named after lives ([`DIRECTORY`]): its number alone may be
/// another's by now. One of another pid namespace than ours does not count.
fn is_alive(identity: &str) -> bool {
    let mut words = identity.split('-');
    let (Some(pid), Some(start)) = (words.next(), words.next()) else { return false };
    if !pid.bytes().all(|byte| byte.is_ascii_digit()) || words.next() != own_namespace().as_deref()
    {
        return false;
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Field 22 of proc_pid_stat(5); the name, field 2, may hold blanks and ends at the last ")".
    let rest = stat.rfind(')').map_or("", |end| &stat[end + 1..]);
    rest.split_whitespace().nth(19) == Some(start)
}

/// The inode of this process' pid namespace; `None` for the initial one, and where `/proc` shows
/// none.
fn own_namespace() -> Option<String> {
    let inode = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    (inode != INITIAL_PID_NAMESPACE).then(|| inode.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_living_processes_count() {
        let pid = std::process::id();
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().nth(19).unwrap();
        let directory = env::temp_dir().join(format!("maracas-find-{pid}"));
        fs::create_dir_all(&directory).unwrap();
        let inside = own_namespace().map_or_else(String::new, |inode| format!("-{inode}"));
        let names = [
            format!("{pid}-{start}{inside}.sock"),
            format!("{pid}-1{inside}.sock"),
            format!("{pid}-{start}-7.sock"),
            "x.sock".into(),
        ];
        names.iter().for_each(|name| fs::write(directory.join(name), "").unwrap());
        assert_eq!(living(&directory), [directory.join(&names[0])]);
        fs::remove_dir_all(&directory).unwrap();
        assert!(living(&directory).is_empty());
        assert!(!is_alive("../1-2") && !is_alive("") && !is_alive("1"));
    }
}
