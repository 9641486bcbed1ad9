//! Where a job is cut into pieces: at the begin and the end of each critical section.

use maracas_core::Duration;
use maracas_core::resources::Section;
use std::collections::VecDeque;

/// What a job does at the end of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cut {
    /// It asks for a resource.
    Ask(u32),
    /// It gives back what it holds.
    GiveBack,
}

/// The rest of a job at work.
#[derive(Clone, Default, Debug)]
pub(super) struct Cuts {
    /// The job after the one at work.
    begun: u32,
    /// Pieces that are left, each with what is done at its end; that of the last is nothing, and it
    /// may be empty.
    pieces: VecDeque<(Duration, Option<Cut>)>,
}

impl Cuts {
    /// The `index`-th job begins, which costs `cost` of `budget`. Returns whether it had not begun.
    /// What is left of a section by the job's cost is dropped where it is less than a tick, and
    /// begins a tick late where the job would ask without having run.
    pub(super) fn begin(
        &mut self,
        index: u32,
        cost: Duration,
        budget: Duration,
        sections: &[Section],
    ) -> bool {
        if self.begun > index {
            return false;
        }
        self.begun = index + 1;
        self.pieces.clear();
        let scaled = |at: Duration| {
            let product = u128::from(at.ticks()) * u128::from(cost.ticks());
            // At most the cost, as sections end within the budget.
            (product / u128::from(budget.ticks().max(1))) as u64
        };
        let mut done = 0;
        for section in sections {
            let from = scaled(section.at).max(done + 1);
            let to = scaled(section.at + section.length);
            if from < to {
                let run = Duration::from_ticks(from - done);
                let hold = Duration::from_ticks(to - from);
                self.pieces.push_back((run, Some(Cut::Ask(section.resource))));
                self.pieces.push_back((hold, Some(Cut::GiveBack)));
                done = to;
            }
        }
        self.pieces.push_back((Duration::from_ticks(cost.ticks() - done), None));
        true
    }
    /// The work of the piece at hand.
    pub(super) fn piece(&self) -> Duration {
        self.pieces.front().map_or(Duration::ZERO, |(work, _)| *work)
    }
    /// Goes on to the next piece; what is done before it, `None` where the job ends.
    pub(super) fn next(&mut self) -> Option<Cut> {
        self.pieces.pop_front()?.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(resource: u32, at: u64, length: u64) -> Section {
        let [at, length] = [at, length].map(Duration::from_ticks);
        Section { resource, at, length }
    }

    /// The pieces of a job of that cost, of a budget of 100.
    fn pieces(cost: u64, sections: &[Section]) -> Vec<(u64, Option<Cut>)> {
        let mut cuts = Cuts::default();
        let ticks = Duration::from_ticks;
        assert!(cuts.begin(0, ticks(cost), ticks(100), sections));
        assert!(!cuts.begin(0, ticks(cost), ticks(100), sections), "it has begun");
        let mut pieces = Vec::new();
        loop {
            let work = cuts.piece().ticks();
            let next = cuts.next();
            pieces.push((work, next));
            if next.is_none() {
                return pieces;
            }
        }
    }

    #[test]
    fn a_job_is_cut_where_its_sections_begin_and_end() {
        let sections = [section(0, 10, 30), section(1, 60, 40)];
        let [asks, gives] = [|it| Some(Cut::Ask(it)), |_| Some(Cut::GiveBack)];
        let whole = [(10, asks(0)), (30, gives(0)), (20, asks(1)), (40, gives(1)), (0, None)];
        assert_eq!(pieces(100, &sections), whole);
        let half = [(5, asks(0)), (15, gives(0)), (10, asks(1)), (20, gives(1)), (0, None)];
        assert_eq!(pieces(50, &sections), half);
    }

    #[test]
    fn a_job_asks_when_it_runs_and_costs_what_it_costs() {
        let sections = [section(0, 10, 30), section(1, 41, 1), section(2, 60, 40)];
        for cost in 1..=100 {
            let pieces = pieces(cost, &sections);
            assert_eq!(pieces.iter().map(|(work, _)| work).sum::<u64>(), cost);
            assert!(pieces.iter().all(|(work, cut)| *work > 0 || cut.is_none()), "{pieces:?}");
        }
        assert_eq!(pieces(1, &sections), [(1, None)], "too short for any section");
    }
}
