//! What is done already: a file that only grows, so that nothing finished is ever lost.
//!
//! It begins with what the sweep means ([`crate::Study::meaning`]), so that nothing is mixed up,
//! and holds one line for each finished set: numbers, and a checksum. A line that was torn when the
//! program ended is no line; its set is run again.

use crate::Error;
use crate::results::Results;
use crate::study::checksum;
use crate::trial::Tally;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
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
    /// Which tests of each contender admit it ([`crate::admission::admitted`]).
    pub admitted: Vec<u64>,
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
    /// Opens or begins the ledger of a sweep with this meaning, and puts what is in it into
    /// `results`.
    ///
    /// # Errors
    /// Where the file cannot be read or written, another process has it open, or it is of another
    /// sweep; the line says what differs. Where `results` takes no more.
    pub fn open(path: &Path, meaning: &str, results: &mut Results) -> Result<Self, Error> {
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
        let header = format!("{FIRST}{meaning}{BEGIN}");
        let mut reader = BufReader::new(&file);
        let begun = begun(&header, &mut reader).map_err(|error| fail(&error))?;
        if let Begun::Otherwise(theirs) = begun {
            return Err(fail(&other_sweep(&header, &theirs)));
        }
        let mut length = 0;
        if let Begun::Here = begun {
            length = header.len() as u64;
            let mut line = Vec::new();
            while next_line(&mut reader, &mut line).map_err(|error| fail(&error))? {
                length += line.len() as u64;
                if let Some(finished) = Finished::of_line(&line, results) {
                    results.put(&finished)?;
                }
            }
        }
        file.set_len(length).map_err(|error| fail(&error))?;
        file.seek(SeekFrom::End(0)).map_err(|error| fail(&error))?;
        if length == 0 {
            file.write_all(header.as_bytes()).map_err(|error| fail(&error))?;
            length = header.len() as u64;
        }
        Ok(Self { file, name, length })
    }

    /// Notes finished sets, by their lines ([`Finished::line`]).
    ///
    /// # Errors
    /// Where the file cannot be written, on a full disk for instance; what it holds is kept, and
    /// none of these lines.
    pub fn note(&mut self, lines: &str) -> Result<(), Error> {
        // In one piece, so that a line is torn by nothing but the end of the machine.
        if let Err(error) = self.file.write_all(lines.as_bytes()) {
            // Half a line would spoil the next one, if there is room for that again.
            let cut = self.file.set_len(self.length);
            let _ = cut.and_then(|()| self.file.seek(SeekFrom::Start(self.length)));
            let way_out = "it keeps what is finished, and the same sweep goes on from there";
            return Err(Error(format!("{}: {error}; {way_out}", self.name)));
        }
        self.length += lines.len() as u64;
        Ok(())
    }
}

/// What a file begins with.
enum Begun {
    /// The header: results follow.
    Here,
    /// Part of the header: where the program ended within it, nothing was finished.
    Hardly,
    /// Something else.
    Otherwise(String),
}

/// Reads the header, and some more where it is another one.
fn begun(header: &str, reader: &mut impl Read) -> io::Result<Begun> {
    let mut bytes = Vec::new();
    reader.by_ref().take(header.len() as u64).read_to_end(&mut bytes)?;
    if bytes == header.as_bytes() {
        return Ok(Begun::Here);
    }
    if header.as_bytes().starts_with(&bytes) {
        return Ok(Begun::Hardly);
    }
    // The line that differs to its end, as far as a line on a terminal goes.
    reader.by_ref().take(1 << 10).read_to_end(&mut bytes)?;
    Ok(Begun::Otherwise(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Reads a line with its end; false where there is none that is whole.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    reader.read_until(b'\n', line)?;
    Ok(line.ends_with(b"\n"))
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
        let tallies = self.tallies.iter().flat_map(numbers);
        for number in self.admitted.iter().copied().chain(tallies) {
            // Writing into a string cannot fail.
            let _ = write!(line, " {number}");
        }
        let sum = checksum(line.as_bytes());
        line + &format!(" {sum:016x}\n")
    }
    /// The set of a line of bytes, with its end, where it is one of these.
    fn of_line(line: &[u8], results: &Results) -> Option<Self> {
        let line = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
        Self::read(line, results.contenders()).filter(|it| it.item < results.items())
    }
    /// What [`Finished::line`] wrote, for so many contenders; `None` where the line is not whole.
    pub fn read(line: &str, contenders: usize) -> Option<Self> {
        let (content, sum) = line.rsplit_once(' ')?;
        if format!("{:016x}", checksum(content.as_bytes())) != sum {
            return None;
        }
        let numbers = content.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let (head, rest) = numbers.split_at_checked(3)?;
        let (admitted, tallies) = rest.split_at_checked(contenders)?;
        let (tallies, rest) = tallies.as_chunks();
        (rest.is_empty() && tallies.len() == contenders).then(|| Self {
            item: head[0] as usize,
            tasks: head[1],
            load_ppb: head[2],
            admitted: admitted.to_vec(),
            tallies: tallies.iter().map(tally).collect(),
        })
    }
}

/// Numbers of a [`Tally`].
pub(crate) const NUMBERS: usize = 12;

pub(crate) fn numbers(tally: &Tally) -> [u64; NUMBERS] {
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

pub(crate) const fn tally(numbers: &[u64; NUMBERS]) -> Tally {
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
            let mut numbers: [u64; NUMBERS] = std::array::from_fn(|place| from + place as u64);
            numbers[0] = from % 2;
            tally(&numbers)
        };
        let tallies = vec![tally(100), tally(201)];
        Finished { item, tasks: 7, load_ppb: 1_500_000_000, admitted: vec![3, 0], tallies }
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

    fn open(path: &Path, meaning: &str) -> Result<(Ledger, Vec<Finished>), Error> {
        let mut results = Results::new(&std::env::temp_dir(), 1, 4, 2)?;
        let ledger = Ledger::open(path, meaning, &mut results)?;
        Ok((ledger, results.of_point(0).collect::<Result<_, _>>()?))
    }

    #[test]
    fn what_was_noted_is_there_again_whatever_was_torn() {
        let path = scratch("torn");
        let known = || {
            let found = open(&path, MEANING).unwrap().1;
            found.into_iter().map(|entry| entry.item).collect::<Vec<_>>()
        };
        {
            let (mut ledger, found) = open(&path, MEANING).unwrap();
            assert!(found.is_empty());
            ledger.note(&finished(2).line()).unwrap();
            ledger.note(&finished(0).line()).unwrap();
        }
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(known(), [0, 2]);
        // Wherever the file ends, what is before the end is kept, and it can go on.
        let mut counts = Vec::new();
        for end in 0..=whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            let (mut ledger, found) = open(&path, MEANING).unwrap();
            counts.push(found.len());
            assert!(found.iter().all(|entry| *entry == finished(entry.item)));
            ledger.note(&finished(3).line()).unwrap();
            drop(ledger);
            assert!(known().contains(&3), "{end}");
        }
        assert!(counts.is_sorted() && counts.first() == Some(&0) && counts.last() == Some(&2));
        // A line that is wrong in the middle costs no other.
        let mut broken = whole.clone();
        let line = whole.len() - finished(0).line().len() - 5;
        broken[line] = b'x';
        std::fs::write(&path, &broken).unwrap();
        assert_eq!(known(), [0]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn another_sweep_is_refused_and_says_what_differs() {
        let path = scratch("other");
        drop(open(&path, MEANING).unwrap());
        let reported = |meaning| open(&path, meaning).unwrap_err().0;
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
        let (_held, _) = open(&path, MEANING).unwrap();
        assert!(reported(MEANING).contains("another sweep is at work here"));
        std::fs::remove_file(&path).unwrap();
    }
}
