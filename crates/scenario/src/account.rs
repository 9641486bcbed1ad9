//! The user whose rights a command runs with, as a file says it. Whether this host knows the user
//! is asked where the command is started.

use crate::cursor::Field;
use crate::error::{Error, Location};

/// Whose rights a command has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Account {
    /// The user.
    pub who: Who,
    /// Where the file says so.
    pub at: Location,
}

/// A user, by name or by number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Who {
    /// A name of this host's list of users, with its group and supplementary groups.
    Name(String),
    /// A user number and a group number, without supplementary groups.
    Numbers {
        /// The user.
        uid: u32,
        /// The group.
        gid: u32,
    },
}

const EXAMPLE: &str = "\"nobody\" or \"1000:1000\"";
/// The longest name: `LOGIN_NAME_MAX` of Linux without the closing zero.
const LONGEST: usize = 255;

impl Account {
    /// Reads `user`.
    ///
    /// # Errors
    /// Where it is neither a name nor a pair of numbers.
    pub(crate) fn read(field: &Field<'_>) -> Result<Self, Error> {
        let text = field.text(EXAMPLE)?;
        let who = who(text).ok_or_else(|| {
            field.error(format!("`{}` is neither a user's name nor uid:gid; write {EXAMPLE}", text))
        })?;
        Ok(Self { who, at: field.location() })
    }
}

fn who(text: &str) -> Option<Who> {
    // The highest number means "leave as it is" to the system calls that change users.
    let number = |text: &str| text.parse().ok().filter(|number| *number != u32::MAX);
    if let Some((uid, gid)) = text.split_once(':') {
        return Some(Who::Numbers { uid: number(uid)?, gid: number(gid)? });
    }
    // A number alone would say nothing of the group.
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-$@\\".contains(&byte);
    let named = !text.is_empty() && text.len() <= LONGEST && text.bytes().all(fine);
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    (named && first).then(|| Who::Name(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_name_or_a_pair_of_numbers() {
        assert_eq!(who("nobody"), Some(Who::Name("nobody".into())));
        assert_eq!(who("_apt"), Some(Who::Name("_apt".into())));
        assert_eq!(who("1000:100"), Some(Who::Numbers { uid: 1000, gid: 100 }));
        for text in ["", "1000", "1000:", ":100", "4294967295:0", "-1:0", "a b", "-x", "a:b"] {
            assert_eq!(who(text), None, "{text}");
        }
    }
}
