//! A real program that is recoloured while it runs, by the means of `maracas run`: it is started
//! with the library preloaded and without any rights, and gets its orders from a page.

use super::{is_right, look};
use maracas_client::color::{ColorSet, Report, preload_path};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_core::VcpuId;
use maracas_live::colors::{ColorPage, Done};
use maracas_work::hash;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

/// Bytes that the program hashes, and words in which its threads count.
const BYTES: usize = 16 << 20;
const COUNTERS: usize = 1 << 18;
/// How often the colours change.
const ORDERS: usize = 6;
/// How long the program may take to attach, and to carry an order out.
const PATIENCE: Duration = Duration::from_secs(30);
/// Frames and threads are looked at so often.
const PAUSE: Duration = Duration::from_millis(2);

/// What came of all orders.
pub(super) struct Orders {
    pub(super) library: String,
    pub(super) before: String,
    /// One entry an order.
    pub(super) each: Vec<Order>,
}

/// What came of one.
pub(super) struct Order {
    pub(super) set: ColorSet,
    pub(super) done: Done,
    /// From the order to its end, as the runtime saw it.
    pub(super) took: Duration,
    /// The program's memory, looked at from outside.
    pub(super) report: Report,
    /// What the program hashes now.
    pub(super) hash: String,
    /// How much its threads counted meanwhile.
    pub(super) counted: u64,
}

impl Orders {
    /// Whether the content never changed and every order was carried out.
    pub(super) fn hold(&self) -> bool {
        self.each.iter().all(|order| {
            order.hash == self.before && order.done.error == 0 && is_right(&order.report)
        })
    }
}

/// Starts the program and orders it from one half of the colours to the other, and back.
pub(super) fn order(colors: u32) -> Result<Orders, Failure> {
    let library = preload_path().ok_or_else(|| {
        Failure::new("libmaracas_client.so is not beside this program; build maracas-client")
    })?;
    let page = |error: io::Error| Failure::about("the page of orders", error);
    let mut page_of_orders = ColorPage::create(VcpuId(0), None).map_err(page)?;
    let mut program = Program::start(&library, &page_of_orders)?;
    wait("the program did not attach", || page_of_orders.attached() > 0)?;
    let first = program.ask()?;
    let half = u64::MAX >> (64 - colors) >> (colors / 2);
    let (mut each, mut counted) = (Vec::new(), first.counted);
    for turn in 0..ORDERS {
        let mask = if turn % 2 == 0 { half } else { half << (colors / 2) };
        let set = ColorSet::new(mask, colors).map_err(Failure::new)?;
        let began = Instant::now();
        page_of_orders.order(mask, colors).map_err(page)?;
        wait("the order was not carried out", || page_of_orders.finished().is_some())?;
        let took = began.elapsed();
        let done = page_of_orders.finished().unwrap_or_default();
        let report = look(program.child.id(), first.memory.clone(), set)?;
        let now = program.ask()?;
        let (hash, more) = (now.hash, now.counted.saturating_sub(counted));
        counted = now.counted;
        each.push(Order { set, done, took, report, hash, counted: more });
    }
    let library = library.display().to_string();
    Ok(Orders { library, before: first.hash, each })
}

fn wait(otherwise: &str, holds: impl Fn() -> bool) -> Result<(), Failure> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > PATIENCE {
            return Err(Failure::new(format!("{otherwise} within {} s", PATIENCE.as_secs())));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// What the program says of itself.
struct Answered {
    memory: Range<usize>,
    hash: String,
    counted: u64,
}

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(library: &std::path::Path, page: &ColorPage) -> Result<Self, Failure> {
        let fail = |error: io::Error| Failure::about("the program cannot be started", error);
        let own = std::env::current_exe().map_err(fail)?;
        let mut command = Command::new(own);
        let (name, path) = page.variable();
        command.args(["bench", "colors", "--program"]).env("LD_PRELOAD", library).env(name, path);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // As `maracas run` leaves none that matters here: what the program gets to see it gets from
        // the runtime.
        maracas_live::host::rights::start_without_any(&mut command);
        let mut child = command.spawn().map_err(fail)?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.ok_or_else(|| Failure::new("the program has no pipes"))?;
        Ok(Self { child, input, output: BufReader::new(output) })
    }

    fn ask(&mut self) -> Result<Answered, Failure> {
        let fail = |error: io::Error| Failure::about("the program", error);
        self.input.write_all(b"?\n").map_err(fail)?;
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(fail)?;
        let words: Vec<_> = line.split_whitespace().collect();
        let parsed = match words[..] {
            [start, hash, counted] => {
                start.parse::<usize>().ok().zip(counted.parse().ok()).map(|(start, counted)| {
                    let (memory, hash) = (start..start + BYTES, hash.to_string());
                    Answered { memory, hash, counted }
                })
            }
            _ => None,
        };
        parsed.ok_or_else(|| Failure::new(format!("the program ended, or said: {line}")))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is that program: memory with a pattern, threads that count in other memory, and an answer for
/// each line of input. A count that got lost is printed instead of a hash.
pub(super) fn be() -> Outcome {
    let pattern: Vec<u64> =
        (0..BYTES as u64 / 8).map(|word| word.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let counters: Vec<AtomicU64> = (0..COUNTERS).map(|_| AtomicU64::new(0)).collect();
    let (over, wrong) = (AtomicBool::new(false), AtomicBool::new(false));
    let counted = AtomicU64::new(0);
    thread::scope(|scope| {
        // Each thread has its half, and must find there what it left.
        for half in counters.chunks(COUNTERS / 2) {
            let (over, wrong, counted) = (&over, &wrong, &counted);
            scope.spawn(move || {
                let mut round = 0;
                while !over.load(Ordering::Relaxed) {
                    let lost = half
                        .iter()
                        .filter(|word| word.fetch_add(1, Ordering::Relaxed) != round)
                        .count();
                    wrong.fetch_or(lost > 0, Ordering::Relaxed);
                    counted.fetch_add(half.len() as u64, Ordering::Relaxed);
                    round += 1;
                }
            });
        }
        let result = io::stdin().lines().map_while(Result::ok).try_for_each(|_| {
            let hash = match wrong.load(Ordering::Relaxed) {
                true => "a-count-was-lost".to_string(),
                false => format!("{:016x}", hash(&pattern)),
            };
            let start = pattern.as_ptr() as usize;
            output::line(&format!("{start} {hash} {}", counted.load(Ordering::Relaxed)))
        });
        over.store(true, Ordering::Relaxed);
        result.map(|()| Answer::Yes)
    })
}
