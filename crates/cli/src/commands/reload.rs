//! `maracas reload`: brings the budgets of a changed scenario into the run that it started.

use maracas_client::{Connection, Error, Reservation, VcpuId, VcpuState};
use maracas_console::failure::{Answer, Failure, Outcome};
use maracas_console::output;
use maracas_scenario::Scenario;
use std::path::PathBuf;

/// Change a running system to the budgets, periods and deadlines of its changed scenario
///
/// All of them or, where one is refused, none: then it exits 1. Programs are neither started nor
/// ended, and what else changed in the file counts from the next start on. `systemctl reload` calls
/// it.
///
/// Example: maracas reload /etc/maracas/camera.toml
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// The run that is meant, by its process, where several are alive
    #[arg(long, value_name = "PID")]
    run: Option<u32>,
}

/// One VCPU that gets another reservation.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Change {
    vcpu: VcpuId,
    name: String,
    from: Reservation,
    to: Reservation,
}

/// What has to change in a system of these VCPUs for it to be as the file says. What makes room
/// comes before what takes it.
///
/// # Errors
/// One sentence that names the VCPU of the file that cannot be brought about.
fn changes(wanted: &[(&str, Reservation)], running: &[VcpuState]) -> Result<Vec<Change>, String> {
    let mut changes = Vec::new();
    for (name, to) in wanted {
        let Some(state) = running.iter().find(|state| state.name == *name) else {
            return Err(format!(
                "{name} is in the file and does not run now: a reload starts no programs; restart \
                 the run"
            ));
        };
        let from = state.reservation;
        if to.is_none() && !from.is_none() {
            return Err(format!(
                "{name} has no budget in the file and {}/{} now: a reload takes no reservation \
                 away; restart the run",
                from.budget, from.period
            ));
        }
        if from != *to {
            changes.push(Change { vcpu: state.vcpu, name: (*name).into(), from, to: *to });
        }
    }
    changes.sort_by_key(|change| grows(change.from, change.to));
    Ok(changes)
}

/// Whether the second takes more of a core than the first.
fn grows(from: Reservation, to: Reservation) -> bool {
    let product = |a: Reservation, b: Reservation| {
        u128::from(a.budget.ticks()) * u128::from(b.period.ticks())
    };
    from.is_none() || product(to, from) > product(from, to)
}

pub(super) fn run(args: &Args) -> Outcome {
    let scenario = Scenario::read(&args.file).map_err(Failure::new)?;
    let wanted: Vec<_> =
        scenario.vcpus.iter().map(|spec| (spec.name.as_str(), spec.vcpu.reservation)).collect();
    let mut connection = super::vcpu::connect(args.run)?;
    let running = connection.list().map_err(Failure::new)?;
    let refused = |why: String| Failure::about(args.file.display(), why);
    let changes = changes(&wanted, &running).map_err(refused)?;
    if let Err((name, why)) = apply(&mut connection, &changes) {
        output::note(&format!("{name}: {why}; nothing was changed"));
        return Ok(Answer::No);
    }
    let told = |r: Reservation| format!("{}/{}", r.budget, r.period);
    for Change { name, from, to, .. } in &changes {
        output::line(&format!("{name}: {} -> {}", told(*from), told(*to)))?;
    }
    if changes.is_empty() {
        output::line("nothing to change")?;
    }
    Ok(Answer::Yes)
}

/// Carries out all changes; where one is refused those before it are taken back, the last first, so
/// that each meets the system in which it was admitted.
fn apply(connection: &mut Connection, changes: &[Change]) -> Result<(), (String, Error)> {
    for (done, change) in changes.iter().enumerate() {
        if let Err(why) = connection.set(change.vcpu, change.to) {
            for back in changes[..done].iter().rev() {
                let taken = connection.set(back.vcpu, back.from);
                taken.map_err(|error| (format!("{} cannot be set back", back.name), error))?;
            }
            return Err((change.name.clone(), why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maracas_client::{CoreId, Duration};

    fn promise(budget: u64, period: u64) -> Reservation {
        let period = Duration::from_millis(period);
        Reservation { budget: Duration::from_millis(budget), period, deadline: period }
    }

    fn state(vcpu: u32, name: &str, reservation: Reservation) -> VcpuState {
        VcpuState {
            vcpu: VcpuId(vcpu),
            name: name.into(),
            reservation,
            core: CoreId(0),
            threads: 1,
            mode: None,
            foreground: Duration::ZERO,
            background: Duration::ZERO,
        }
    }

    #[test]
    fn only_what_differs_changes_and_room_is_made_first() {
        let running = [
            state(0, "camera", promise(2, 10)),
            state(1, "radio", promise(5, 20)),
            state(2, "logger", promise(1, 10)),
            state(3, "guest", promise(1, 10)),
        ];
        let wanted =
            [("camera", promise(4, 10)), ("radio", promise(2, 20)), ("logger", promise(1, 10))];
        let changes = changes(&wanted, &running).unwrap();
        let names: Vec<_> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["radio", "camera"]);
        assert_eq!((changes[0].vcpu, changes[0].from), (VcpuId(1), promise(5, 20)));
        assert_eq!(changes[1].to, promise(4, 10));
    }

    #[test]
    fn an_unchanged_file_changes_nothing() {
        let running = [state(0, "camera", promise(2, 10)), state(1, "free", Reservation::NONE)];
        let wanted = [("free", Reservation::NONE), ("camera", promise(2, 10))];
        assert_eq!(changes(&wanted, &running), Ok(Vec::new()));
    }

    #[test]
    fn what_a_reload_cannot_do_is_refused_by_name() {
        let running = [state(0, "camera", promise(2, 10))];
        let new = changes(&[("camera", promise(3, 10)), ("new", promise(1, 10))], &running);
        assert!(new.unwrap_err().starts_with("new is in the file and does not run now"));
        let none = changes(&[("camera", Reservation::NONE)], &running);
        assert!(none.unwrap_err().starts_with("camera has no budget in the file and 2ms/10ms now"));
    }

    #[test]
    fn a_longer_period_alone_makes_room() {
        assert!(!grows(promise(2, 10), promise(2, 20)));
        assert!(grows(promise(2, 20), promise(2, 10)));
        assert!(grows(Reservation::NONE, promise(1, 10)));
    }
}
