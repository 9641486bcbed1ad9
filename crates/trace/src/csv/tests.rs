use super::*;
use crate::testkit::{Background, Blocked, Foreground, Metered, Story, figure, uneven, vcpu};
use maracas_core::admission::NotAdmitted;
use maracas_core::contract::{Event, Usage};
use maracas_core::{CoreId, Duration};

fn text(list: impl FnOnce(&mut Vec<u8>) -> Result<(), TraceError>) -> String {
    let mut out = Vec::new();
    list(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn jobs_and_pieces() {
    let mut story = figure();
    // A job that is under way at the end, of a VCPU whose name needs quotes.
    story.named(1, "sort,\"fast\"").released(1, 2, 21_000, 31_000);
    story.ran((1, 0, Foreground), (22_000, 24_000), Metered);
    let journal = story.journal(24_000);
    let head = "task,job,period_ns,response_ns,miss,lateness_ns,tardiness_ns,forced,acet_ns,\
                release_ns,deadline_ns,completed_ns,pieces,cores\n";
    let jobs = "\
\"sort,\"\"fast\"\"\",0,10000,5000,0,-5000,0,0,3000,0,10000,5000,2,1 0
\"sort,\"\"fast\"\"\",1,10000,11000,1,1000,1000,0,11000,10000,20000,21000,1,1
\"sort,\"\"fast\"\"\",2,10000,3000,0,-7000,0,0,2000,21000,31000,,1,0
";
    // Names hold from where they are given on; here that is before the first job was over.
    let listed = text(|out| super::jobs(&journal, out));
    assert_eq!(listed.replace("\nsort,0", "\n\"sort,\"\"fast\"\"\",0"), format!("{head}{jobs}"));
    let pieces = text(|out| super::pieces(&figure().journal(24_000), out));
    let expected = "\
task,job,core,mode,from_ns,to_ns,service_ns
sort,0,1,foreground,0,2000,2000
sort,0,0,foreground,4000,5000,1000
sort,1,1,foreground,10000,21000,11000
";
    assert_eq!(pieces, expected);
    let samples = text(|out| super::samples(&figure().journal(24_000), out));
    let expected = "\
time_ns,requests,occupancy,latency_cycles,requests_core0,requests_core1
8000,40,90,2.25,40,0
";
    assert_eq!(samples, expected);
}

/// What was asked for and refused is no one's period.
#[test]
fn a_period_changes_when_that_is_granted() {
    let refusal = NotAdmitted { reason: "it is full".into(), closest: None };
    for (verdict, period) in [(Ok(CoreId(0)), 20), (Err(refusal), 10)] {
        let mut story = Story::new(1, vec![vcpu(0, 4, 10)]);
        story.event(0, Event::Changed(vcpu(0, 9, 20)));
        story.planned(0, |plan| plan.answer(VcpuId(0), verdict));
        story.released(0, 0, 0, 10).ran((0, 0, Foreground), (0, 4), Blocked).completed(0, 0, 4);
        let listed = text(|out| super::jobs(&story.journal(20), out));
        let row = listed.lines().nth(1).unwrap();
        assert_eq!(row.split(',').nth(2), Some(&*period.to_string()), "{listed}");
    }
}

#[test]
fn speeds_window_by_window() {
    let mut story = uneven();
    let usage = Usage { service: Duration::from_millis(600), instructions: 7, ..Usage::default() };
    story.ran_with((1, 1, Background), (1_900_000_000, 2_500_000_000), usage, Blocked);
    story.named(2, "hog");
    let listed = text(|out| super::speeds(&story.journal(3_000_000_000), out));
    let expected = "\
from_ns,to_ns,task,wanted_ns,fast_ns,fast_instructions,slow_ns,slow_instructions
0,2000000000,spin,2000000000,1000000000,2000000000,700000000,875000000
0,2000000000,sort,2000000000,0,0,700000000,600000001
0,2000000000,hog,2000000000,1000000000,1500,700000000,700
2000000000,3000000000,spin,1000000000,0,0,0,0
2000000000,3000000000,sort,500000000,0,0,500000000,6
2000000000,3000000000,hog,1000000000,0,0,0,0
";
    assert_eq!(listed, expected);
    let even = text(|out| super::speeds(&figure().journal(24_000), out));
    assert_eq!(even, "from_ns,to_ns,task,wanted_ns\n");
}

#[test]
fn an_unwritable_output_is_reported() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let journal = figure().journal(24_000);
    assert!(matches!(jobs(&journal, Full), Err(TraceError::Io(_))));
    assert!(matches!(crate::perfetto::from_journal(&journal, Full), Err(TraceError::Io(_))));
    assert!(matches!(jobs(&journal[..40], Vec::new()), Err(TraceError::Journal(_))));
}
