//! What came of the sets of a sweep: in a file, so that memory does not grow with their number.
//!
//! [`crate::Ledger`] is what outlives the program, in the order in which sets were finished. Tables
//! are in the order of points and sets, and are gone through several times, so each set has a place
//! of its own here. The file has no name: it is gone with the program.

use crate::Error;
use crate::ledger::{Finished, NUMBERS, numbers, tally};
use crate::study::Study;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are read at once, about.
const BLOCK: usize = 1 << 16;
/// Bytes of a number.
const WORD: usize = 8;

/// What is finished; it fills up in any order.
#[derive(Debug)]
pub struct Results {
    file: File,
    /// The folder that the file takes room in.
    folder: String,
    points: usize,
    sets: usize,
    contenders: usize,
    /// By item.
    there: Vec<bool>,
    done: usize,
}

impl Results {
    /// Nothing finished yet, of a sweep of so many points, sets for each, and contenders. `folder`
    /// is where there is room.
    ///
    /// # Errors
    /// Where no file can be made there.
    pub fn new(
        folder: &Path,
        points: usize,
        sets: usize,
        contenders: usize,
    ) -> Result<Self, Error> {
        let name = folder.display().to_string();
        let there = vec![false; points * sets];
        let made = unnamed(folder).and_then(|file| {
            file.set_len((there.len() * size(contenders)) as u64)?;
            Ok(file)
        });
        let file = made.map_err(|error| Error(format!("{name}: {error}")))?;
        Ok(Self { file, folder: name, points, sets, contenders, there, done: 0 })
    }
    /// The same for a study.
    ///
    /// # Errors
    /// As [`Results::new`].
    pub fn of(study: &Study, folder: &Path) -> Result<Self, Error> {
        Self::new(folder, study.points.len(), study.sets, study.contenders.len())
    }

    /// How many items there are to be.
    pub const fn items(&self) -> usize {
        self.there.len()
    }
    /// How many of them are finished.
    pub const fn done(&self) -> usize {
        self.done
    }
    /// How many contenders each has.
    pub const fn contenders(&self) -> usize {
        self.contenders
    }
    /// The items from this one on that are not finished.
    pub fn missing(&self, from: usize) -> impl Iterator<Item = usize> {
        let rest = (from..).zip(self.there.iter().skip(from));
        rest.filter(|(_, there)| !**there).map(|(item, _)| item)
    }
    /// The last item that is finished.
    pub fn last(&self) -> Option<usize> {
        self.there.iter().rposition(|there| *there)
    }

    /// Takes in a set; one that is there already is replaced.
    ///
    /// # Errors
    /// Where the file cannot be written, on a full disk for instance.
    pub fn put(&mut self, finished: &Finished) -> Result<(), Error> {
        let head = [finished.tasks, finished.load_ppb];
        let head = head.into_iter().chain(finished.admitted.iter().copied());
        let all = head.chain(finished.tallies.iter().flat_map(numbers));
        let record: Vec<u8> = all.flat_map(u64::to_le_bytes).collect();
        let at = self.place(finished.item);
        self.file.write_all_at(&record, at).map_err(|error| {
            let way_out = "it keeps what is finished, and the same sweep goes on from there";
            Error(format!("{}: {error}; {way_out}", self.folder))
        })?;
        self.done += usize::from(!self.there[finished.item]);
        self.there[finished.item] = true;
        Ok(())
    }
    /// What came of an item; `None` where it is not finished.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn get(&self, item: usize) -> Result<Option<Finished>, Error> {
        let (point, set) = (item % self.points, item / self.points);
        Ok(self.block(point, set..set + 1)?.pop())
    }
    /// What is finished of a point, by its place among the points, in the order of the sets.
    pub fn of_point(&self, point: usize) -> impl Iterator<Item = Result<Finished, Error>> {
        let at_once = BLOCK / size(self.contenders) + 1;
        (0..self.sets).step_by(at_once).flat_map(move |first| {
            match self.block(point, first..self.sets.min(first + at_once)) {
                Ok(block) => block.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
    }

    /// Where the record of an item begins: sets of a point stand side by side.
    const fn place(&self, item: usize) -> u64 {
        let (point, set) = (item % self.points, item / self.points);
        ((point * self.sets + set) * size(self.contenders)) as u64
    }
    fn block(&self, point: usize, sets: std::ops::Range<usize>) -> Result<Vec<Finished>, Error> {
        let size = size(self.contenders);
        let item = |set: usize| set * self.points + point;
        let mut bytes = vec![0; sets.len() * size];
        self.file
            .read_exact_at(&mut bytes, self.place(item(sets.start)))
            .map_err(|error| Error(format!("{}: {error}", self.folder)))?;
        let records = sets.map(item).zip(bytes.chunks_exact(size));
        let there = records.filter(|(item, _)| self.there[*item]);
        Ok(there.map(|(item, record)| read(item, record)).collect())
    }
}

/// Bytes of a record: tasks and utilization of the set, and for each contender which tests admit it
/// and what it came to.
const fn size(contenders: usize) -> usize {
    WORD * (2 + (1 + NUMBERS) * contenders)
}

fn read(item: usize, record: &[u8]) -> Finished {
    let (words, _) = record.as_chunks::<WORD>();
    let word = |place: usize| u64::from_le_bytes(words[place]);
    let contenders = (words.len() - 2) / (1 + NUMBERS);
    let admitted = (2..2 + contenders).map(word).collect();
    let each = (2 + contenders..words.len()).step_by(NUMBERS);
    let tallies = each.map(|from| tally(&std::array::from_fn(|place| word(from + place))));
    Finished { item, tasks: word(0), load_ppb: word(1), admitted, tallies: tallies.collect() }
}

/// A file that has lost its name already.
fn unnamed(folder: &Path) -> io::Result<File> {
    /// A process may have several.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".sweep.{}.{number}.tmp", std::process::id()));
    // One of a process of the same number that ended in between.
    let _ = fs::remove_file(&path);
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(item: usize) -> Finished {
        let tally = |from: u64| {
            let mut numbers: [u64; NUMBERS] = std::array::from_fn(|place| from + place as u64);
            numbers[0] = from % 2;
            tally(&numbers)
        };
        let from = 100 * item as u64;
        let tallies = vec![tally(from), tally(from + 1)];
        Finished { item, tasks: 7, load_ppb: from, admitted: vec![from % 8, 5], tallies }
    }

    /// More sets of a point than are read at once, of which some are missing.
    #[test]
    fn sets_come_back_by_point_in_their_order() {
        let (points, sets) = (3, 1_000);
        let mut results = Results::new(&std::env::temp_dir(), points, sets, 2).unwrap();
        assert_eq!((results.items(), results.done(), results.last()), (3_000, 0, None));
        let there = |item: &usize| !item.is_multiple_of(7);
        for item in (0..results.items()).rev().filter(there) {
            results.put(&finished(item)).unwrap();
        }
        results.put(&finished(1)).unwrap();
        assert_eq!((results.done(), results.last()), (3_000 - 429, Some(2_999)));
        assert!(results.missing(8).eq((14..3_000).step_by(7)));
        for point in 0..points {
            let wanted = (point..3_000).step_by(points).filter(there).map(finished);
            assert!(results.of_point(point).map(Result::unwrap).eq(wanted), "{point}");
        }
        assert_eq!(results.get(1_234).unwrap(), Some(finished(1_234)));
        assert_eq!(results.get(1_232).unwrap(), None);
    }

    #[test]
    fn no_file_stays_and_a_folder_that_is_not_there_is_named() {
        let folder = std::env::temp_dir().join(format!("maracas-results-{}", std::process::id()));
        let error = Results::new(&folder, 1, 1, 1).unwrap_err();
        assert!(error.0.starts_with(&format!("{}: No such file", folder.display())), "{error}");
        fs::create_dir(&folder).unwrap();
        let mut results = Results::new(&folder, 1, 200, 2).unwrap();
        results.put(&finished(150)).unwrap();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::remove_dir(&folder).unwrap();
    }
}
