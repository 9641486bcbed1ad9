/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The machine law in C, for a machine inside the kernel.
 *
 * It says the same as crates/core/src/dispatch.rs, entry for entry: a core, unless closed, runs the
 * first runnable, unspent foreground entry of its run queue; else, if background is allowed, the
 * first runnable, unspent background entry; else it idles. tests/tests/twin.rs gives both the same
 * random steps and compares every choice and every meter.
 *
 * A grant may have an instant from which it counts, and may lapse where its VCPU wakes. Until then,
 * and from then on, the law is that of the run queue without it. So what a VCPU is to have next can
 * be sent ahead, and counts at its instant, however late the next plan is.
 *
 * A core may find that it can run no thread of what the law chose, as all are confined elsewhere.
 * It passes over the VCPU then: the law is that of the run queue without it. Where none is passed
 * over, nothing changes.
 *
 * Nothing here calls the kernel or a library, reads a clock, allocates or recurses, and every loop
 * has a constant bound, so that the same text compiles for BPF and for user space. The includer has
 * __u8 to __u64 and bool. Times are nanoseconds, memory is counted in reads.
 *
 * Who may write what: a core's state and the meters of the VCPU that it holds are written by that
 * core alone. A VCPU is held by at most one core, which the atomic exchange in law_hold() ensures.
 * The number of runnable threads, and by which core it was passed over, are changed atomically, by
 * any core.
 */
#ifndef MARACAS_LAW_H
#define MARACAS_LAW_H

/*
 * The most VCPUs at once: slots. A power of two, as numbers are masked by it: a VCPU's number is its
 * slot and, above that, how many had the slot before. So no two VCPUs of a run have one number.
 */
#define LAW_VCPUS 1024
/* The most entries of a core's run queue, by mode. The sender of a plan refuses a larger one. */
#define LAW_FOREGROUND_MAX 64
#define LAW_BACKGROUND_MAX 256
/* Run queues of a core: one that it reads, one that was sent last, one to be written. */
#define LAW_QUEUES 3

/* No such VCPU; no core. */
#define LAW_NONE (~0U)
/* A limit that no meter reaches; an instant that does not come. */
#define LAW_NEVER (~0ULL)

/* Whether a VCPU runs on its budget or on surplus time: an index of its meters. */
enum law_mode {
	LAW_FOREGROUND,
	LAW_BACKGROUND,
};

/* Why a VCPU left a core, as crates/core/src/contract.rs has it (End). */
enum law_end {
	/* It goes on: only its meters were brought up to date. */
	LAW_METERED,
	LAW_BLOCKED,
	LAW_PREEMPTED,
	LAW_LIMIT_REACHED,
	LAW_MEMORY_SPENT,
};

/*
 * Leave to run while the meter of the entry's mode is below `until`, and reads below `memory`; not
 * before the instant `from`; where it `lapses`, as long as the VCPU has woken as often as the
 * sender knew, by 16 bits of its count. An end that is `silent` need not be told at once.
 */
struct law_grant {
	__u64 until;
	__u64 memory;
	__u64 from;
	__u32 vcpu;
	__u16 wakes;
	__u8 lapses;
	__u8 silent;
};

/* What a core may do until another run queue takes this one's place. */
struct law_queue {
	/* Reading of the core's memory meter at which it closes. */
	__u64 allowance;
	__u32 background_allowed;
	__u32 foreground_entries;
	__u32 background_entries;
	__u32 unused;
	struct law_grant foreground[LAW_FOREGROUND_MAX];
	struct law_grant background[LAW_BACKGROUND_MAX];
};

/* Which of a core's run queues is which; always three different ones. */
struct law_slots {
	/* The one sent last, with LAW_NEW until the core reads it. Exchanged atomically. */
	__u32 sent;
	/* The one that the core reads, which it alone changes. */
	__u32 read;
	/* The one to be written, which the sender alone changes. */
	__u32 spare;
	__u32 unused;
};
#define LAW_NEW 4U
#define LAW_SLOT 3U

/* What is known of a VCPU, in its slot. */
struct law_vcpu {
	/* Cumulative service by mode, on all cores. */
	__u64 meter[2];
	/* Cumulative reads of memory, in any mode and on any core. */
	__u64 reads;
	/* Runnable threads. */
	__u32 threads;
	/* The core that holds it, plus one; 0 = none. */
	__u32 holder;
	/* How often it had something to run after it had not. */
	__u32 wakes;
	/* How many had its slot and have left. */
	__u32 left;
	/* `pass` of the core that passed over it last, as of then; 0 = it was taken back. */
	__u32 passed;
	__u32 unused;
};

/* What a core runs; `vcpu` is LAW_NONE where it idles. */
struct law_choice {
	__u64 until;
	__u64 memory;
	/* When an entry that stands before it begins to count; LAW_NEVER = none does. */
	__u64 due;
	__u32 vcpu;
	__u32 mode;
	/* Whether the grant's end is silent. */
	__u32 silent;
	__u32 unused;
};

/* A core. */
struct law_core {
	/* Cumulative reads of memory by whatever ran here. */
	__u64 reads;
	/* Up to when `now` is charged. */
	__u64 charged;
	/* What it holds. */
	struct law_choice now;
	/* A limit that is closer than this is reached: less than a switch is worth. */
	__u32 least;
	/* An instant that is closer than this has come. */
	__u32 soon;
	__u32 id;
	/* Which choice it is at: `id` plus one, and LAW_PASS_STEP more at each. */
	__u32 pass;
};

/* More than there are cores, so that what stands below it in `pass` is the core's number. */
#define LAW_PASS_STEP 128U
/*
 * Which VCPUs a core leaves out: those that it passed over at this very choice, or at any, where
 * it does not try whether it can run them now. The latter is a hint: it may be out of date.
 */
#define LAW_PASSED_NOW (~0U)
#define LAW_PASSED_EVER (LAW_PASS_STEP - 1)

#define LAW_FN static inline __attribute__((unused))

LAW_FN struct law_vcpu *law_vcpu(struct law_vcpu *vcpus, __u32 vcpu)
{
	return &vcpus[vcpu & (LAW_VCPUS - 1)];
}

/* Whether the VCPU of this number is there: it has its slot, and has not left it. */
LAW_FN bool law_is_there(struct law_vcpu *vcpus, __u32 vcpu)
{
	return law_vcpu(vcpus, vcpu)->left == vcpu / LAW_VCPUS;
}

/*
 * The VCPU leaves its slot, if it has not before: what is granted to it, and what its threads are to
 * be, counts no more. The slot may be used again when no thread is counted there and no core holds
 * it.
 */
LAW_FN void law_leave(struct law_vcpu *vcpus, __u32 vcpu)
{
	if (law_is_there(vcpus, vcpu))
		law_vcpu(vcpus, vcpu)->left++;
}

/* Whether no entry of `mode` counts now. */
LAW_FN bool law_is_closed(const struct law_core *core, const struct law_queue *queue, __u32 mode)
{
	return core->reads >= queue->allowance ||
	       (mode == LAW_BACKGROUND && !queue->background_allowed);
}

/* Whether the meter of `mode` allows the grant to go on. */
LAW_FN bool law_has_service(const struct law_core *core, const struct law_vcpu *vcpu, __u64 until,
			    __u32 mode)
{
	__u64 meter = vcpu->meter[mode & 1];

	return until == LAW_NEVER || (meter < until && until - meter > core->least);
}

/* Whether the grant counts at `now`. */
LAW_FN bool law_counts(const struct law_core *core, const struct law_grant *grant, __u64 now)
{
	return grant->from <= now || grant->from - now <= core->soon;
}

LAW_FN __u64 law_earlier(__u64 one, __u64 other)
{
	return one < other ? one : other;
}

/* Whether the memory meter allows it. */
LAW_FN bool law_has_memory(const struct law_vcpu *vcpu, __u64 memory)
{
	return memory == LAW_NEVER || vcpu->reads < memory;
}

/* Whether the VCPU has woken since the grant was made, which does not count any more then. */
LAW_FN bool law_lapsed(const struct law_grant *grant, const struct law_vcpu *vcpu)
{
	return grant->lapses && grant->wakes != (__u16)vcpu->wakes;
}

/* The core is to choose, and tries anew what it passed over before. */
LAW_FN void law_begin_pass(struct law_core *core)
{
	core->pass += LAW_PASS_STEP;
}

/* The core chose this VCPU and can run no thread of it: it chooses without. */
LAW_FN void law_pass_over(const struct law_core *core, struct law_vcpu *vcpus, __u32 vcpu)
{
	__atomic_exchange_n(&law_vcpu(vcpus, vcpu)->passed, core->pass, __ATOMIC_SEQ_CST);
}

/* A core may be able to run this VCPU again. */
LAW_FN void law_take_back(struct law_vcpu *vcpus, __u32 vcpu)
{
	__atomic_exchange_n(&law_vcpu(vcpus, vcpu)->passed, 0, __ATOMIC_SEQ_CST);
}

/* Whether a core has passed over it and nothing has taken that back. */
LAW_FN bool law_is_passed(struct law_vcpu *vcpus, __u32 vcpu)
{
	return *(volatile __u32 *)&law_vcpu(vcpus, vcpu)->passed;
}

/*
 * Whether the VCPU of a grant may be run by this core now. What another core holds waits until that
 * core has let go of it, though a newer plan may have it here already. `which` says what is left
 * out of that which the core passed over: LAW_PASSED_NOW or LAW_PASSED_EVER.
 */
LAW_FN bool law_may_run(const struct law_core *core, struct law_vcpu *vcpus,
			const struct law_grant *grant, __u32 mode, __u32 which)
{
	const struct law_vcpu *vcpu = law_vcpu(vcpus, grant->vcpu);

	return law_is_there(vcpus, grant->vcpu) && vcpu->threads &&
	       (!vcpu->holder || vcpu->holder == core->id + 1) &&
	       law_has_service(core, vcpu, grant->until, mode) &&
	       law_has_memory(vcpu, grant->memory) && !law_lapsed(grant, vcpu) &&
	       ((vcpu->passed ^ core->pass) & which);
}

LAW_FN struct law_choice law_running(const struct law_grant *grant, __u32 mode)
{
	struct law_choice choice = {
		.until = grant->until,
		.memory = grant->memory,
		.due = LAW_NEVER,
		.vcpu = grant->vcpu,
		.mode = mode,
		.silent = grant->silent,
	};
	return choice;
}

LAW_FN struct law_choice law_idle(void)
{
	struct law_choice choice = {
		.until = LAW_NEVER,
		.memory = LAW_NEVER,
		.due = LAW_NEVER,
		.vcpu = LAW_NONE,
	};
	return choice;
}

/*
 * A loop over the first `entries` numbers, `max` at most, which a `break` may leave. In the kernel
 * the includer gives it another form, of which the verifier needs to see a round or two only.
 */
#ifndef LAW_EACH
#define LAW_EACH(i, entries, max) for (i = 0; i < (max) && i < (entries); i++)
#define LAW_EACH_END
#endif

/*
 * The machine law for one core at `now`: `next` of crates/core/src/dispatch.rs, for the entries
 * that count by then, without `which` of those that it passed over.
 */
LAW_FN struct law_choice law_next(const struct law_core *core, const struct law_queue *queue,
				  struct law_vcpu *vcpus, __u64 now, __u32 which)
{
	struct law_choice found = law_idle();
	__u64 due = LAW_NEVER;
	__u32 i;

	if (law_is_closed(core, queue, LAW_FOREGROUND))
		return found;
	LAW_EACH(i, queue->foreground_entries, LAW_FOREGROUND_MAX) {
		const struct law_grant *grant = &queue->foreground[i];

		if (!law_counts(core, grant, now)) {
			due = law_earlier(due, grant->from);
		} else if (law_may_run(core, vcpus, grant, LAW_FOREGROUND, which)) {
			found = law_running(grant, LAW_FOREGROUND);
			break;
		}
	}
	LAW_EACH_END
	found.due = due;
	if (found.vcpu != LAW_NONE || law_is_closed(core, queue, LAW_BACKGROUND))
		return found;
	LAW_EACH(i, queue->background_entries, LAW_BACKGROUND_MAX) {
		const struct law_grant *grant = &queue->background[i];

		if (!law_counts(core, grant, now)) {
			due = law_earlier(due, grant->from);
		} else if (law_may_run(core, vcpus, grant, LAW_BACKGROUND, which)) {
			found = law_running(grant, LAW_BACKGROUND);
			break;
		}
	}
	LAW_EACH_END
	found.due = due;
	return found;
}

LAW_FN void law_clear_slots(struct law_slots *slots)
{
	slots->read = 0;
	slots->sent = 1;
	slots->spare = 2;
}

/*
 * The sender has written the spare run queue, and sends it. Returns which one is spare now: never
 * the one that the core reads, and it waits for nothing. One sender a core at a time.
 */
LAW_FN __u32 law_send(struct law_slots *slots)
{
	__u32 sent = slots->spare | LAW_NEW;

	slots->spare = __atomic_exchange_n(&slots->sent, sent, __ATOMIC_SEQ_CST) & LAW_SLOT;
	return slots->spare;
}

/* The core reads the run queue that was sent last from now on; which one that is. */
LAW_FN __u32 law_receive(struct law_slots *slots)
{
	if (*(volatile __u32 *)&slots->sent & LAW_NEW)
		slots->read = __atomic_exchange_n(&slots->sent, slots->read, __ATOMIC_SEQ_CST) &
			      LAW_SLOT;
	return slots->read;
}

/* Charges what the core holds for the time up to `now`. Returns what was added. */
LAW_FN __u64 law_charge(struct law_core *core, struct law_vcpu *vcpus, __u64 now)
{
	__u64 service = now > core->charged ? now - core->charged : 0;

	core->charged = now;
	if (core->now.vcpu == LAW_NONE)
		return 0;
	law_vcpu(vcpus, core->now.vcpu)->meter[core->now.mode & 1] += service;
	return service;
}

/* Counts reads of memory by what the core holds, or by something that is no VCPU. */
LAW_FN void law_count_reads(struct law_core *core, struct law_vcpu *vcpus, __u64 reads)
{
	core->reads += reads;
	if (core->now.vcpu != LAW_NONE)
		law_vcpu(vcpus, core->now.vcpu)->reads += reads;
}

/* When what the core holds reaches its limit of service; LAW_NEVER where it does not. */
LAW_FN __u64 law_spent_at(const struct law_core *core, struct law_vcpu *vcpus)
{
	__u64 meter, left;

	if (core->now.vcpu == LAW_NONE || core->now.until == LAW_NEVER)
		return LAW_NEVER;
	meter = law_vcpu(vcpus, core->now.vcpu)->meter[core->now.mode & 1];
	left = core->now.until > meter ? core->now.until - meter : 0;
	return left > LAW_NEVER - core->charged ? LAW_NEVER : core->charged + left;
}

/* Why what the core holds would end now, by its own state and by what it was granted. */
LAW_FN __u32 law_reason(const struct law_core *core, struct law_vcpu *vcpus)
{
	const struct law_vcpu *vcpu = law_vcpu(vcpus, core->now.vcpu);

	if (!vcpu->threads)
		return LAW_BLOCKED;
	if (!law_has_service(core, vcpu, core->now.until, core->now.mode))
		return LAW_LIMIT_REACHED;
	if (!law_has_memory(vcpu, core->now.memory))
		return LAW_MEMORY_SPENT;
	return LAW_PREEMPTED;
}

/*
 * The core lets go of what it holds, which must be charged. Another core may take the VCPU from now
 * on. Returns why it ended.
 */
LAW_FN __u32 law_let_go(struct law_core *core, struct law_vcpu *vcpus)
{
	__u32 reason;

	if (core->now.vcpu == LAW_NONE)
		return LAW_METERED;
	reason = law_reason(core, vcpus);
	__atomic_exchange_n(&law_vcpu(vcpus, core->now.vcpu)->holder, 0, __ATOMIC_SEQ_CST);
	core->now = law_idle();
	return reason;
}

/*
 * Whether the core `home`, on which the VCPU stands by now, is to choose again, since this one let
 * go of it: it may have waited for that. What blocked is not waited for.
 */
LAW_FN bool law_is_awaited(const struct law_core *core, struct law_vcpu *vcpus, __u32 vcpu,
			   __u32 home)
{
	return home != core->id && law_vcpu(vcpus, vcpu)->threads;
}

/*
 * The core holds `choice` from `now` on. False where another core took the VCPU meanwhile: the core
 * holds nothing then, and must choose again.
 */
LAW_FN bool law_hold(struct law_core *core, struct law_vcpu *vcpus, struct law_choice choice,
		     __u64 now)
{
	__u32 mine = core->id + 1, before;

	core->charged = now;
	if (choice.vcpu == LAW_NONE) {
		core->now = choice;
		return true;
	}
	before = __sync_val_compare_and_swap(&law_vcpu(vcpus, choice.vcpu)->holder, 0, mine);
	if (before && before != mine) {
		core->now = law_idle();
		return false;
	}
	core->now = choice;
	return true;
}

/* Whether two choices are of the same VCPU in the same mode: nothing ends between them. */
LAW_FN bool law_goes_on(const struct law_choice *one, const struct law_choice *other)
{
	return one->vcpu == other->vcpu && (one->vcpu == LAW_NONE || one->mode == other->mode);
}

/* A thread of the VCPU became runnable. Whether the VCPU did, too. */
LAW_FN bool law_wake(struct law_vcpu *vcpus, __u32 vcpu)
{
	if (__sync_fetch_and_add(&law_vcpu(vcpus, vcpu)->threads, 1))
		return false;
	__sync_fetch_and_add(&law_vcpu(vcpus, vcpu)->wakes, 1);
	return true;
}

/* A thread of the VCPU has nothing to run any more. Whether it was the last. */
LAW_FN bool law_block(struct law_vcpu *vcpus, __u32 vcpu)
{
	return __sync_fetch_and_add(&law_vcpu(vcpus, vcpu)->threads, -1) == 1;
}

#endif
