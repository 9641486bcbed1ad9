/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The timer of a core: it asks the core to choose again where a budget ends or begins, and is set
 * so early that this takes effect then. For maracas.bpf.c alone.
 *
 * Ends and starts are not set early by the same. An end that is early leaves what the next grant
 * has, and one that is late takes it from that, so half of all ends may be either. A start that is
 * early is service in the period before, which is missing in its own: so none is to be.
 */
#ifndef MARACAS_ALARM_H
#define MARACAS_ALARM_H

#include "kernel.h"
#include "law.h"
#include "shared.h"
#include "state.h"

/* A timer may come so much too early. */
#define LEAST 500
/*
 * The margin moves by a step at each end, at first by so much and later by so much, and stays below
 * this.
 */
#define MARGIN_STEP_MAX 4096
#define MARGIN_STEP 128
#define MARGIN_MAX (50ULL * 1000)
/*
 * The lead grows by a step, at first by so much and later by seven times of what it shrinks by, so
 * that one start in eight is late. The reach grows by the latter, too.
 */
#define LEAD_STEP_MAX 4096
#define LEAD_BACK 64
#define LEAD_STEP (7 * LEAD_BACK)
/* A core that is asked before a start waits for so long at most; else its timer rings again. */
#define WAIT_MAX (20ULL * 1000)

static __u64 earlier_by(__u64 at, __u64 by)
{
	return at == LAW_NEVER ? LAW_NEVER : at - by;
}

/* When the core is to be asked, by its state. */
static __u64 rings_at(const struct core *core)
{
	return law_earlier(earlier_by(core->ends, core->margin), earlier_by(core->due, core->lead));
}

/* Sets the core's timer for that; where it has rung before a start, for the start. */
static void arm(struct core *core, __u32 cpu, __u64 now)
{
	__u32 key = cpu & (CORES_MAX - 1);
	struct alarm *alarm = bpf_map_lookup_elem(&alarms, &key);
	__u64 ends = earlier_by(core->ends, core->margin);
	__u64 due = earlier_by(core->due, core->lead);
	__u64 at = law_earlier(ends, due > now ? due : core->due - LEAST);

	if (alarm && at != LAW_NEVER)
		bpf_timer_start(&alarm->timer, at, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN);
}

/* A core's timer: it chooses again. A timer that another start has replaced is not asked for. */
static int ring(void *map, __u32 *cpu, struct alarm *alarm)
{
	__u64 at = rings_at(core_of(*cpu));

	if (at != LAW_NEVER && bpf_ktime_get_ns() + LEAST >= at)
		scx_bpf_kick_cpu(*cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
	return 0;
}

/*
 * The margin is what an end is late at the median, counted from its instant to dispatch(). It is
 * sought by steps that are halved each time that they were too much. What is left of a grant when a
 * timer comes early by it is as good as spent: to start it again would take longer.
 */
static void calibrate(struct core *core, __u64 meter, __u64 until)
{
	__u32 is_late = meter > until, step = core->margin_step;

	if (meter == until)
		return;
	if (is_late != core->was_late && step > MARGIN_STEP)
		core->margin_step = step = step / 2;
	core->was_late = is_late;
	if (is_late && core->margin < MARGIN_MAX)
		core->margin += step;
	else if (!is_late)
		core->margin -= core->margin > step ? step : core->margin;
	core->law.least = core->margin + LEAST;
}

/*
 * dispatch() is asked at `now`, and a start was to come at `was`. The lead is what the timer takes
 * until then, but for one in eight that takes more, and what a switch does. It is sought by steps
 * that are halved each time that they were too much.
 */
static void calibrate_lead(struct core *core, __u64 was, __u64 now)
{
	__u32 back = core->lead_step > LEAD_STEP ? core->lead_step : LEAD_BACK;

	if (was == LAW_NEVER)
		return;
	if (was <= now + core->reach) {
		if (core->lead < MARGIN_MAX)
			core->lead += core->lead_step;
	} else if (was - now <= core->lead) {
		core->lead -= core->lead > back ? back : core->lead;
		core->lead_step /= 2;
		if (core->lead_step < LEAD_STEP)
			core->lead_step = LEAD_STEP;
	}
}

/*
 * Waits for an instant that is so close that a timer would ring after it. Returns the time then.
 */
static __u64 wait_for(__u64 at)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 i;

	/* So many readings of the clock take longer than it may be. */
	LAW_EACH(i, 512, 512) {
		if (now + LEAST >= at)
			break;
		now = bpf_ktime_get_ns();
	}
	LAW_EACH_END
	return now;
}

/* What dispatch() chose for a start runs from `now` on. The reach is what that takes at least. */
static void calibrate_reach(struct core *core, __u64 now)
{
	__u64 took = now - core->chosen_at;

	if (!core->chosen_at)
		return;
	core->chosen_at = 0;
	if (took < core->reach)
		core->reach = took;
	else if (core->reach < MARGIN_MAX)
		core->reach += LEAD_BACK;
}

#endif
