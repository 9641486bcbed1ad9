//! What an observer that takes jobs as wholes was not told of yet.

use super::task::Task;
use maracas_core::contract::{Event, JobRun, Observer, Piece};
use maracas_core::{Instant, Job, JobId};

/// So many pieces of a job are kept before its last one, so that memory has a bound; seldom one has
/// more.
const MOST_PIECES: usize = 64;

/// The only pending job of a task, while that may still end in time and as the only one.
#[derive(Clone, Default, Debug)]
pub(super) struct Untold {
    /// Whether there is one.
    is_open: bool,
    /// When it was released.
    release: Instant,
    /// What ran of it.
    pieces: Vec<Piece>,
}

impl Task {
    /// Its only pending job, released at `now`, is kept back.
    #[inline]
    pub(super) fn keep_back(&mut self, now: Instant) {
        self.untold.pieces.clear();
        (self.untold.is_open, self.untold.release) = (true, now);
    }
    /// Its only pending job, which is due at `deadline`, is complete with the end of `last`.
    #[inline(always)] // A part of each job.
    pub(super) fn tell_last(
        &mut self,
        (id, deadline): (JobId, Instant),
        last: Piece,
        observer: &mut dyn Observer,
    ) {
        let Untold { is_open, release, pieces } = &mut self.untold;
        if *is_open && last.to <= deadline {
            *is_open = false;
            pieces.push(last);
            let job = Job { id, release: *release, deadline };
            return observer.job(&JobRun { job, completed: last.to, pieces });
        }
        self.tell_untold(observer);
        observer.event(last.to, &Event::Completed(id));
        observer.event(last.to, &Event::Ran(last.segment(id.vcpu)));
    }
    /// It ran, and its job is not complete.
    #[inline(always)] // A part of nearly each job.
    pub(super) fn tell_piece(&mut self, piece: Piece, observer: &mut dyn Observer) {
        if self.untold.is_open && self.untold.pieces.len() < MOST_PIECES {
            return self.untold.pieces.push(piece);
        }
        self.tell_untold(observer);
        observer.event(piece.to, &Event::Ran(piece.segment(self.id())));
    }
    /// What was kept back is told by events: it is no job that ends in time and as the only one.
    #[inline]
    pub(super) fn tell_untold(&mut self, observer: &mut dyn Observer) {
        if self.untold.is_open {
            self.tell_events(observer);
        }
    }
    #[cold]
    fn tell_events(&mut self, observer: &mut dyn Observer) {
        self.untold.is_open = false;
        let job = self.last_job(self.untold.release);
        observer.event(job.release, &Event::Released(job));
        for piece in &self.untold.pieces {
            observer.event(piece.to, &Event::Ran(piece.segment(job.id.vcpu)));
        }
    }
}
