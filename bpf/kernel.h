/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What maracas.bpf.c uses of the kernel. Only the fields that it reads are named: the loader finds
 * their places by the running kernel's own description of its types (BTF), so one object serves all
 * kernels from 6.12 on, and no generated header is needed to build it.
 *
 * Functions that some of these kernels lack are weak: the verifier drops what is behind a test for
 * one that is not there.
 */
#ifndef MARACAS_KERNEL_H
#define MARACAS_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define KFUNC __attribute__((section(".ksyms")))
#define WEAK_KFUNC __attribute__((section(".ksyms"), weak))
#define FIELDS __attribute__((preserve_access_index))

/* How the loader reads the definition of a map. */
#define MAP_UINT(name, value) int(*name)[value]
#define MAP_TYPE(name, type) type *name

enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_TIMER_ABS = 1,
	BPF_F_TIMER_CPU_PIN = 2,
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
	BPF_RB_AVAIL_DATA = 0,
	CLOCK_MONOTONIC = 1,
	PF_KTHREAD = 0x00200000,
	ENOMEM = 12,
	ESRCH = 3,
	EINVAL = 22,
};

/* Values that kernels may number anew: always taken by FIND. */
enum scx_enq_flags {
	SCX_ENQ_WAKEUP = 1,
	SCX_ENQ_PREEMPT = 1ULL << 32,
};
enum scx_kick_flags {
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};
enum scx_ent_flags {
	SCX_TASK_QUEUED = 1,
};
enum scx_dsq_id_flags {
	SCX_DSQ_LOCAL = 1ULL << 63 | 2,
};
#define FIND(type, value) __builtin_preserve_enum_value(*(enum type *)value, 1)

/* Of `enum scx_ops_flags`: they stand in data, which is not relocated. */
#define SCX_OPS_ENQ_LAST (1ULL << 1)
#define SCX_OPS_ENQ_EXITING (1ULL << 2)

/* Never looked into; a struct without a body is another kind of type to the loader. */
struct cpumask {
	unsigned long bits[1];
} FIELDS;

struct sched_ext_entity {
	__u32 flags;
	__u64 slice;
} FIELDS;

struct task_struct {
	int pid;
	int tgid;
	unsigned int flags;
	int nr_cpus_allowed;
	const struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
} FIELDS;

struct scx_exit_info {
	const char *reason;
	const char *msg;
} FIELDS;

struct scx_init_task_args {
	bool fork;
} FIELDS;

struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

/* The members that are set; the loader matches them by name. */
struct sched_ext_ops {
	__s32 (*select_cpu)(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags);
	void (*enqueue)(struct task_struct *p, __u64 enq_flags);
	void (*dispatch)(__s32 cpu, struct task_struct *prev);
	void (*runnable)(struct task_struct *p, __u64 enq_flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, __u64 deq_flags);
	__s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	__s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	__u64 flags;
	__u32 timeout_ms;
	char name[128];
};

/* Helpers, by their numbers in include/uapi/linux/bpf.h. */
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_probe_read_kernel_str)(void *to, __u32 size, const void *from) =
	(void *)115;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;
static __u64 (*const bpf_ringbuf_query)(void *ring, __u64 flags) = (void *)134;
static void *(*const bpf_task_storage_get)(void *map, struct task_struct *task, void *value,
					   __u64 flags) = (void *)156;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static long (*const bpf_timer_init)(struct bpf_timer *timer, void *map, __u64 flags) = (void *)169;
static long (*const bpf_timer_set_callback)(struct bpf_timer *timer, void *callback) = (void *)170;
static long (*const bpf_timer_start)(struct bpf_timer *timer, __u64 at, __u64 flags) = (void *)171;

extern __s32 scx_bpf_create_dsq(__u64 dsq, __s32 node) KFUNC;
extern __s32 scx_bpf_dsq_nr_queued(__u64 dsq) KFUNC;
extern void scx_bpf_kick_cpu(__s32 cpu, __u64 flags) KFUNC;
extern __s32 scx_bpf_task_cpu(const struct task_struct *p) KFUNC;
extern __s32 scx_bpf_select_cpu_dfl(struct task_struct *p, __s32 prev_cpu, __u64 wake_flags,
				    bool *is_idle) KFUNC;
extern __s32 scx_bpf_pick_idle_cpu(const struct cpumask *cpus, __u64 flags) KFUNC;
extern struct task_struct *bpf_task_from_pid(__s32 pid) KFUNC;
extern void bpf_task_release(struct task_struct *p) KFUNC;

/* From 6.13 on, and by their names in 6.12. */
extern void scx_bpf_dsq_insert(struct task_struct *p, __u64 dsq, __u64 slice,
			       __u64 enq_flags) WEAK_KFUNC;
extern void scx_bpf_dispatch(struct task_struct *p, __u64 dsq, __u64 slice,
			     __u64 enq_flags) WEAK_KFUNC;
extern bool scx_bpf_dsq_move_to_local(__u64 dsq) WEAK_KFUNC;
extern bool scx_bpf_consume(__u64 dsq) WEAK_KFUNC;
/* A walk through a queue, in the order in which it would be served. */
struct bpf_iter_scx_dsq {
	__u64 opaque[6];
} __attribute__((aligned(8)));
extern int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, __u64 dsq, __u64 flags) KFUNC;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) KFUNC;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) KFUNC;
extern void bpf_rcu_read_lock(void) KFUNC;
extern void bpf_rcu_read_unlock(void) KFUNC;
/* From 6.13 on, and by its name in 6.12. */
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 dsq,
			     __u64 enq_flags) WEAK_KFUNC;
extern bool scx_bpf_dispatch_from_dsq(struct bpf_iter_scx_dsq *it, struct task_struct *p,
				      __u64 dsq, __u64 enq_flags) WEAK_KFUNC;
/* From 6.19 on; before that the field is written. */
extern bool scx_bpf_task_set_slice(struct task_struct *p, __u64 slice) WEAK_KFUNC;

/* Counts from one number up to another, so that the verifier need not go through every round. */
struct bpf_iter_num {
	__u64 opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) KFUNC;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) KFUNC;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) KFUNC;

/* The loop of law.h in the kernel. */
#define LAW_EACH(i, entries, max)                                                        \
	{                                                                                \
		struct bpf_iter_num numbers;                                             \
		int *number;                                                             \
		bpf_iter_num_new(&numbers, 0, entries);                                  \
		while ((number = bpf_iter_num_next(&numbers)) && (i = *number) < (max))
#define LAW_EACH_END                                                                     \
		bpf_iter_num_destroy(&numbers);                                          \
	}

static inline void dsq_insert(struct task_struct *p, __u64 dsq, __u64 slice, __u64 enq_flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, dsq, slice, enq_flags);
	else if (scx_bpf_dispatch)
		scx_bpf_dispatch(p, dsq, slice, enq_flags);
}

static inline bool dsq_move_to_local(__u64 dsq)
{
	if (scx_bpf_dsq_move_to_local)
		return scx_bpf_dsq_move_to_local(dsq);
	return scx_bpf_consume && scx_bpf_consume(dsq);
}

/* Moves what a walk has come to into another queue. False where it is not there any more. */
static inline bool dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, __u64 dsq)
{
	if (scx_bpf_dsq_move)
		return scx_bpf_dsq_move(it, p, dsq, 0);
	return scx_bpf_dispatch_from_dsq && scx_bpf_dispatch_from_dsq(it, p, dsq, 0);
}

static inline void set_slice(struct task_struct *p, __u64 slice)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

#endif
