use super::*;
use maracas_core::CoreId;
use maracas_core::control::{Frames, Message, Reply, Request, VERSION};
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, channel};
use std::{fs, thread};

/// A runtime that answers requests, but for the hello, by a function of the test.
struct Runtime {
    socket: PathBuf,
    /// What it was asked.
    asked: Receiver<Request>,
}

impl Runtime {
    fn start(name: &str, answer: fn(&Request) -> Reply) -> Self {
        let name = format!("maracas-own-{name}-{}.sock", std::process::id());
        let socket = env::temp_dir().join(name);
        let listener = UnixListener::bind(&socket).unwrap();
        let (tell, asked) = channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let tell = tell.clone();
                thread::spawn(move || {
                    serve(stream.unwrap(), |request| {
                        let reply = answer(&request);
                        tell.send(request).unwrap();
                        reply
                    })
                });
            }
        });
        Self { socket, asked }
    }

    fn connect(&self) -> Connection {
        Connection::open_at(&self.socket).unwrap()
    }

    /// What it was asked since the last time, in order.
    fn asked(&self) -> Vec<Request> {
        self.asked.try_iter().collect()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(mut stream: UnixStream, answer: impl Fn(Request) -> Reply) {
    let (mut frames, mut piece) = (Frames::new(), [0; 512]);
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        frames.extend(&piece[..length]);
        while let Some(request) = frames.take::<Request>().unwrap() {
            let reply = if let Request::Hello { .. } = request {
                Reply::Hello { version: VERSION, pid: 7, policy: "p".into(), origin: 0 }
            } else {
                answer(request)
            };
            let mut frame = Vec::new();
            reply.write(&mut frame).unwrap();
            let _ = stream.write_all(&frame);
        }
    }
}

/// Creates VCPU 3, and destroys it; there are no VCPUs and no jobs.
fn willing(request: &Request) -> Reply {
    match request {
        Request::Create(_) => Reply::Created { vcpu: VcpuId(3), core: CoreId(0) },
        Request::Destroy { .. } => Reply::Done,
        Request::List => Reply::Vcpus(Vec::new()),
        Request::Hello { .. }
        | Request::Set { .. }
        | Request::Jobs { .. }
        | Request::JobDone { .. }
        | Request::Gauges => Reply::Error("not here".into()),
    }
}

/// As [`willing`], but destroys nothing.
fn reluctant(request: &Request) -> Reply {
    match request {
        Request::Destroy { .. } | Request::List => Reply::Error("later".into()),
        Request::Create(_)
        | Request::Hello { .. }
        | Request::Set { .. }
        | Request::Jobs { .. }
        | Request::JobDone { .. }
        | Request::Gauges => willing(request),
    }
}

/// As [`willing`], but knows no VCPU any more.
fn forgetful(request: &Request) -> Reply {
    match request {
        Request::Destroy { .. } => Reply::Error("v3 is not there".into()),
        Request::Create(_)
        | Request::Hello { .. }
        | Request::Set { .. }
        | Request::Jobs { .. }
        | Request::JobDone { .. }
        | Request::List
        | Request::Gauges => willing(request),
    }
}

const DESTROYED: Request = Request::Destroy { vcpu: VcpuId(3) };

fn vcpu() -> Vcpu {
    Vcpu::new(0, Duration::from_millis(2), Duration::from_millis(10))
}

fn said(error: &Error) -> String {
    error.to_string()
}

#[test]
fn calls_out_of_turn_say_what_is_missing() {
    assert!(said(&vcpu_destroy().unwrap_err()).contains("created no VCPU"));
    assert!(said(&job_done().unwrap_err()).contains("no job was begun"));
    assert!(said(&given(None).unwrap_err()).contains("create a task"));
    let created = Created { vcpu: VcpuId(1), socket: PathBuf::new() };
    assert!(said(&given(Some(&created)).unwrap_err()).contains("as a task"));
    assert_eq!(mode(), Mode::Background, "tests run as ordinary threads");
}

#[test]
fn a_vcpu_is_destroyed_in_the_run_that_created_it_and_by_its_process_alone() {
    let runtime = Runtime::start("destroy", willing);
    with_own(|own| own.create(runtime.connect(), "", vcpu())).unwrap();
    assert_eq!(runtime.asked().len(), 1, "created");
    let mut status = 0;
    // SAFETY: the child returns to nothing of the test.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(10);
            let error = vcpu_destroy().err().map(|error| said(&error));
            libc::_exit(i32::from(error != Some(said(&NO_VCPU))));
        }
        libc::waitpid(child, &raw mut status, 0);
    }
    assert_eq!((status, runtime.asked()), (0, vec![]), "the child has none");
    // No variable names this run, and it is not where runs are looked for.
    vcpu_destroy().unwrap();
    assert_eq!(runtime.asked(), [DESTROYED]);
    assert!(said(&vcpu_destroy().unwrap_err()).contains("created no VCPU"));
}

#[test]
fn a_vcpu_that_could_not_be_destroyed_is_kept_until_it_is_gone() {
    let runtime = Runtime::start("keep", reluctant);
    let mut own = Own::default();
    own.create(runtime.connect(), "", vcpu()).unwrap();
    assert_eq!(said(&own.destroy().unwrap_err()), "later");
    assert!(own.vcpu.is_some(), "the runtime may do it the next time");
    drop(runtime);
    assert!(own.destroy().is_err());
    assert!(own.vcpu.is_none(), "the run has ended");

    let runtime = Runtime::start("forget", forgetful);
    own.create(runtime.connect(), "", vcpu()).unwrap();
    assert!(own.destroy().is_err());
    assert!(own.vcpu.is_none(), "another has destroyed it");
}

#[test]
fn a_task_that_gets_no_jobs_is_destroyed_again() {
    let runtime = Runtime::start("jobs", willing);
    let mut own = Own::default();
    let error = own.create(runtime.connect(), "", vcpu().periodic()).unwrap_err();
    assert_eq!(said(&error), "not here");
    assert!(own.vcpu.is_none());
    assert_eq!(runtime.asked().last(), Some(&DESTROYED));
}
