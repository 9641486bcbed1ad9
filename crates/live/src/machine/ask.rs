//! A question to the agents and its answer, of which exactly one of two things happens: the answer
//! is taken, or the answering side learns that it is not and undoes what it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// The asking thread waits for the answer.
const AWAITED: u8 = 0;
/// The answer is given, and will be taken.
const GIVEN: u8 = 1;
/// It waits no longer.
const WITHDRAWN: u8 = 2;
/// No thread ever waited; what is asked for is to be done all the same.
const ORDERED: u8 = 3;

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Reply<T> {
    state: Arc<AtomicU8>,
    sender: SyncSender<T>,
}

/// Where an answer comes from. Dropped, it withdraws the question.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    state: Arc<AtomicU8>,
    receiver: Receiver<T>,
}

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Silence {
    /// It did not come in time; the question is withdrawn.
    Late,
    /// It will never come.
    Over,
}

/// The two ends of a question.
pub(crate) fn question<T>() -> (Reply<T>, Answer<T>) {
    let state = Arc::new(AtomicU8::new(AWAITED));
    let (sender, receiver) = sync_channel(1);
    (Reply { state: Arc::clone(&state), sender }, Answer { state, receiver })
}

impl<T> Reply<T> {
    /// For an order that no thread waits for.
    pub(crate) fn unattended() -> Self {
        let (sender, _) = sync_channel(1);
        Self { state: Arc::new(AtomicU8::new(ORDERED)), sender }
    }
}

impl<T> maracas_live_core::Reply<T> for Reply<T> {
    fn is_withdrawn(&self) -> bool {
        self.state.load(Ordering::Acquire) == WITHDRAWN
    }

    fn give(self, answer: T) -> Result<(), T> {
        let (is, becomes) = (Ordering::AcqRel, Ordering::Acquire);
        if self.state.compare_exchange(AWAITED, GIVEN, is, becomes).is_err() {
            return Err(answer);
        }
        // There is room for one, and the waiting thread is bound to take it.
        let _ = self.sender.try_send(answer);
        Ok(())
    }
}

impl<T> Answer<T> {
    /// Waits for the answer, for so long at most.
    ///
    /// # Errors
    /// Where it does not come in time, or never will.
    pub(crate) fn wait(self, patience: Duration) -> Result<T, Silence> {
        match self.receiver.recv_timeout(patience) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(Silence::Over),
            Err(RecvTimeoutError::Timeout) if self.withdraw() => Err(Silence::Late),
            // It is being given at this moment.
            Err(RecvTimeoutError::Timeout) => self.receiver.recv().map_err(|_| Silence::Over),
        }
    }

    /// Whether the question could be withdrawn: no answer was given.
    fn withdraw(&self) -> bool {
        let (is, becomes) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(AWAITED, WITHDRAWN, is, becomes).is_ok()
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_live_core::Reply as _;
    use std::thread;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn an_answer_is_taken_or_comes_back() {
        let (reply, answer) = question();
        assert!(!reply.is_withdrawn());
        assert_eq!(reply.give(7), Ok(()));
        assert_eq!(answer.wait(SOON), Ok(7));

        let (reply, answer) = question();
        assert_eq!(answer.wait(SOON), Err(Silence::Late));
        assert!(reply.is_withdrawn());
        assert_eq!(reply.give(7), Err(7), "the answering side must know");

        let (reply, answer) = question::<i32>();
        drop(reply);
        assert_eq!(answer.wait(Duration::from_secs(60)), Err(Silence::Over));

        let (reply, answer) = question();
        drop(answer);
        assert_eq!(reply.give(7), Err(7));
    }

    #[test]
    fn an_order_is_carried_out_though_no_thread_waits() {
        let reply = Reply::unattended();
        assert!(!reply.is_withdrawn());
        assert_eq!(
            reply.give(7),
            Err(7),
            "what comes of it is for the answering side to clear away"
        );
    }

    #[test]
    fn of_an_answer_and_a_withdrawal_at_once_one_holds() {
        let (mut taken, mut returned) = (0, 0);
        for round in 0..2_000 {
            let (reply, answer) = question();
            let giver = thread::spawn(move || {
                (0..round % 50).for_each(|_| thread::yield_now());
                reply.give(()).is_ok()
            });
            let was_taken = answer.wait(Duration::from_micros(round % 100)).is_ok();
            let was_given = giver.join().expect("it does not panic");
            assert_eq!(was_taken, was_given);
            taken += u32::from(was_taken);
            returned += u32::from(!was_taken);
        }
        assert_eq!(taken + returned, 2_000);
    }
}
