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

/* The queue in which they wait. */
#define OTHERS 1ULL
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

/* Whether they come before what the law has. `is_on`: one is on the core and would go on. */
static bool others_first(struct core *core, const struct law_choice *choice, __u64 now, bool is_on)
{
	core->waits = is_on || scx_bpf_dsq_nr_queued(OTHERS) > 0;
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

#endif
