//! Cutting stints into the pieces that jobs are made of.

use maracas_core::Instant;
use std::collections::VecDeque;

/// Cuts the stints of one VCPU at the ends of its jobs: a stint goes on from one job to the next
/// where the next is released already.
///
/// Jobs of one VCPU run one after the other, so the job that runs is known from the ends alone.
/// An end that becomes known only after the stint around it (a live report come late) cuts
/// nothing: that stint counts as the earlier job's.
#[derive(Clone, Default, Debug)]
pub(crate) struct Splitter {
    ends: VecDeque<(Instant, u32)>,
    job: u32,
}

/// What a stint is made of, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Job `job` (the index) ran from the one instant to the other; never empty.
    Piece(u32, Instant, Instant),
    /// The job before the next piece is over.
    JobOver,
}

impl Splitter {
    /// Learns that job `index` ended.
    pub(crate) fn completed(&mut self, index: u32, at: Instant) {
        self.ends.push_back((at, index));
    }
    /// Cuts one stint.
    #[inline]
    pub(crate) fn split(&mut self, from: Instant, to: Instant, mut part: impl FnMut(Part)) {
        let mut begin = from;
        while let Some(&(end, index)) = self.ends.front().filter(|(end, _)| *end < to) {
            self.ends.pop_front();
            if end > begin {
                part(Part::Piece(self.job, begin, end));
                begin = end;
            }
            self.job = index + 1;
            part(Part::JobOver);
        }
        if begin < to {
            part(Part::Piece(self.job, begin, to));
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
    fn a_stint_is_cut_where_jobs_end() {
        let t = Instant::from_ticks;
        let mut splitter = Splitter::default();
        let parts = |splitter: &mut Splitter, from, to| {
            let mut parts = Vec::new();
            splitter.split(t(from), t(to), |part| parts.push(part));
            parts
        };
        assert_eq!(parts(&mut splitter, 0, 3), [Part::Piece(0, t(0), t(3))]);
        splitter.completed(0, t(5));
        splitter.completed(1, t(9));
        let cut = [Part::Piece(0, t(4), t(5)), Part::JobOver, Part::Piece(1, t(5), t(9))];
        assert_eq!(parts(&mut splitter, 4, 9), cut);
        assert_eq!(parts(&mut splitter, 10, 12), [Part::JobOver, Part::Piece(2, t(10), t(12))]);
        assert_eq!(parts(&mut splitter, 12, 12), []);
    }

    #[test]
    fn consumption_is_spread_evenly() {
        let t = Instant::from_ticks;
        let by = |x| consumed_by(7, t(10), t(20), t(x));
        assert_eq!([5, 10, 15, 19, 20, 30].map(by), [0, 0, 3, 6, 7, 7]);
        assert_eq!(consumed_by(10, t(10), t(20), t(13)), 3);
    }
}
