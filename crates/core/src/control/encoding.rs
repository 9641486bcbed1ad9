//! How control messages and gauges are written ([`crate::wire`]).

use super::{
    CoreGauges, Gauges, Histogram, Members, MemoryGauges, NewVcpu, Number, Refusal, Reply, Request,
    StatisticGauge, VcpuGauges, VcpuState,
};
use crate::wire::{fields, variants};

fields! {
    NewVcpu { name, vcpu, members }
    Refusal { text, numbers }
    Number { test, vcpu, value, bound, accepted }
    VcpuState { vcpu, name, reservation, core, threads, mode, foreground, background }
    Gauges { at, over, policy, host, sensor, cores, vcpus, memory, dispatch, decisions, misses,
        migrations, failures, lost_records, statistics }
    CoreGauges { core, foreground, background, throttled, is_throttled, is_closed, requests,
        sampled, last_sampled, decisions, late, longest_late, stolen, reliefs }
    VcpuGauges { vcpu, name, reservation, last, foreground, background, used, short_periods,
        over_periods, stolen_periods, jobs, misses, preemptions, migrations, instructions,
        references, reads, writes }
    MemoryGauges { samples, requests, occupancy, last_requests, last_occupancy, last_span,
        max_latency }
    StatisticGauge { name, core, vcpu, value }
    Histogram { counts, sum }
}
variants! {
    Members { 0 = Thread(tid), 1 = Process(pid) }
    Request {
        0 = Hello { version }, 1 = Create(new), 2 = Set { vcpu, reservation }, 3 = Destroy { vcpu },
        4 = List, 5 = Jobs { vcpu }, 6 = JobDone { job, at }, 7 = Gauges,
    }
    Reply {
        0 = Hello { version, pid, policy, origin }, 1 = Created { vcpu, core },
        2 = Refused(refusal), 3 = Done, 4 = Vcpus(vcpus), 5 = Job(job), 6 = Error(text),
        7 = Gauges(gauges),
    }
}
