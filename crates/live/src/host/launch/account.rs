//! Users of this host: by name and by number, with their groups, as the C library looks them up
//! (files, or whatever the host has configured).

use super::User;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::{env, io, ptr};

/// Room for one entry; `sysconf(_SC_GETPW_R_SIZE_MAX)` gives 1024 on Linux as a first guess, and
/// entries from directories were seen with some kilobytes.
const ROOM: usize = 64 << 10;
/// No process can have more groups (`NGROUPS_MAX` of Linux).
const MOST_GROUPS: usize = 65_536;

/// A user as programs are started under: numbers, groups, and what its environment names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User and group number.
    pub user: User,
    /// Supplementary groups, as `getgrouplist(3)` gives them.
    pub groups: Vec<u32>,
    /// Name and home directory, where the host knows the user.
    pub known: Option<(OsString, OsString)>,
}

impl Account {
    /// The user of this name.
    ///
    /// # Errors
    /// `NotFound` where the host knows none; else what the lookup says.
    pub fn by_name(name: &str) -> io::Result<Account> {
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such user on this host");
        let text = CString::new(name)?;
        let found = entry(|entry, room, result| {
            // SAFETY: a string that ends in zero, and a buffer as long as we say.
            unsafe { libc::getpwnam_r(text.as_ptr(), entry, room.as_mut_ptr(), room.len(), result) }
        })?;
        found.ok_or_else(unknown)
    }

    /// The user of these numbers, without further groups.
    pub fn of_numbers(uid: u32, gid: u32) -> Account {
        let known = by_number(uid).ok().flatten().and_then(|account| account.known);
        Account { user: User { uid, gid }, groups: Vec::new(), known }
    }

    /// The caller of `sudo`, where we were started so: its user, its group, and its groups where
    /// the host knows it. `None` without `SUDO_UID`, and where we are not root: another user could
    /// not become that user, and the variable proves nothing then.
    pub fn of_sudo() -> Option<Account> {
        // SAFETY: cannot fail.
        let own = unsafe { libc::geteuid() };
        Account::of_caller(own, |name| env::var(name).ok())
    }

    /// The same for a process of user `own` with these variables.
    fn of_caller(own: u32, variable: impl Fn(&str) -> Option<String>) -> Option<Account> {
        if own != 0 {
            return None;
        }
        // The highest number is no user: it means "leave as it is" to the system calls.
        let number = |name| variable(name)?.parse().ok().filter(|number| *number != u32::MAX);
        let uid = number("SUDO_UID")?;
        let known = by_number(uid).ok().flatten();
        let gid = number("SUDO_GID");
        let gid = gid.or_else(|| known.as_ref().map(|account| account.user.gid))?;
        let mut account = known.unwrap_or_else(|| Account::of_numbers(uid, gid));
        account.user.gid = gid;
        Some(account)
    }
}

fn by_number(uid: u32) -> io::Result<Option<Account>> {
    entry(|entry, room, result| {
        // SAFETY: a buffer as long as we say.
        unsafe { libc::getpwuid_r(uid, entry, room.as_mut_ptr(), room.len(), result) }
    })
}

/// One entry of the list of users, as `ask` finds it.
fn entry(
    ask: impl FnOnce(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<Account>> {
    // SAFETY: a plain structure of numbers and pointers, which the call fills.
    let mut found: libc::passwd = unsafe { std::mem::zeroed() };
    let mut room = vec![0; ROOM];
    let mut result = ptr::null_mut();
    match ask(&raw mut found, &mut room, &raw mut result) {
        _ if !result.is_null() => {}
        // What the call says of a user that is not there differs from host to host (getpwnam(3)).
        0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
        code => return Err(io::Error::from_raw_os_error(code)),
    }
    let user = User { uid: found.pw_uid, gid: found.pw_gid };
    // SAFETY: strings of the entry, which end in zero and lie in `room`.
    let (name, home) = unsafe { (CStr::from_ptr(found.pw_name), CStr::from_ptr(found.pw_dir)) };
    let groups = groups(name, user.gid)?;
    let owned = |text: &CStr| OsString::from_vec(text.to_bytes().to_vec());
    Ok(Some(Account { user, groups, known: Some((owned(name), owned(home))) }))
}

fn groups(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: room for as many numbers as we say; the kernel writes no more.
        let result =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        if result >= 0 {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(groups);
        }
        if groups.len() >= MOST_GROUPS {
            return Err(io::Error::other("member of more groups than a process can have"));
        }
        groups.resize(groups.len() * 4, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_with_their_groups() {
        let root = Account::by_name("root").expect("every host has root");
        assert_eq!(root.user, User { uid: 0, gid: 0 });
        assert!(root.groups.contains(&0), "{root:?}");
        assert_eq!(root.known.as_ref().map(|(name, _)| name.as_os_str()), Some("root".as_ref()));
        let error = Account::by_name("no-such-user-here").expect_err("no such user");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let numbers = Account::of_numbers(12_345, 54_321);
        assert_eq!((numbers.user.uid, numbers.groups), (12_345, Vec::new()));
        assert_eq!(Account::of_numbers(0, 7).known, root.known);
    }

    #[test]
    fn under_sudo_the_user_is_the_caller() {
        let variables = |uid: &'static str, gid: &'static str| {
            move |name: &str| match name {
                "SUDO_UID" => Some(uid.to_string()),
                "SUDO_GID" => Some(gid.to_string()),
                _ => None,
            }
        };
        let caller = Account::of_caller(0, variables("12345", "678")).expect("it is given");
        assert_eq!(caller.user, User { uid: 12_345, gid: 678 });
        assert!(caller.groups.is_empty(), "{caller:?}");
        let root = Account::of_caller(0, variables("0", "0")).expect("it is given");
        assert!(root.groups.contains(&0), "{root:?}");
        assert_eq!(Account::of_caller(1000, variables("12345", "678")), None, "not root");
        assert_eq!(Account::of_caller(0, variables("4294967295", "0")), None, "no user");
        assert_eq!(Account::of_caller(0, |_| None), None, "root itself");
    }
}
