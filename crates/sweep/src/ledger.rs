//! What is done already: a file that only grows, so that nothing finished is ever lost.
//!
//! It begins with what the sweep means ([`crate::Study::meaning`]), so that nothing is mixed up,
//! and holds one line for each finished set: numbers, and a checksum. A line that was torn when the
//! program ended is no line; its set is run again.

use crate::Error;
use crate::study::checksum;
use crate::trial::Tally;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// What all contenders made of one set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// Number of the item.
    pub item: usize,
    /// How many tasks the set has.
    pub tasks: u64,
    /// Its utilization in parts per billion of one core.
    pub load_ppb: u64,
    /// What each contender came to.
    pub tallies: Vec<Tally>,
}

/// The open file.
#[derive(Debug)]
pub struct Ledger {
    file: File,
    name: String,
    /// Bytes of the file, all lines whole.
    length: u64,
}

/// The first line.
const FIRST: &str = "maracas sweep progress 1\n";
/// The line before the results.
const BEGIN: &str = "results\n";

impl Ledger {
    /// Opens or begins the ledger of a sweep with this meaning, of so many items and contenders.
    /// Returns what is in it, by item.
    ///
    /// # Errors
    /// Where the file cannot be read or written, another process has it open, or it is of another
    /// sweep; the line says what differs.
    pub fn open(
        path: &Path,
        meaning: &str,
        items: usize,
        contenders: usize,
    ) -> Result<(Self, Vec<Option<Finished>>), Error> {
        let name = path.display().to_string();
        let fail = |error: &dyn std::fmt::Display| Error(format!("{name}: {error}"));
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(|error| fail(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(fail(
                    &"another sweep is at work here; wait for it or name another folder",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(fail(&error)),
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| fail(&error))?;
        let header = format!("{FIRST}{meaning}{BEGIN}");
        let mut finished = vec![None; items];
        // Where the program ended within the header, nothing was finished.
        let begun = !header.as_bytes().starts_with(&bytes) || bytes == header.as_bytes();
        let kept = if begun {
            let Some(results) = bytes.strip_prefix(header.as_bytes()) else {
                return Err(fail(&other_sweep(&header, &String::from_utf8_lossy(&bytes))));
            };
            let whole = results.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            for line in String::from_utf8_lossy(&results[..whole]).lines() {
                let read = Finished::read(line, contenders).filter(|it| it.item < items);
                if let Some(entry) = read {
                    let item = entry.item;
                    finished[item] = Some(entry);
                }
            }
            header.len() + whole
        } else {
            0
        };
        file.set_len(kept as u64).map_err(|error| fail(&error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| fail(&error))?;
        if !begun {
            file.write_all(header.as_bytes()).map_err(|error| fail(&error))?;
        }
        let length = if begun { kept } else { header.len() } as u64;
        Ok((Self { file, name, length }, finished))
    }

    /// Notes a finished set.
    ///
    /// # Errors
    /// Where the file cannot be written, on a full disk for instance; what it holds is kept.
    pub fn note(&mut self, finished: &Finished) -> Result<(), Error> {
        // In one piece, so that a line is torn by nothing but the end of the machine.
        let line = finished.line();
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // Half a line would spoil the next one, if there is room for that again.
            let cut = self.file.set_len(self.length);
            let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            let way_out = "it keeps what is finished, and the same sweep goes on from there";
            return Err(Error(format!("{}: {error}; {way_out}", self.name)));
        }
        self.length += line.len() as u64;
        Ok(())
    }
}

/// What differs, where a ledger is of another sweep.
fn other_sweep(ours: &str, theirs: &str) -> String {
    const WAY_OUT: &str = "name another folder, or remove this one";
    if !theirs.starts_with(FIRST) {
        return format!("is no progress of a sweep; {WAY_OUT}");
    }
    let mut pairs = ours.lines().zip(theirs.lines().chain(std::iter::repeat("")));
    let (now, then) = pairs.find(|(now, then)| now != then).unwrap_or_default();
    format!("is of another sweep: it has \"{then}\" and the file says \"{now}\"; {WAY_OUT}")
}

impl Finished {
    /// The line that [`Ledger`] keeps of it, with its end and a checksum.
    pub fn line(&self) -> String {
        let mut line = format!("{} {} {}", self.item, self.tasks, self.load_ppb);
        for number in self.tallies.iter().flat_map(numbers) {
            // Writing into a string cannot fail.
            let _ = write!(line, " {number}");
        }
        let sum = checksum(line.as_bytes());
        line + &format!(" {sum:016x}\n")
    }
    /// What [`Finished::line`] wrote, for so many contenders; `None` where the line is not whole.
    pub fn read(line: &str, contenders: usize) -> Option<Self> {
        let (content, sum) = line.rsplit_once(' ')?;
        if format!("{:016x}", checksum(content.as_bytes())) != sum {
            return None;
        }
        let numbers = content.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let (head, tallies) = numbers.split_at_checked(3)?;
        let (tallies, rest) = tallies.as_chunks();
        (rest.is_empty() && tallies.len() == contenders).then(|| Self {
            item: head[0] as usize,
            tasks: head[1],
            load_ppb: head[2],
            tallies: tallies.iter().map(tally).collect(),
        })
    }
}

fn numbers(tally: &Tally) -> [u64; 12] {
    [
        u64::from(tally.accepted),
        tally.released,
        tally.completed,
        tally.missed,
        tally.tardiness_max_ns,
        tally.tardiness_sum_ns,
        tally.preemptions,
        tally.migrations,
        tally.task_migrations,
        tally.decisions,
        tally.depth,
        tally.charged_ns,
    ]
}

const fn tally(numbers: &[u64; 12]) -> Tally {
    let [accepted, released, completed, missed, tardiness_max_ns, tardiness_sum_ns, ..] = *numbers;
    let [.., preemptions, migrations, task_migrations, decisions, depth, charged_ns] = *numbers;
    Tally {
        accepted: accepted != 0,
        released,
        completed,
        missed,
        tardiness_max_ns,
        tardiness_sum_ns,
        preemptions,
        migrations,
        task_migrations,
        decisions,
        depth,
        charged_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANING: &str = "maracas 1\nseed 1\n";

    fn finished(item: usize) -> Finished {
        let tally = |from| {
            let mut numbers: [u64; 12] = std::array::from_fn(|place| from + place as u64);
            numbers[0] = from % 2;
            tally(&numbers)
        };
        Finished { item, tasks: 7, load_ppb: 1_500_000_000, tallies: vec![tally(100), tally(201)] }
    }

    fn scratch(name: &str) -> std::path::PathBuf {
        let name = format!("maracas-ledger-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn lines_come_back_as_they_were_or_not_at_all() {
        let line = finished(3).line();
        let whole = line.trim_end();
        assert_eq!(Finished::read(whole, 2), Some(finished(3)));
        assert_eq!(Finished::read(whole, 3), None);
        for cut in 0..whole.len() {
            assert_eq!(Finished::read(&whole[..cut], 2), None, "{cut}");
        }
        let mut bytes = whole.to_string().into_bytes();
        for place in 0..bytes.len() {
            bytes[place] ^= 1;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert_eq!(Finished::read(&changed, 2), None, "{changed}");
            bytes[place] ^= 1;
        }
    }

    #[test]
    fn what_was_noted_is_there_again_whatever_was_torn() {
        let path = scratch("torn");
        let open = || {
            Ledger::open(&path, MEANING, 4, 2).map(|(ledger, found)| {
                drop(ledger);
                found.into_iter().flatten().map(|entry| entry.item).collect::<Vec<_>>()
            })
        };
        {
            let (mut ledger, found) = Ledger::open(&path, MEANING, 4, 2).unwrap();
            assert!(found.iter().all(Option::is_none));
            ledger.note(&finished(2)).unwrap();
            ledger.note(&finished(0)).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(open().unwrap(), [0, 2]);
        // Wherever the file ends, what is before the end is kept, and it can go on.
        let mut counts = Vec::new();
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let (mut ledger, found) = Ledger::open(&path, MEANING, 4, 2).unwrap();
            counts.push(found.iter().flatten().count());
            assert!(found.iter().flatten().all(|entry| *entry == finished(entry.item)));
            ledger.note(&finished(3)).unwrap();
            drop(ledger);
            assert!(open().unwrap().contains(&3), "{end}");
        }
        assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&2));
        // A line that is wrong in the middle costs no other.
        let mut broken = whole.clone();
        let line = whole.len() - finished(0).line().len() - 5;
        broken[line] = b'x';
        std::fs::write(&path, &broken).unwrap();
        assert_eq!(open().unwrap(), [0]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn another_sweep_is_refused_and_says_what_differs() {
        let path = scratch("other");
        drop(Ledger::open(&path, MEANING, 4, 2).unwrap());
        let reported = |meaning| Ledger::open(&path, meaning, 4, 2).unwrap_err().0;
        let line = reported("maracas 1\nseed 2\n");
        assert!(
            line.contains("it has \"seed 1\" and the file says \"seed 2\"; name another"),
            "{line}"
        );
        assert!(reported("maracas 1\nseed 1\nmore\n").contains("it has \"results\""));
        std::fs::write(&path, "a,b,c\n").unwrap();
        assert!(reported(MEANING).contains("is no progress of a sweep"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a,b,c\n");
        std::fs::remove_file(&path).unwrap();
        let (_held, _) = Ledger::open(&path, MEANING, 4, 2).unwrap();
        assert!(reported(MEANING).contains("another sweep is at work here"));
        std::fs::remove_file(&path).unwrap();
    }
}
