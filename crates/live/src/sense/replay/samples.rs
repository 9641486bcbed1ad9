//! The samples in a journal as a recording.

use super::{Track, Wrong, check_cores};
use maracas_core::journal::{Reader, Record};
use maracas_core::{Event, Instant};

pub(super) fn parse(bytes: &[u8], cores: usize) -> Result<Track, Wrong> {
    let wrong = |what: String| Wrong { line: None, what };
    let (header, records) = Reader::open(bytes).map_err(|why| wrong(why.to_string()))?;
    let mut track = Track::default();
    for record in records {
        match record.map_err(|why| wrong(why.to_string()))? {
            Record::Event { at, event: Event::Sampled(sample) } => {
                check_cores(sample.by_core.len(), cores).map_err(wrong)?;
                let at = Instant::from_ticks(at.ticks() / header.system.ticks_per_ns);
                let all = [sample.requests, sample.occupancy];
                let counted: Vec<_> = all.into_iter().chain(sample.by_core).collect();
                track.push(at, &counted).map_err(wrong)?;
            }
            Record::Gap(lost) => {
                let what = format!("{lost} records were lost in it, and samples perhaps with them");
                return Err(wrong(what));
            }
            Record::Event { .. } | Record::Planned(_) | Record::Note { .. } | Record::End(_) => {}
        }
    }
    if track.rows.is_empty() {
        let policy = header.policy;
        let what = format!("has no samples of memory; its policy {policy} never asked for one");
        return Err(wrong(what));
    }
    Ok(track)
}
