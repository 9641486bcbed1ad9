/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The machine law inside the kernel: a scheduler of the class sched_ext, Linux 6.12 and later.
 *
 * Threads of a VCPU wait in a queue of that VCPU, all other threads in two of theirs. When a core
 * needs a thread it asks the law (law.h) for a VCPU, by the run queue that was last sent for it,
 * and takes a thread of that. So nothing is moved when a plan changes, when a budget is spent or
 * comes back: the next choice is another one.
 *
 * A budget ends, and one that was sent ahead begins, by a timer of the core (alarm.h), one-shot and
 * pinned, which only asks the core to choose again. All meters are differences of CLOCK_MONOTONIC:
 * what the kernel accounts of a thread misses runs on 7.3.
 *
 * Threads that belong to no VCPU are served before the background up to a tenth of the core's
 * time, after it beyond that, and whatever is planned for 50 ms in each second; kernel threads of
 * one core, and the thread that sends the run queues, at once when they wake.
 */
#include "alarm.h"
#include "kernel.h"
#include "law.h"
#include "others.h"
#include "reads.h"
#include "shared.h"
#include "state.h"
#include "threads.h"

char _license[] SEC("license") = "GPL";

/* How many VCPUs a core tries at a choice. */
#define TRIES 8
/* The queue of a VCPU: of its slot. */
#define QUEUE_OF(vcpu) (0x10000ULL + ((vcpu) & (LAW_VCPUS - 1)))

/*
 * What the law has for a core now. Not static: so the verifier looks at it once, and not for each
 * of its callers. `cpu` may be another one than this: the answer may then be that of a run queue
 * which is being replaced. That does no harm, since that core chooses again by the new one.
 */
__attribute__((noinline)) __u32 next_of(__u32 cpu, struct law_choice *choice, __u64 now,
					__u32 which)
{
	struct core *core = core_of(cpu);
	__u32 key = (cpu & (CORES_MAX - 1)) * LAW_QUEUES + (core->slots.read & LAW_SLOT);
	struct law_queue *queue = bpf_map_lookup_elem(&queues, &key);

	if (!choice)
		return LAW_NONE;
	*choice = queue ? law_next(&core->law, queue, vcpus, now, which) : law_idle();
	return choice->vcpu;
}

/*
 * The same for this core, by the run queue that was sent last, and it remembers when it is to
 * choose again though nothing happens. Wherever it chooses it looks for another run queue: while a
 * real-time thread runs, such as the sender, a kick ends nobody's turn, and what was preempted goes
 * on after it without dispatch().
 */
static __u32 choose(struct core *core, __u32 cpu, struct law_choice *choice, __u64 now,
		    __u32 which)
{
	__u32 vcpu;

	law_receive(&core->slots);
	vcpu = next_of(cpu, choice, now, which);
	core->due = choice->due;
	return vcpu;
}

/*
 * Where a grant begins before a switch to it would be over, or in a moment, the core chooses by
 * that instant: what is then on it begins in time, and not earlier, as no switch is shorter. What
 * is on the core already, a thread of VCPU `on`, needs none. `was` is when the timer was to ring for
 * a start. Returns the time by which the core has chosen.
 */
static __u64 look_ahead(struct core *core, __u32 cpu, struct law_choice *choice, __u32 on,
			__u64 was, __u64 now)
{
	struct law_choice next;
	__u64 due = core->due;

	calibrate_lead(core, was, now);
	core->begins = 0;
	if (due == LAW_NEVER || due - now > core->reach + WAIT_MAX)
		return now;
	if (next_of(cpu, &next, due, LAW_PASSED_NOW) == LAW_NONE)
		return now;
	if (next.vcpu == on) {
		now = wait_for(due);
	} else {
		now = wait_for(due - core->reach);
		core->begins = due;
	}
	*choice = next;
	core->due = next.due;
	return now;
}

/* The core charges what it holds and lets it go, for another thread or for the same. */
static void end_segment(struct core *core, __u32 cpu, __u64 now)
{
	struct event event = {
		.kind = EVENT_RAN,
		.core = cpu,
		.vcpu = core->law.now.vcpu,
		.mode = core->law.now.mode,
		.until = core->law.now.until,
		.from = core->from,
		.at = now,
	};
	bool is_silent = core->law.now.silent;
	__u32 home;

	law_charge(&core->law, vcpus, now);
	charge_reads(core);
	core->ends = LAW_NEVER;
	if (event.vcpu == LAW_NONE)
		return;
	event.meter = law_vcpu(vcpus, event.vcpu)->meter[event.mode & 1];
	event.reads = law_vcpu(vcpus, event.vcpu)->reads;
	event.end = law_let_go(&core->law, vcpus);
	if (event.end == LAW_LIMIT_REACHED)
		calibrate(core, event.meter, event.until);
	report(&event, event.end != LAW_PREEMPTED && !(event.end == LAW_LIMIT_REACHED && is_silent));
	tell_spent(core, cpu, now);
	home = homes[event.vcpu & (LAW_VCPUS - 1)];
	if (law_is_awaited(&core->law, vcpus, event.vcpu, home))
		scx_bpf_kick_cpu(home, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
}

/*
 * The core ends what it holds where the law has something else for it. The thread executes nothing
 * of its own from here on, however long the switch takes: which depends on who is next, and on what
 * the other cores hold locked.
 */
static void end_unless_chosen(struct core *core, __u32 cpu, const struct law_choice *choice,
			      __u64 now)
{
	if (!law_goes_on(&core->law.now, choice))
		end_segment(core, cpu, now);
}

/* The core holds a VCPU from now on. False where it may not. */
static bool begin_segment(struct core *core, __u32 cpu, struct law_choice *choice, __u64 now)
{
	if (!law_hold(&core->law, vcpus, *choice, now))
		return false;
	core->from = now;
	core->ends = law_spent_at(&core->law, vcpus);
	if (choice->mode == LAW_BACKGROUND && others_wait() &&
	    core->ends > now + SHARE_TURN)
		core->ends = now + SHARE_TURN;
	arm(core, cpu, now);
	return true;
}

SEC("struct_ops/select_cpu")
__s32 select_cpu(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct thread *thread = thread_of(p);
	bool is_idle = false;
	__s32 cpu;

	if (is_managed(thread))
		return homes[thread->vcpu & (LAW_VCPUS - 1)];
	/*
	 * No flag of the wake is passed on: at a synchronous one the core of the waker would be taken
	 * for idle, on which a VCPU may run. And a core that is marked idle may have been asked to
	 * choose for a VCPU already. So running() lets a VCPU come before it, unless it goes first.
	 */
	cpu = scx_bpf_select_cpu_dfl(p, ctx[1], 0, &is_idle);
	if (is_idle) {
		if (thread)
			thread->is_served = thread->is_first;
		dsq_insert(p, FIND(scx_dsq_id_flags, SCX_DSQ_LOCAL), TURN, 0);
	}
	return cpu;
}

SEC("struct_ops/enqueue")
void enqueue(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct thread *thread = thread_of(p);
	__s32 cpu = scx_bpf_task_cpu(p);
	struct law_choice choice;
	bool is_put = thread && thread->is_put;
	__u32 home;

	if (thread)
		thread->is_put = 0;
	if (!is_managed(thread)) {
		if (thread)
			uncount(thread);
		enqueue_other(p, thread, cpu, ctx[1], is_put);
		return;
	}
	count(thread);
	law_take_back(vcpus, thread->vcpu);
	thread->since = bpf_ktime_get_ns();
	dsq_insert(p, QUEUE_OF(thread->vcpu), TURN, ctx[1]);
	home = homes[thread->vcpu & (LAW_VCPUS - 1)];
	/* What a core puts back it has just chosen against, unless another core is to have it. */
	if (is_put && home == cpu)
		return;
	/*
	 * The thread is in the queue only when this is over. Its core may have passed over the VCPU
	 * between, as it was not there, and is to try it once more, whatever that mark says now.
	 */
	if (next_of(home, &choice, thread->since, LAW_PASSED_EVER) == thread->vcpu ||
	    law_is_passed(vcpus, thread->vcpu))
		scx_bpf_kick_cpu(home, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
}

/* Lets `prev` go on, by another choice of the law for the same VCPU. False where it may not. */
static bool go_on(struct core *core, __u32 cpu, struct task_struct *prev,
		  struct law_choice *choice, __u64 now)
{
	if (core->law.now.vcpu == LAW_NONE) {
		if (!begin_segment(core, cpu, choice, now))
			return false;
	} else {
		core->law.now = *choice;
		core->ends = law_spent_at(&core->law, vcpus);
		arm(core, cpu, now);
	}
	set_slice(prev, TURN);
	return true;
}

/* `prev`, which belongs to no VCPU, goes on: sets the timer for its turn. */
static void other_goes_on(struct core *core, __u32 cpu, struct task_struct *prev,
			  const struct law_choice *choice, __u64 now)
{
	struct thread *thread = thread_of(prev);

	/* Its VCPU has left, or it was taken from that, while it ran. */
	if (core->law.now.vcpu != LAW_NONE)
		end_segment(core, cpu, now);
	if (!core->others_from)
		core->others_from = now;
	/* It may run for ever: the slot of that VCPU is not to wait for it. */
	if (thread)
		uncount(thread);
	limit_other(core, cpu, choice, now);
	set_slice(prev, TURN);
}

/*
 * Puts a thread of what was chosen on the core, or lets `prev`, which is of VCPU `on`, go on. What
 * waits and can run here with no thread, as all may be confined to other cores, or may not migrate
 * from one, is passed over. That is tried anew at each choice: no call of this program says when it
 * ends. Whether something was put; else `choice` is what comes next, and is on its way.
 */
static bool put_managed(struct core *core, __u32 cpu, struct task_struct *prev, __u32 on,
			bool is_other_on, struct law_choice *choice, __u64 now)
{
	bool is_put = false;
	__u32 i;

	LAW_EACH(i, TRIES, TRIES) {
		if (choice->vcpu == LAW_NONE)
			break;
		if (dsq_move_to_local(QUEUE_OF(choice->vcpu))) {
			core->chosen_at = core->begins ? now : 0;
			law_take_back(vcpus, choice->vcpu);
			is_put = true;
			break;
		}
		if (on == choice->vcpu) {
			is_put = prev && go_on(core, cpu, prev, choice, now);
			break;
		}
		/* Nothing waits there: its threads are on their way, or among all others. */
		if (scx_bpf_dsq_nr_queued(QUEUE_OF(choice->vcpu)) <= 0)
			break;
		law_pass_over(&core->law, vcpus, choice->vcpu);
		core->begins = 0;
		/* Where many are passed over, the last tries are not for those that were before. */
		next_of(cpu, choice, now, i < TRIES / 2 ? LAW_PASSED_NOW : LAW_PASSED_EVER);
		core->due = choice->due;
		/* Others have their share before the background, which was not what was chosen. */
		if (choice->mode == LAW_BACKGROUND &&
		    others_first(core, choice, now, is_other_on) && put_other(core)) {
			is_put = true;
			break;
		}
	}
	LAW_EACH_END
	return is_put;
}

SEC("struct_ops/dispatch")
void dispatch(__u64 *ctx)
{
	__u32 cpu = ctx[0];
	struct task_struct *prev = (struct task_struct *)ctx[1];
	struct core *core = core_of(cpu);
	__u64 now = bpf_ktime_get_ns();
	struct thread *thread = NULL;
	struct law_choice choice;
	bool is_on = false, is_other_on;
	__u32 on;
	__u64 was = core->due;

	if (prev) {
		is_on = prev->scx.flags & FIND(scx_ent_flags, SCX_TASK_QUEUED);
		thread = is_on ? thread_of(prev) : NULL;
	}
	law_charge(&core->law, vcpus, now);
	charge_reads(core);
	account_others(core, now);
	law_begin_pass(&core->law);
	choose(core, cpu, &choice, now, LAW_PASSED_NOW);
	end_unless_chosen(core, cpu, &choice, now);
	on = is_on && is_managed(thread) ? thread->vcpu : LAW_NONE;
	now = look_ahead(core, cpu, &choice, on, was, now);
	core->chosen_at = 0;
	end_unless_chosen(core, cpu, &choice, now);
	tell_spent(core, cpu, now);
	is_other_on = is_on && on == LAW_NONE;
	if (others_first(core, &choice, now, is_other_on)) {
		if (put_other(core)) {
			end_segment(core, cpu, now);
			return;
		}
		if (is_other_on) {
			other_goes_on(core, cpu, prev, &choice, now);
			return;
		}
	}
	if (put_managed(core, cpu, prev, on, is_other_on, &choice, now) || put_other(core))
		return;
	if (is_other_on) {
		other_goes_on(core, cpu, prev, &choice, now);
		return;
	}
	/*
	 * The core idles: until something wakes, or a grant begins to count. What it chose and did
	 * not find is on its way; it looks for that again.
	 */
	core->ends = choice.vcpu == LAW_NONE ? LAW_NEVER : now + SHARE_TURN;
	arm(core, cpu, now);
}

SEC("struct_ops/runnable")
void runnable(__u64 *ctx)
{
	struct thread *thread = thread_of((struct task_struct *)ctx[0]);

	if (thread && thread->is_new)
		inherit(thread);
	if (is_managed(thread))
		count(thread);
}

SEC("struct_ops/running")
void running(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct thread *thread = thread_of(p);
	__u32 cpu = scx_bpf_task_cpu(p);
	struct core *core = core_of(cpu);
	__u64 now = bpf_ktime_get_ns();
	struct law_choice choice;

	end_segment(core, cpu, now);
	account_others(core, now);
	if (!is_managed(thread)) {
		bool is_chosen = core->is_chosen || (thread && thread->is_served);

		/* By an instant that has come since the core chose, a VCPU may come before it. */
		if (core->is_chosen && core->due <= now + LEAST)
			is_chosen = false;
		core->is_chosen = 0;
		core->others_from = now;
		choose(core, cpu, &choice, now, LAW_PASSED_EVER);
		limit_other(core, cpu, &choice, now);
		/*
		 * It was preempted by a real-time thread, such as the sender of a run queue by which
		 * a VCPU comes before it by now.
		 */
		if (!is_chosen && choice.vcpu != LAW_NONE &&
		    !others_first(core, &choice, now, true))
			scx_bpf_kick_cpu(cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
		return;
	}
	core->is_chosen = 0;
	count(thread);
	calibrate_reach(core, now);
	/* It may be on the core a moment before the instant for which it was chosen. */
	if (choose(core, cpu, &choice, core->begins > now ? core->begins : now,
		   LAW_PASSED_EVER) == thread->vcpu &&
	    begin_segment(core, cpu, &choice, now))
		return;
	/*
	 * It came here past the law: preempted by a real-time thread, or tended. It is charged for
	 * nothing, and the core chooses again.
	 */
	scx_bpf_kick_cpu(cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
}

SEC("struct_ops/stopping")
void stopping(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct thread *thread = thread_of(p);
	bool is_runnable = ctx[1] & 0xff;
	__u32 cpu = scx_bpf_task_cpu(p);
	struct core *core = core_of(cpu);
	__u64 now = bpf_ktime_get_ns();

	account_others(core, now);
	core->others_from = 0;
	if (!thread)
		return;
	thread->is_put = is_runnable;
	if (!is_runnable)
		thread->is_served = 0;
	/* Before the segment ends, as why it does depends on it. */
	if (!is_runnable)
		uncount(thread);
	end_segment(core, cpu, now);
}

SEC("struct_ops/quiescent")
void quiescent(__u64 *ctx)
{
	struct thread *thread = thread_of((struct task_struct *)ctx[0]);

	if (thread)
		uncount(thread);
}

SEC("struct_ops/init_task")
__s32 init_task(__u64 *ctx)
{
	struct task_struct *p = (struct task_struct *)ctx[0];
	struct scx_init_task_args *args = (struct scx_init_task_args *)ctx[1];
	struct thread *thread, *parent;

	thread = bpf_task_storage_get(&threads, p, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return -ENOMEM;
	thread->vcpu = LAW_NONE;
	thread->counted = LAW_NONE;
	if (args->fork) {
		thread->is_new = 1;
		parent = thread_of(bpf_get_current_task_btf());
		if (parent)
			thread->vcpu = parent->vcpu;
	}
	return 0;
}

SEC("struct_ops.s/init")
__s32 init(__u64 *ctx)
{
	__u32 i;
	__s32 error;

	if (sizes.cores > CORES_MAX || sizes.vcpus > LAW_VCPUS)
		return -EINVAL;
	error = scx_bpf_create_dsq(OTHERS, -1);
	error = error ? error : scx_bpf_create_dsq(RUNTIME, -1);
	for (i = 0; i < LAW_VCPUS && i < sizes.vcpus && !error; i++)
		error = scx_bpf_create_dsq(QUEUE_OF(i), -1);
	for (i = 0; i < CORES_MAX && i < sizes.cores && !error; i++) {
		/* The verifier loses sight of a counter whose address is taken. */
		__u32 key = i;
		struct alarm *alarm = bpf_map_lookup_elem(&alarms, &key);
		struct core *core = core_of(i);

		core->law.id = i;
		core->law.pass = i + 1;
		core->law.least = LEAST;
		core->law.soon = LEAST;
		core->lead_step = LEAD_STEP_MAX;
		core->margin_step = MARGIN_STEP_MAX;
		core->was_late = 1;
		core->law.now = law_idle();
		core->ends = LAW_NEVER;
		core->due = LAW_NEVER;
		law_clear_slots(&core->slots);
		core->share_at = bpf_ktime_get_ns();
		if (!alarm)
			return -EINVAL;
		error = bpf_timer_init(&alarm->timer, &alarms, CLOCK_MONOTONIC);
		if (!error)
			error = bpf_timer_set_callback(&alarm->timer, ring);
	}
	return error;
}

SEC("struct_ops/exit")
void finish(__u64 *ctx)
{
	struct scx_exit_info *info = (struct scx_exit_info *)ctx[0];

	bpf_probe_read_kernel_str(ending.reason, sizeof(ending.reason), info->reason);
	bpf_probe_read_kernel_str(ending.message, sizeof(ending.message), info->msg);
}

/* The core follows its spare run queue from now on. Returns which one is to be written next. */
SEC("syscall")
int take(struct take *ctx)
{
	__u32 cpu = ctx->core & (CORES_MAX - 1);
	__u32 spare = law_send(&core_of(cpu)->slots);

	/* The sender's own core chooses when the sender sleeps: it looks for a run queue then. */
	if (cpu == bpf_get_smp_processor_id())
		core_of(cpu)->is_chosen = 0;
	else
		scx_bpf_kick_cpu(cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
	return spare;
}

/* Lets threads that have waited for long run for once, or for good where their VCPU leaves. */
SEC("syscall")
int tend(struct tend *ctx)
{
	__u32 vcpu = ctx->vcpu, slot = vcpu & (LAW_VCPUS - 1), leaves = ctx->leaves, moved = 0;
	__u64 before = bpf_ktime_get_ns() - ctx->waited;
	struct bpf_iter_scx_dsq queue;
	struct task_struct *p;

	if (slot >= sizes.vcpus)
		return -EINVAL;
	if (leaves)
		law_leave(vcpus, vcpu);
	bpf_rcu_read_lock();
	bpf_iter_scx_dsq_new(&queue, QUEUE_OF(vcpu), 0);
	while ((p = bpf_iter_scx_dsq_next(&queue))) {
		struct thread *thread = thread_of(p);

		/* Where it leaves, the slot may have another VCPU by now. */
		if (!thread || (leaves ? is_managed(thread) : thread->since > before))
			continue;
		if (leaves)
			uncount(thread);
		moved += dsq_move(&queue, p, OTHERS);
	}
	bpf_iter_scx_dsq_destroy(&queue);
	bpf_rcu_read_unlock();
	scx_bpf_kick_cpu(homes[slot], FIND(scx_kick_flags, SCX_KICK_PREEMPT));
	return moved;
}

/* A thread, and what it will fork, belongs to a VCPU from when it is next queued, or is first. */
SEC("syscall")
int join(struct join *ctx)
{
	struct task_struct *p = bpf_task_from_pid(ctx->pid);
	struct thread *thread;
	int error = -ESRCH;

	if (!p)
		return error;
	if (ctx->vcpu != LAW_NONE && ((ctx->vcpu & (LAW_VCPUS - 1)) >= sizes.vcpus ||
				      !law_is_there(vcpus, ctx->vcpu))) {
		bpf_task_release(p);
		return -EINVAL;
	}
	thread = thread_of(p);
	if (thread) {
		thread->vcpu = ctx->vcpu;
		thread->is_first = ctx->vcpu == LAW_NONE;
		error = 0;
	}
	bpf_task_release(p);
	return error;
}

SEC(".struct_ops.link")
struct sched_ext_ops maracas = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.runnable = (void *)runnable,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.quiescent = (void *)quiescent,
	.init_task = (void *)init_task,
	.init = (void *)init,
	.exit = (void *)finish,
	/* Else what exits is put back on its core past enqueue(), and two of them keep it. */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING,
	.timeout_ms = 20000,
	.name = "maracas",
};
