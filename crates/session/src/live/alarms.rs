//! What breaks promises, said when it happens: one line on standard error.

use maracas_core::Instant;
use maracas_core::journal::Note;
use maracas_trace::table::time;

/// How many kinds of notes there are of which there is a line.
const KINDS: usize = 3;

/// Between two lines of one kind: a core that is stuck, or a hypervisor that is busy, has hundreds.
const PAUSE_NS: u64 = 1_000_000_000;

/// Less late is a matter for the report: a twentieth of a budget of 20 ms.
const WORTH_A_LINE_NS: u64 = 1_000_000;

/// Makes lines of notes, at most one a second of each kind.
#[derive(Default)]
pub(super) struct Alarms {
    /// When there was one last, by the run's clock.
    last: [Option<Instant>; KINDS],
}

impl Alarms {
    /// The line about one note, where there is to be one.
    pub(super) fn line(&mut self, at: Instant, note: &Note) -> Option<String> {
        let (kind, line) = said(at, note)?;
        let last = &mut self.last[kind];
        if last.is_some_and(|last| at.saturating_since(last).ticks() < PAUSE_NS) {
            return None;
        }
        *last = Some(at);
        Some(line)
    }
}

/// Which kind of note it is, and its line; `None` where there is none.
fn said(at: Instant, note: &Note) -> Option<(usize, String)> {
    let shown = |ns: u64| time(ns as f64);
    let seconds = at.ticks() as f64 / 1e9;
    if let Note::Late { core, late_ns, stolen_ns, .. } = note {
        let (late, stolen) = (shown(*late_ns), shown(*stolen_ns));
        let line = format!("{core}: agent {late} late at {seconds:.3} s (stolen {stolen})");
        (*late_ns >= WORTH_A_LINE_NS).then_some((0, line))
    } else if let Note::Relief { core, by, stuck_ns } = note {
        let (by, stuck) = (by.word(), shown(*stuck_ns));
        Some((1, format!("{core}: stuck for {stuck}, relieved by the {by} at {seconds:.3} s")))
    } else if let Note::KeptOff { core, took_ns } = note {
        let took = shown(*took_ns);
        let line = format!("{core}: the kernel kept the agent off for {took} at {seconds:.3} s");
        Some((2, line))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_ticks(at * 1_000_000)
    }

    fn note(key: &str, text: &str) -> Note {
        Note::read(key.into(), None, text.into())
    }

    #[test]
    fn one_line_a_second_of_each_kind() {
        let mut alarms = Alarms::default();
        let mut line = |at, key, text| alarms.line(ms(at), &note(key, text));
        let first = line(4_512, "late", "1 12300000 12000000");
        assert_eq!(first.as_deref(), Some("core1: agent 12.3ms late at 4.512 s (stolen 12ms)"));
        assert_eq!(line(5_500, "late", "0 2000000 0"), None, "too soon");
        assert_eq!(line(5_600, "late", "0 999999 0"), None, "too short");
        let relief = line(5_501, "relief", "0 guardian 300000000");
        let expected = "core0: stuck for 300ms, relieved by the guardian at 5.501 s";
        assert_eq!(relief.as_deref(), Some(expected));
        let other = line(5_512, "late", "0 2000000 0");
        assert_eq!(other.as_deref(), Some("core0: agent 2ms late at 5.512 s (stolen 0)"));
        let throttled = line(5_512, "rt-throttle", "1 50000000");
        let expected = "core1: the kernel kept the agent off for 50ms at 5.512 s";
        assert_eq!(throttled.as_deref(), Some(expected));
    }

    #[test]
    fn other_notes_and_other_forms_have_no_line() {
        let mut alarms = Alarms::default();
        for (key, text) in [
            ("dispatch", "1 3000"),
            ("late", ""),
            ("late", "1"),
            ("late", "1 2 x"),
            ("relief", "x guardian 3"),
            ("rt-throttle", "0"),
        ] {
            assert_eq!(alarms.line(ms(1), &note(key, text)), None, "{key} {text}");
        }
        // What was of another form does not keep the next one back.
        assert!(alarms.line(ms(1), &note("late", "1 2000000 0")).is_some());
    }
}
