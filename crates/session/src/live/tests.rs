//! What becomes of a live run's journal, without a run: that of a simulation, piece by piece.

use super::*;
use crate::case::{Machine as Kind, Overrides};
use crate::observe::Watch;
use crate::simulation::{options, simulate};

const SCENARIO: &str = "version = 1\n[platform]\ncores = 1\n[policy]\nname = \"maracas\"\n\
                        [run]\nduration = \"20s\"\n[[program]]\nname = \"a\"\nbudget = \"2ms\"\n\
                        period = \"10ms\"\nworkload = { kind = \"busy\" }\n";

#[test]
fn a_full_disk_takes_neither_the_report_nor_the_other_files() {
    let directory = std::env::temp_dir().join(format!("maracas-stream-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("s.toml");
    std::fs::write(&file, SCENARIO).unwrap();
    let case = Case::read(&file, Kind::Sim, &Overrides::default()).unwrap();
    let simulated = simulate(&case, &options(&case, None), Watch::keeping(&case)).unwrap();
    let manner = Manner { talks: false, warns: false, strict: false };
    for full in ["journal", "trace"] {
        let open = |what: &str| {
            let path = directory.join(what);
            let path = if what == full { Path::new("/dev/full") } else { &path };
            Pending::create(path).ok()
        };
        let files = Files { journal: open("journal"), trace: open("trace"), drawn: None };
        let mut stream = Stream::new(&case, files, manner, Board::default());
        stream.take(&simulated.journal);
        assert!(stream.kept.journal.is_none() || stream.trace.is_none(), "{full}: known by now");
        let (report, unwritten) = stream.finish(Instant::ZERO, &[], &Run::default());
        assert_eq!(report.tasks, simulated.report.tasks, "{full}");
        let failure = unwritten.answer(&report).unwrap_err();
        let says = format!("{failure:?}");
        assert!(says.contains("/dev/full: cannot be written: No space left"), "{says}");
        let other = directory.join(if full == "trace" { "journal" } else { "trace" });
        assert!(std::fs::metadata(&other).unwrap().len() > 10_000, "{full}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
