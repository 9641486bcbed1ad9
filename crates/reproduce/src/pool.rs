//! The same work on many things, on several threads. What comes out does not depend on how many.

use std::sync::atomic::{AtomicUsize, Ordering};

/// `work` done on each of `items`, in their order, by up to `jobs` threads; `done` is called after
/// each.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    done: &(dyn Fn() + Sync),
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let one = || {
        let mut results = Vec::new();
        while let Some((place, item)) = {
            let place = next.fetch_add(1, Ordering::Relaxed);
            items.get(place).map(|item| (place, item))
        } {
            results.push((place, work(item)));
            done();
        }
        results
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..jobs.clamp(1, items.len().max(1))).map(|_| scope.spawn(one)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(join).collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_the_items_for_any_number_of_threads() {
        let items: Vec<u64> = (0..100).collect();
        for jobs in [0, 1, 2, 7, 1000] {
            let count = AtomicUsize::new(0);
            let done = || {
                count.fetch_add(1, Ordering::Relaxed);
            };
            let squares = map(&items, jobs, &done, |n| n * n);
            assert!(squares.iter().zip(&items).all(|(square, n)| *square == n * n));
            assert_eq!((squares.len(), count.load(Ordering::Relaxed)), (100, 100));
        }
        assert!(map(&[], 2, &|| {}, |n: &u64| *n).is_empty());
    }
}
