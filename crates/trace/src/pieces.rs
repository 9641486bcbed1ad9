//! Cutting segments into the pieces that jobs are made of.

use maracas_core::{Instant, Short};

/// Cuts the segments of one VCPU at the beginnings and ends of its jobs: a segment goes on from one
/// job to the next where the next is released already, and past the last job where work remains
/// that is no job (the optional part of anytime work).
///
/// Jobs of one VCPU run one after the other, so the job that runs is known from releases and ends
/// alone. A release or an end that becomes known only after the segment around it (a live report
/// come late) cuts nothing.
#[derive(Clone, Default, Debug)]
pub(crate) struct Splitter {
    jobs: Short<Bounds>,
}

/// When a job was released and when it ended, as far as that is known.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    index: u32,
    release: Instant,
    end: Option<Instant>,
}

/// What a segment is made of, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Job `index`, or no job, ran from the one instant to the other; never empty.
    Piece(Option<u32>, Instant, Instant),
    /// The job that ran last is over.
    JobOver,
}

impl Splitter {
    /// Learns of a job.
    #[inline]
    pub(crate) fn released(&mut self, index: u32, release: Instant) {
        self.jobs.push_back(Bounds { index, release, end: None });
    }
    /// Whether it knows of no job that is not over.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }
    /// Learns that job `index` ended.
    #[inline]
    pub(crate) fn completed(&mut self, index: u32, at: Instant) {
        // Nearly always it is the first, or the one behind one that is over.
        if let Some(job) = self.jobs.front_mut().filter(|job| job.index == index) {
            job.end = Some(at);
        } else if let Some(job) = self.jobs.second_mut().filter(|job| job.index == index) {
            job.end = Some(at);
        } else if let Some(job) = self.jobs.iter_mut().find(|job| job.index == index) {
            job.end = Some(at);
        }
    }
    /// Whether the job that comes first was over by `at`; if so, it is forgotten.
    #[inline]
    pub(crate) fn is_over(&mut self, at: Instant) -> bool {
        let Some(Bounds { end: Some(end), .. }) = self.jobs.front() else { return false };
        let over = *end <= at;
        if over {
            self.jobs.pop_front();
        }
        over
    }
    /// Whether all of a segment belongs to the job that comes first, which is not over before it.
    #[inline]
    pub(crate) fn covers(&self, from: Instant, to: Instant) -> bool {
        let ends = |job: &Bounds| job.end.unwrap_or(Instant::NEVER);
        self.jobs.front().is_some_and(|job| job.release <= from && to <= ends(job))
    }
    /// Cuts one segment.
    #[inline]
    pub(crate) fn split(&mut self, from: Instant, to: Instant, mut part: impl FnMut(Part)) {
        let mut begin = from;
        while begin < to {
            let Some(job) = self.jobs.front() else {
                return part(Part::Piece(None, begin, to));
            };
            let end = job.end.unwrap_or(Instant::NEVER);
            if end <= begin {
                self.jobs.pop_front();
                part(Part::JobOver);
            } else if job.release > begin {
                let cut = job.release.min(to);
                part(Part::Piece(None, begin, cut));
                begin = cut;
            } else {
                let cut = end.min(to);
                part(Part::Piece(Some(job.index), begin, cut));
                begin = cut;
            }
        }
    }
}

/// What was consumed by `x` of an `amount` consumed evenly over `[from, to)`, in whole units.
#[inline]
pub(crate) fn consumed_by(amount: u64, from: Instant, to: Instant, x: Instant) -> u64 {
    let (length, part) = (to.saturating_since(from).ticks(), x.saturating_since(from).ticks());
    if part >= length {
        amount
    } else if amount == length {
        part
    } else {
        (u128::from(amount) * u128::from(part) / u128::from(length)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_cut_where_jobs_end() {
        let t = Instant::from_ticks;
        let mut splitter = Splitter::default();
        let parts = |splitter: &mut Splitter, from, to| {
            let mut parts = Vec::new();
            splitter.split(t(from), t(to), |part| parts.push(part));
            parts
        };
        let piece = |job, from, to| Part::Piece(job, t(from), t(to));
        splitter.released(0, t(0));
        assert_eq!(parts(&mut splitter, 0, 3), [piece(Some(0), 0, 3)]);
        splitter.completed(0, t(5));
        splitter.released(1, t(4));
        splitter.completed(1, t(9));
        let cut = [piece(Some(0), 4, 5), Part::JobOver, piece(Some(1), 5, 9)];
        assert_eq!(parts(&mut splitter, 4, 9), cut);
        splitter.released(2, t(12));
        let cut = [Part::JobOver, piece(None, 10, 12), piece(Some(2), 12, 14)];
        assert_eq!(parts(&mut splitter, 10, 14), cut);
        assert_eq!(parts(&mut splitter, 14, 14), []);
        splitter.completed(2, t(15));
        assert_eq!(parts(&mut splitter, 15, 18), [Part::JobOver, piece(None, 15, 18)]);
    }

    #[test]
    fn consumption_is_spread_evenly() {
        let t = Instant::from_ticks;
        let by = |x| consumed_by(7, t(10), t(20), t(x));
        assert_eq!([5, 10, 15, 19, 20, 30].map(by), [0, 0, 3, 6, 7, 7]);
        assert_eq!(consumed_by(10, t(10), t(20), t(13)), 3);
    }
}
