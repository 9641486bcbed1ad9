/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What threads that belong to no VCPU may have of a core: a share before the background, and what
 * they are owed whatever is planned. For maracas.bpf.c alone.
 */
#ifndef MARACAS_OTHERS_H
#define MARACAS_OTHERS_H

#include "alarm.h"
#include "kernel.h"
#include "law.h"
#include "state.h"

/* The queue in which they wait, and that of those of the runtime. */
#define OTHERS 1ULL
#define RUNTIME 2ULL
/* What waits for its share gets it after so long, in the background's time. */
#define SHARE_TURN (1ULL * 1000 * 1000)
/* Threads that belong to no VCPU: one in ten, and no more at once than this. */
#define SHARE_OF 10
#define SHARE_MAX (5ULL * 1000 * 1000)
/*
 * Whatever is planned, they are owed one in twenty of the time in which they wait, and get it when
 * it is so much. The kernel's own server for its fair class has 50 ms in a second too
 * (kernel/sched/deadline.c).
 */
#define OWED_OF 20
#define OWED_MAX (50ULL * 1000 * 1000)

/* Adds to an account, up to `most`, and takes what was used. */
static __u64 settle(__u64 account, __u64 more, __u64 most, __u64 used)
{
	account = account + more < most ? account + more : most;
	return used < account ? account - used : 0;
}

/* Brings up to date what threads that belong to no VCPU may have. */
static void account_others(struct core *core, __u64 now)
{
	__u64 ran = core->others_from && now > core->others_from ? now - core->others_from : 0;
	__u64 passed = now > core->share_at ? now - core->share_at : 0;

	core->share_at = now;
	core->share = settle(core->share, passed / SHARE_OF, SHARE_MAX, ran);
	core->owed = settle(core->owed, core->waits ? passed / OWED_OF : 0, OWED_MAX, ran);
	core->others_ran += ran;
	if (core->others_from)
		core->others_from = now;
}

/* Whether any waits. */
static bool others_wait(void)
{
	return scx_bpf_dsq_nr_queued(OTHERS) > 0 || scx_bpf_dsq_nr_queued(RUNTIME) > 0;
}

/* Whether they come before what the law has. `is_on`: one is on the core and would go on. */
static bool others_first(struct core *core, const struct law_choice *choice, __u64 now, bool is_on)
{
	core->waits = is_on || others_wait();
	if (!core->waits) {
		core->owed = 0;
		core->is_paid = false;
		return false;
	}
	if (core->owed >= OWED_MAX)
		core->is_paid = true;
	else if (!core->owed)
		core->is_paid = false;
	return core->is_paid || (choice->mode == LAW_BACKGROUND && core->share >= SHARE_TURN);
}

/* Sets the timer for the turn of a thread that belongs to no VCPU, where a VCPU waits. */
static void limit_other(struct core *core, __u32 cpu, const struct law_choice *choice, __u64 now)
{
	core->ends = choice->vcpu == LAW_NONE ? LAW_NEVER : now + SHARE_TURN;
	arm(core, cpu, now);
}

/* A thread that belongs to no VCPU waits for a core. */
static void enqueue_other(struct task_struct *p, struct thread *thread, __s32 cpu,
			  __u64 flags, bool is_put)
{
	struct core *core = core_of(cpu);
	bool is_woken = flags & FIND(scx_enq_flags, SCX_ENQ_WAKEUP);
	bool is_first = thread && thread->is_first;
	__s32 idle;

	if (thread)
		thread->is_served = 0;
	if (is_woken && (is_first || (p->nr_cpus_allowed == 1 && (p->flags & PF_KTHREAD)))) {
		if (thread)
			thread->is_served = 1;
		dsq_insert(p, FIND(scx_dsq_id_flags, SCX_DSQ_LOCAL), TURN,
			   flags | FIND(scx_enq_flags, SCX_ENQ_PREEMPT));
		return;
	}
	dsq_insert(p, p->tgid == sizes.runtime ? RUNTIME : OTHERS, TURN, flags);
	/* A core that idles does not look into the queue by itself. */
	idle = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	if (idle >= 0)
		scx_bpf_kick_cpu(idle, FIND(scx_kick_flags, SCX_KICK_IDLE));
	else if (!is_put && core->law.now.mode == LAW_BACKGROUND && core->share >= SHARE_TURN)
		scx_bpf_kick_cpu(cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
}

/*
 * Puts a thread that belongs to no VCPU on the core. Whether one was put. What the runtime reports
 * is lost where its threads do not keep up: of two turns they have one, however many others wait.
 */
static bool put_other(struct core *core)
{
	if (core->is_runtime_next && dsq_move_to_local(RUNTIME)) {
		core->is_runtime_next = 0;
		core->is_chosen = 1;
	} else if (dsq_move_to_local(OTHERS)) {
		core->is_runtime_next = 1;
		core->is_chosen = 1;
	} else {
		core->is_chosen = dsq_move_to_local(RUNTIME);
	}
	return core->is_chosen;
}

#endif
