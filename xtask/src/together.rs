//! Steps of CI side by side, so that no core waits while a step has one of them at work.

use std::sync::Mutex;

/// A step that nothing beside it disturbs.
pub(crate) type Step<'a> = &'a (dyn Fn() -> Result<(), String> + Sync);

/// Takes all of `steps` in their order, `at_once` of them at a time, and the others too where one
/// fails.
///
/// # Errors
/// What those said that failed.
pub(crate) fn all(at_once: usize, steps: &[Step<'_>]) -> Result<(), String> {
    let queue = Mutex::new(steps.iter());
    let next = || queue.lock().ok().and_then(|mut queue| queue.next());
    let work = || std::iter::from_fn(next).filter_map(|step| step().err()).collect::<Vec<_>>();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(end).collect()
    });
    if failures.is_empty() { Ok(()) } else { Err(failures.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn all_steps_are_taken_and_what_failed_is_said() {
        let taken = AtomicU32::new(0);
        let good = || {
            taken.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let bad = || good().and(Err("it broke".to_string()));
        assert_eq!(all(2, &[]), Ok(()));
        assert_eq!(all(3, &[&good, &good]), Ok(()));
        for at_once in [1, 2, 8] {
            taken.store(0, Ordering::Relaxed);
            let said = all(at_once, &[&bad, &good, &good, &bad, &good]);
            assert_eq!(said, Err("it broke; it broke".into()));
            assert_eq!(taken.load(Ordering::Relaxed), 5);
        }
    }

    #[test]
    fn steps_are_under_way_at_once() {
        let both = std::sync::Barrier::new(2);
        let meets = || {
            both.wait();
            Ok(())
        };
        assert_eq!(all(2, &[&meets, &meets]), Ok(()));
    }
}
