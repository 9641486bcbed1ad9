//! The scheduler that is a BPF program, in a guest: `bpf/loader` holds two budgets with the object
//! that is checked in, and is killed; and `maracas run` carries the quickstart out by agents and by
//! the scheduler.

mod elsewhere;
mod memory;

use super::image::Image;
use super::outcome::{Got, Report, Step};
use super::scenario::BROKEN;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the guest does, in the words of `init.sh`, with the quickstart's file. The kernel's own
/// work after its start would count as lateness; the loader's time to load is not known.
pub(super) fn plan(quickstart: &Path) -> String {
    let run = format!("maracas run '{}' --duration {SECONDS}s --json", quickstart.display());
    format!(
        "step settle 30 sleep 5\n\
         step agents 90 {run}\n\
         step kernel 90 {run} --backend sched-ext\n\
         step budgets 90 /bin/maracas-bpf-loader /lab/maracas.bpf.o 5\n\
         step killed 60 sh /lab/killed.sh\n\
         step memory 30 /bin/maracas-bpf-loader memory /lab/maracas.bpf.o 3\n\
         step slots 60 /bin/maracas-bpf-loader slots /lab/maracas.bpf.o\n\
         step elsewhere 30 /bin/maracas-bpf-loader elsewhere /lab/maracas.bpf.o\n\
         step woken 30 /bin/maracas-bpf-loader woken /lab/maracas.bpf.o\n"
    )
}
/// How long the quickstart runs by each, in seconds: one in a hundred periods of the longest, which
/// is of 20 ms, is 15 of them.
pub(super) const SECONDS: f64 = 30.0;
/// How far one in a hundred periods of a VCPU may be off C under the scheduler in the kernel, in
/// us, and how long a dispatch may take at the median: 8 and 10 were measured at most
/// (docs/sched-ext.md), and boots differ.
const ERROR_P99_US: f64 = 10.0;
const DISPATCH_P50_US: f64 = 15.0;
/// What MARACAS may take of the cores under the scheduler in the kernel, of what its agents take in
/// the same boot.
const SHARE: f64 = 0.5;
/// Kills the loader when its scheduler is enabled.
const KILLED: &str = "\
state() { cat /sys/kernel/sched_ext/state; }
until_state() {
    n=0
    while [ $n -lt 200 ] && [ \"$(state)\" != $1 ]; do sleep 0.1; n=$((n + 1)); done
}
maracas-bpf-loader /lab/maracas.bpf.o 60 &
until_state enabled
echo before $(state)
kill -9 $!
until_state disabled
echo after $(state)
";
/// What the loader says of threads without a budget: they wait, run for once when they are tended,
/// end when their VCPU leaves, and the kernel's watchdog is content.
const SAID: [&str; 3] = [
    "without_budget waits true tended true charged_ns 0",
    "killed waits true left_ends true",
    "tended_for_s 25 state enabled",
];
/// What it says where one slot was had by more VCPUs than there are slots.
const SLOT: &str = "slot had_by 1100 served 1100 refused 1100 left 1100";
/// How late a budget may end, in us: at the median, and one in a hundred. The emulator's other core
/// has its turn for 50 us at times.
const END_P50_US: f64 = 5.0;
const END_P99_US: f64 = 60.0;
/// How soon after its instant a budget that was sent ahead begins, in us, one in a hundred.
const START_P99_US: f64 = 20.0;
/// VCPUs of which the loader prints a line: one alone, then two beside others.
const VCPUS: [&str; 3] = ["alone 0", "vcpu 0", "vcpu 1"];

/// What the loader says of threads that belong to no VCPU, and the share of the core that they are
/// to have, at least and at most: 50 ms come two or three times in 3 s.
const SHARES: [(&str, f64, f64); 2] = [("others", 0.09, 0.11), ("without_end_others", 0.03, 0.06)];

/// Builds what loads the object, and says where it is.
///
/// # Errors
/// Where Cargo fails: it needs libelf-dev, zlib1g-dev, pkg-config and make.
fn loader(root: &Path) -> Result<PathBuf, String> {
    eprintln!("lab: cargo build --release, of bpf/loader");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let target = root.join("target");
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(&target)
        .current_dir(root.join("bpf/loader"))
        .status()
        .map_err(|error| format!("cargo does not start: {error}"))?;
    if status.success() {
        Ok(target.join("release/maracas-bpf-loader"))
    } else {
        Err("bpf/loader needs packages libelf-dev, zlib1g-dev, pkg-config and make".into())
    }
}

/// Puts the loader, the object and the script into a guest.
///
/// # Errors
/// Where the loader cannot be built, or `ldd` not be run.
pub(super) fn add(image: &mut Image, root: &Path) -> Result<(), String> {
    image.program(Path::new("/bin/maracas-bpf-loader"), &loader(root)?)?;
    image.file(Path::new("/lab/maracas.bpf.o"), &root.join("bpf/maracas.bpf.o"));
    image.text("/lab/killed.sh", KILLED, 0o644);
    Ok(())
}

/// What the guest delivered, and what is not as expected.
pub(super) fn judge(steps: &[Step]) -> (Option<Report>, Vec<String>) {
    let mut problems = Vec::new();
    let step = |name: &str| steps.iter().find(|step| step.name == name);
    let mut report = None;
    match step("budgets") {
        Some(step) if step.code == Some(0) => {
            let ends: Vec<_> = step.out.lines().filter_map(End::read).collect();
            if ends.len() < VCPUS.len() {
                problems.push(format!("{} of 3 VCPUs are in its report", ends.len()));
            }
            problems.extend(ends.iter().filter_map(End::problem));
            problems.extend(SHARES.iter().filter_map(|share| is_outside(&step.out, *share)));
            problems.extend(SAID.iter().filter_map(|line| is_unsaid(&step.out, line)));
            let got = ends.into_iter().map(|end| end.got).collect();
            report = Some(Report { got, ..Report::default() });
        }
        Some(step) => {
            let last = step.err.lines().rfind(|line| !line.is_empty()).unwrap_or("");
            problems.push(format!("the loader: exit code {:?}: {last}", step.code));
        }
        None => problems.push("the loader was not started".into()),
    }
    problems.extend(memory::problems(step("memory")));
    problems.extend(is_unsaid(step("slots").map_or("", |step| &step.out), SLOT));
    problems.extend(elsewhere::problems(step("elsewhere"), step("woken")));
    let said = step("killed").map_or("", |step| &step.out);
    let reverted = ["before enabled", "after disabled"];
    problems.extend(reverted.iter().filter_map(|line| is_unsaid(said, line)));
    (report, problems)
}

/// What `maracas run` came to with the scheduler in the kernel, beside agents in the same boot, and
/// what is not as expected.
pub(super) fn judge_run(steps: &[Step]) -> (Option<Report>, Vec<String>) {
    let mut problems = Vec::new();
    let [agents, kernel] = ["agents", "kernel"].map(|name| {
        let step = steps.iter().find(|step| step.name == name);
        let report = step.and_then(|step| Report::read(&step.out));
        let code = step.and_then(|step| step.code);
        if report.is_none() || !matches!(code, Some(0 | BROKEN)) {
            let err = step.map_or("", |step| step.err.trim());
            let last = err.lines().next_back().unwrap_or_default();
            problems.push(format!("maracas run by {name}: exit code {code:?}: {last}"));
        }
        report
    });
    let took = |report: &Option<Report>| report.as_ref().and_then(|report| report.agents);
    if let (Some(agents), Some(kernel)) = (took(&agents), took(&kernel))
        && kernel > agents * SHARE
    {
        problems.push(format!("it takes {kernel:.1} % of a core, more than half of {agents:.1} %"));
    }
    let dispatch = kernel.as_ref().map(|report| report.dispatch_p50_us.unwrap_or(f64::INFINITY));
    if let Some(p50_us) = dispatch.filter(|p50_us| *p50_us > DISPATCH_P50_US) {
        problems.push(format!("a dispatch takes {p50_us:.0} us (p50), above {DISPATCH_P50_US} us"));
    }
    for got in kernel.iter().flat_map(|report| &report.got) {
        let (name, p99_us) = (&got.name, got.p99_us.unwrap_or(f64::INFINITY));
        if p99_us > ERROR_P99_US {
            problems.push(format!("{name}: error p99 {p99_us:.0} us, above {ERROR_P99_US} us"));
        }
    }
    (kernel, problems)
}

/// What is wrong where a line is not printed.
fn is_unsaid(out: &str, line: &str) -> Option<String> {
    let is_said = out.lines().any(|it| it == line);
    (!is_said).then(|| format!("the loader: no `{line}` in `{}`", out.trim()))
}

/// What is wrong with a share that the loader prints in a line of its own.
fn is_outside(out: &str, (name, least, most): (&str, f64, f64)) -> Option<String> {
    let own = |line: &str| line.strip_prefix(name)?.split_whitespace().next()?.parse::<f64>().ok();
    match out.lines().find_map(own) {
        Some(share) if (least..=most).contains(&share) => None,
        Some(share) => Some(format!("{name}: {share} of the core, not {least} to {most}")),
        None => Some(format!("{name}: not in the loader's report")),
    }
}

/// What the loader prints of one VCPU: `vcpu 0 delivered/C 1.00000 end_us n 480 p50 0.1 p99 3.2
/// max 3.8`, and of the first also `start_us` with the same figures.
struct End {
    got: Got,
    p99_us: f64,
    start_p99_us: Option<f64>,
}

impl End {
    fn read(line: &str) -> Option<Self> {
        let name = VCPUS.into_iter().find(|name| line.starts_with(name))?;
        let after = |part: &str, name: &str| {
            let mut words = part.split(' ');
            words.find(|word| *word == name)?;
            words.next()?.parse::<f64>().ok()
        };
        let (ends, starts) = line.split_once("start_us").unwrap_or((line, ""));
        let got = Got {
            name: name.replace(' ', ""),
            delivered: after(ends, "delivered/C")?,
            p50_us: after(ends, "p50")?,
            p99_us: None,
        };
        Some(Self { got, p99_us: after(ends, "p99")?, start_p99_us: after(starts, "p99") })
    }

    fn problem(&self) -> Option<String> {
        let Got { name, p50_us, .. } = &self.got;
        let (p99_us, start_us) = (self.p99_us, self.start_p99_us);
        if p50_us.abs() > END_P50_US || p99_us > END_P99_US {
            return Some(format!(
                "{name}: budgets end {p50_us} us late, p99 {p99_us} us, of {END_P50_US} and \
                 {END_P99_US} us"
            ));
        }
        let late = start_us.filter(|start_us| *start_us > START_P99_US)?;
        Some(format!("{name}: budgets begin up to {late} us late (p99), of {START_P99_US} us"))
    }
}

#[cfg(test)]
mod tests {
    use super::{SAID, Step, judge, judge_run};

    fn steps(budgets: &str, code: i32, killed: &str) -> Vec<Step> {
        let step = |name: &str, out: &str, code| Step {
            name: name.into(),
            out: out.into(),
            code: Some(code),
            ..Step::default()
        };
        let memory = step("memory", super::memory::WELL, 0);
        let slots = step("slots", super::SLOT, 0);
        let [elsewhere, woken] = super::elsewhere::WELL;
        let [elsewhere, woken] =
            [("elsewhere", elsewhere), ("woken", woken)].map(|(name, out)| step(name, out, 0));
        let (budgets, killed) = (step("budgets", budgets, code), step("killed", killed, 0));
        vec![budgets, killed, memory, slots, elsewhere, woken]
    }

    #[test]
    fn budgets_that_end_late_and_a_scheduler_that_stays_are_problems() {
        let line = |vcpu: &str, p50: &str, p99: &str| {
            format!("{vcpu} delivered/C 1.00001 end_us n 480 p50 {p50} p99 {p99} max 9.0\n")
        };
        let start = " start_us n 479 p50 0.3 p99 4.0 max 5.0\n";
        let shares = "others 0.0996 background 0.4674\nmargin_us 9.0\nwithout_end_others 0.0500\n";
        let alone = line("alone 0", "0.0", "1.0").replace('\n', start);
        let ends = [&alone, &line("vcpu 0", "-0.2", "3.3"), &line("vcpu 1", "0.1", "39.0")];
        let ends = ends.map(String::as_str).concat();
        let said = SAID.join("\n");
        let shares = &format!("{shares}{said}\n");
        let well = format!("load_ms 800.0\n{ends}{shares}");
        let reverted = "before enabled\nafter disabled\n";
        let (report, problems) = judge(&steps(&well, 0, reverted));
        assert!(problems.is_empty(), "{problems:?}");
        let got = report.unwrap().got;
        assert_eq!((got.len(), got[1].name.as_str(), got[1].p50_us), (3, "vcpu0", -0.2));
        assert!((got[2].delivered - 1.00001).abs() < 1e-9);

        let late: [&str; 4] =
            [&alone, &line("vcpu 0", "9.8", "11.0"), &line("vcpu 1", "0.0", "80.0"), shares];
        assert_eq!(judge(&steps(&late.concat(), 0, reverted)).1.len(), 2);
        let begins_late = well.replace("p99 4.0", "p99 140.0");
        assert_eq!(judge(&steps(&begins_late, 0, reverted)).1.len(), 1);
        assert_eq!(judge(&steps(&(alone + shares), 0, reverted)).1.len(), 1);
        assert_eq!(judge(&steps(&(ends + &said), 0, reverted)).1.len(), 2, "nothing of shares");
        let ended = well.replace("state enabled", "state disabled");
        assert_eq!(judge(&steps(&ended, 0, reverted)).1.len(), 1);
        let starved = well.replace("others 0.0500", "others 0.0001");
        assert_eq!(judge(&steps(&starved, 0, reverted)).1.len(), 1);
        assert_eq!(judge(&steps("", 1, reverted)).1.len(), 1);
        assert_eq!(judge(&steps(&well, 0, "before enabled\nafter enabled\n")).1.len(), 1);
        assert_eq!(judge(&[]).1.len(), 9);
    }

    #[test]
    fn a_run_by_either_without_its_report_and_one_that_takes_too_much_are_problems() {
        let step = |name: &str, code, agents_ns: u64, p99_ns: u64| Step {
            name: name.into(),
            out: format!(
                r#"{{"duration_ns": 5000000000, "agents_ns": {agents_ns},
                    "dispatch": {{"latency_p50_ns": {}}}, "tasks": [{{"name": "a",
                    "budget_ns": 100, "delivered": {{"mean_ns": 100, "error_p50_ns": 0,
                    "error_p99_ns": {p99_ns}}}}}]}}"#,
                p99_ns * 2,
            ),
            code: Some(code),
            ..Step::default()
        };
        let agents = step("agents", 4, 400_000_000, 90_000);
        let ran = |code, ns, p99| judge_run(&[agents.clone(), step("kernel", code, ns, p99)]);
        let (report, problems) = ran(0, 150_000_000, 4_000);
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!(report.and_then(|report| report.agents), Some(3.0));
        assert_eq!(ran(0, 250_000_000, 4_000).1.len(), 1, "more than half");
        assert_eq!(ran(0, 150_000_000, 9_000).1.len(), 1, "dispatches too long");
        assert_eq!(ran(0, 150_000_000, 11_000).1.len(), 2, "periods too far off, too");
        assert_eq!(ran(1, 150_000_000, 4_000).1.len(), 1);
        assert_eq!(judge_run(&[]).1.len(), 2);
    }
}
