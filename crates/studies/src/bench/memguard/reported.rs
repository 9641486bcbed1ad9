//! What is read off the journal of a run: how soon the core stood still, and what was read.

use maracas_console::failure::Failure;
use maracas_core::contract::Event;
use maracas_core::journal::{Note, Reader, Record};
use maracas_core::memory::LINE_BYTES;
use maracas_core::{Duration, Instant};

/// A core that closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Closing {
    pub(super) took: Duration,
    /// Reads beyond the mark.
    pub(super) beyond: u64,
}

/// A run by its journal.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Reported {
    /// By how long they took.
    pub(super) closings: Vec<Closing>,
    /// Lines read within the window.
    pub(super) reads: u64,
    pub(super) window: Duration,
}

impl Reported {
    /// Reads a journal from `begin` on.
    ///
    /// # Errors
    /// Where it is damaged.
    pub(super) fn read(journal: &[u8], begin: Instant) -> Result<Self, Failure> {
        let (_, reader) = Reader::open(journal).map_err(Failure::new)?;
        let (mut reported, mut service) = (Self::default(), Duration::ZERO);
        for record in reader {
            match record.map_err(Failure::new)? {
                Record::Event { event: Event::Ran(segment), .. } if segment.from >= begin => {
                    reported.reads += segment.usage.reads;
                    service += segment.usage.service;
                }
                Record::Note { at, note: Note::Closed { beyond, took_ns, .. } } if at >= begin => {
                    reported.closings.push(Closing { took: Duration::from_nanos(took_ns), beyond });
                }
                Record::End(end) => reported.window = end.saturating_since(begin),
                Record::Event { .. }
                | Record::Planned(_)
                | Record::Gap(_)
                | Record::Note { .. } => {}
            }
        }
        reported.allow_for_lines(service);
        reported.closings.sort_by_key(|closing| closing.took);
        Ok(reported)
    }

    /// When a mark was reached lies between two counts, and is known by the mean rate alone; what
    /// was read beyond it is known for sure, and took its time: no core stood still before.
    fn allow_for_lines(&mut self, service: Duration) {
        let (ns, reads) = (u128::from(service.ticks()), u128::from(self.reads.max(1)));
        for closing in &mut self.closings {
            let beyond = u128::from(closing.beyond) * ns / reads;
            let beyond = Duration::from_nanos(u64::try_from(beyond).unwrap_or(u64::MAX));
            closing.took = closing.took.max(beyond);
        }
    }

    /// A percentile of the times until the core stood still, by nearest rank.
    pub(super) fn took(&self, percent: usize) -> Option<Duration> {
        let took: Vec<_> = self.closings.iter().map(|closing| closing.took).collect();
        nearest(&took, percent)
    }
    /// A percentile of the reads beyond the mark.
    pub(super) fn beyond(&self, percent: usize) -> Option<u64> {
        let mut beyond: Vec<_> = self.closings.iter().map(|closing| closing.beyond).collect();
        beyond.sort_unstable();
        nearest(&beyond, percent)
    }
    /// What was read, in 1e6 bytes a second.
    pub(super) fn read_mb_s(&self) -> f64 {
        let seconds = self.window.ticks() as f64 / 1e9;
        if seconds > 0.0 { (self.reads * LINE_BYTES) as f64 / 1e6 / seconds } else { 0.0 }
    }
}

fn nearest<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closings_are_reported_by_their_percentiles() {
        let us = Duration::from_micros;
        let closings = [(1, 9), (2, 7), (30, 8)];
        let closings = closings.map(|(took, beyond)| Closing { took: us(took), beyond });
        let reported =
            Reported { closings: closings.into(), reads: 1_000_000, window: us(500_000) };
        assert_eq!((reported.took(50), reported.took(99)), (Some(us(2)), Some(us(30))));
        assert_eq!((reported.beyond(50), reported.beyond(99)), (Some(8), Some(9)));
        assert_eq!((reported.read_mb_s(), Reported::default().read_mb_s()), (128.0, 0.0));
        assert_eq!(Reported::default().took(50), None);
        // 1000 lines in 20 us: 9 take 180 ns.
        let closings = [Duration::ZERO, us(7)].map(|took| Closing { took, beyond: 9 }).into();
        let mut reported = Reported { closings, reads: 1000, window: us(1) };
        reported.allow_for_lines(us(20));
        assert_eq!(
            (reported.took(50), reported.took(99)),
            (Some(Duration::from_nanos(180)), Some(us(7)))
        );
    }
}
