//! A running system is asked and changed from another thread, under the policy `maracas`.

use crate::support::bounds::rite;
use crate::support::witness::repeated;
use crate::support::{SPIN, able, machine, setup, shell, system, turn};
use maracas_core::params::{Params, Value};
use maracas_core::{Duration, Reservation, Vcpu, VcpuId};
use maracas_live::machine::{Members, Refusal};
use maracas_live::{Handle, Means};
use std::panic::AssertUnwindSafe;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time;

fn spinning_client() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", SPIN]).stdout(Stdio::null());
    command.spawn().expect("sh starts")
}

fn policy_of(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    // Fields 40 and 41 of proc_pid_stat(5): real-time priority and policy.
    fields.get(37..39).map(|pair| pair.join(" ")).unwrap_or_default()
}

/// What a user does meanwhile.
fn converse(handle: &Handle, client: u32) -> Result<(), Refusal> {
    let ms = Duration::from_millis;
    let members = Members { pid: client as i32, tids: vec![client as i32], held: None };
    sleep(time::Duration::from_millis(500));
    let begun = time::Instant::now();
    let (id, _) = handle.create("guest", Vcpu::new(0, ms(3), ms(10)), &members)?;
    assert_eq!(id, VcpuId(1), "the next number, whatever was asked for");
    sleep(time::Duration::from_millis(1_000));
    let list = handle.list()?;
    let guest = list.iter().find(|status| status.id == id).expect("the guest is listed");
    assert_eq!((guest.name.as_str(), guest.threads), ("guest", 1));
    let share = guest.foreground.ticks() as f64 / begun.elapsed().as_nanos() as f64;
    assert!((0.25..0.35).contains(&share), "{share} of the time in the foreground at 3/10");
    let too_much = handle.create("greedy", Vcpu::new(0, ms(9), ms(10)), &members);
    assert!(matches!(too_much, Err(Refusal::NotAdmitted(_))), "{too_much:?}");
    handle.set(id, Reservation::implicit(ms(1), ms(10)))?;
    let (begun, before) = (time::Instant::now(), handle.list()?[1].foreground);
    sleep(time::Duration::from_millis(1_000));
    let after = handle.list()?[1].foreground;
    let share = (after - before).ticks() as f64 / begun.elapsed().as_nanos() as f64;
    assert!((0.08..0.13).contains(&share), "{share} of the time in the foreground at 1/10");
    assert_eq!(
        handle.set(VcpuId(99), Reservation::implicit(ms(1), ms(10))).unwrap_err(),
        Refusal::Unknown(VcpuId(99))
    );
    handle.destroy(id)?;
    assert_eq!(policy_of(client), "0 0", "ordinary scheduling again");
    assert_eq!(handle.list()?.len(), 1);
    Ok(())
}

#[test]
fn a_foreign_thread_gets_a_vcpu_and_goes_free_again() {
    repeated(|| {
        let _turn = turn(Duration::from_secs(4));
        if !able(Means::FULL, 1) {
            return;
        }
        let system = system(1, &[(2_000, 10_000, 0)]);
        let mut params = Params::new();
        params.set("background", Value::Text("fair".into()));
        let entry = maracas_policies::find("maracas").expect("the policy is registered");
        let policy = (entry.build)(&system, &params).map_err(|why| format!("{why:?}"));
        let setup = setup(&system, vec![shell(0, SPIN)], 60);
        let machine = machine(setup, Means::FULL, policy.expect("it is admitted"));
        let machine = machine.unwrap_or_else(|error| panic!("{error}"));
        let stop = machine.handle();
        let _rite = rite(move |_| stop.stop());
        let mut client = spinning_client();
        let (handle, pid) = (machine.handle(), client.id());
        let (conversation, outcome) = std::thread::scope(|scope| {
            let conversation = scope.spawn(move || {
                let result = std::panic::catch_unwind(AssertUnwindSafe(|| converse(&handle, pid)));
                handle.stop();
                result
            });
            let outcome = machine.run(|_| ());
            (conversation.join(), outcome)
        });
        client.kill().expect("the client still lives");
        client.wait().expect("the client ends");
        let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(outcome.trouble, [""; 0]);
        let said = conversation.expect("the thread ends").expect("all assertions hold");
        assert_eq!(said, Ok(()));
    });
}
