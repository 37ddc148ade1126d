// SPDX-License-Identifier: GPL-2.0-only
/*
 * Counts every function that one CPU makes another one run (kernel/smp.c), by function, culprit and
 * victim, from the raw tracepoints csd_queue_cpu and csd_function_entry/exit (Linux 6.5 and later).
 *
 * Loaded only where asked for, beside shootdown.bpf.c, with maps of its own: shootdowns are counted
 * there with all that is known of them, and here once more as one function among others.
 *
 * A request is counted when it is queued. Its times come from the victim, which finds it by the csd's
 * address: a csd is in flight once at a time, locked until the victim unlocks it. Three kinds are special:
 *
 *   async   the victim unlocks the csd before the function runs. So csd_function_entry takes the request
 *           out of the table and keeps it for its CPU: functions of csds don't nest. Should somebody
 *           queue the csd again in the few instructions between, for the same CPU one delay is too
 *           short, and in any case one request has no times.
 *   wake-up sched_ttwu_pending() runs once for all wake-ups that are queued by then, with the first as
 *           its csd, and that may be gone when it returns. So the first that is queued to a CPU stands
 *           in the table under that CPU's number, which is no kernel address.
 *   irq_work has no csd_function_entry: counted, without times or the victim's thread.
 *
 * Where the victim's queue was not empty, or it idles and polls, no interrupt is sent: the function
 * runs there all the same, so it counts.
 *
 * Requests are queued with interrupts on. One that an interrupt queues while another is being counted on
 * the same CPU is passed over by the kernel, which counts such (bpf_prog_info.recursion_misses): the
 * loader reads that as lost.
 *
 * There is no loop here. Hash maps take their bucket's lock with interrupts off, and refuse rather
 * than wait on the CPU that holds it (kernel/bpf/hashtab.c): a call that they refuse to count is lost, one
 * that they refuse to remember has no times.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "define_map.h"
#include "health.h"
#include "ipi.h"
#include "in_scope.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct ipi_config ipi_config SEC(".rodata.ipi_config") = {};

/* Both take memory only as entries come: on a machine with many CPUs there is room for more than most programs need. */
DEFINE_HASH(calls, struct call_key, struct call_tally, MAX_CALLS /* times ncpu */, BPF_F_NO_PREALLOC);
DEFINE_HASH(call_victims, struct call_victim_key, struct call_victim, MAX_CALL_VICTIMS, BPF_F_NO_PREALLOC);

/* The names of culprits' and victims' processes; those that came last are kept. */
DEFINE_LRU_HASH(call_names, u32, struct call_name, MAX_CALL_VICTIMS);

/* A wake-up in the table that is older has missed its handler: no CPU has interrupts off for so long. */
#define STALE_NS 1000000000ULL

struct in_flight {
	struct call_key key;
	u64 t0;
	u64 counted;
};

/* By the csd's address, or, for wake-ups, the victim's CPU. */
DEFINE_HASH(in_flight, u64, struct in_flight, MAX_IN_FLIGHT, 0);

/* The call that a CPU runs for another one. */
struct running {
	struct in_flight call;
	u64 t1;
	u64 csd; /* 0: nothing */
};

DEFINE_PER_CPU_ARRAY(running, struct running, 1);

DEFINE_PER_CPU_ARRAY(call_healths, struct call_health, 1);

/* The tally of a key, made on first sight. Two CPUs may make it at once: one wins, both find it. */
static __always_inline struct call_tally *call_tally_of(struct call_key *key)
{
	struct call_tally *t = bpf_map_lookup_elem(&calls, key), none = {};

	if (t)
		return t;
	bpf_map_update_elem(&calls, key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&calls, key);
}

static __always_inline bool count_call(struct call_key *key)
{
	struct call_tally *t = call_tally_of(key);

	if (!t) {
		ADD_TO_HEALTH(call_healths, lost, 1);
		return false;
	}
	__sync_fetch_and_add(&t->calls, 1);
	return true;
}

/* Remembers the name of the process that runs here, which is its first thread's and changes with exec. */
static __always_inline void remember_name(u32 tgid, struct task_struct *t)
{
	struct call_name *known = bpf_map_lookup_elem(&call_names, &tgid), now = {};

	BPF_CORE_READ_INTO(&now.comm, t, group_leader, comm);
	if (known && known->words[0] == now.words[0] && known->words[1] == now.words[1])
		return;
	bpf_map_update_elem(&call_names, &tgid, &now, BPF_ANY);
}

SEC("raw_tp/csd_queue_cpu")
int ipi_queue(struct bpf_raw_tracepoint_args *ctx)
{
	struct __call_single_data *csd = (struct __call_single_data *)ctx->args[3];
	struct task_struct *t = bpf_get_current_task_btf();
	struct in_flight call = {};
	u32 cpu = ctx->args[0], type;
	u64 at = (u64)csd;

	call.key.func = ctx->args[2];
	call.key.tgid = t->tgid;
	call.key.cpu = cpu;
	if (call.key.tgid == ipi_config.self_tgid) {
		ADD_TO_HEALTH(call_healths, own, 1);
		return 0;
	}
	type = BPF_CORE_READ(csd, node.u_flags) & CSD_FLAG_TYPE_MASK;
	if (type == CSD_TYPE_IRQ_WORK)
		call.key.flags = CALL_IRQ_WORK;
	if (ipi_config.scope == SCOPE_ALL || (ipi_config.scope == SCOPE_CPUS && cpu_in_scope(cpu)) ||
	    (ipi_config.scope == SCOPE_TREE && tgid_in_scope(call.key.tgid))) {
		call.counted = count_call(&call.key);
	} else if (ipi_config.scope != SCOPE_TREE) {
		return 0;
	}
	remember_name(call.key.tgid, t);
	if (type == CSD_TYPE_IRQ_WORK)
		return 0;
	call.t0 = bpf_ktime_get_ns();
	if (type == CSD_TYPE_TTWU) {
		struct in_flight *first;

		at = cpu;
		first = bpf_map_lookup_elem(&in_flight, &at);
		/* one whose handler was missed must not stand there for ever */
		if (first && call.t0 - first->t0 < STALE_NS)
			return 0;
	}
	/* refused: counted, if it is in scope by its culprit, but without times */
	bpf_map_update_elem(&in_flight, &at, &call, BPF_ANY);
	return 0;
}

SEC("raw_tp/csd_function_entry")
int ipi_entry(struct bpf_raw_tracepoint_args *ctx)
{
	struct __call_single_data *csd = (struct __call_single_data *)ctx->args[1];
	struct in_flight *call;
	struct running *r;
	u64 at = (u64)csd;
	u32 zero = 0;

	/* a call of the CPU's own function, without a request */
	if (!csd)
		return 0;
	r = bpf_map_lookup_elem(&running, &zero);
	if (!r)
		return 0;
	r->csd = 0;
	if ((BPF_CORE_READ(csd, node.u_flags) & CSD_FLAG_TYPE_MASK) == CSD_TYPE_TTWU)
		at = bpf_get_smp_processor_id();
	call = bpf_map_lookup_elem(&in_flight, &at);
	/*
	 * Queued before this was attached, out of scope, or without room; or unlocked by this CPU and
	 * queued again since, for another CPU or function, which will come for it.
	 */
	if (!call || call->key.func != ctx->args[0] ||
	    call->key.cpu != (u16)bpf_get_smp_processor_id())
		return 0;
	r->call = *call;
	bpf_map_delete_elem(&in_flight, &at);
	r->csd = (u64)csd;
	r->t1 = bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/csd_function_exit")
int ipi_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call_victim_key key = {};
	struct call_victim *v, none = {};
	u64 csd = ctx->args[1], delay, stall;
	struct call_tally *t;
	struct running *r;
	u32 zero = 0;

	if (!csd)
		return 0;
	r = bpf_map_lookup_elem(&running, &zero);
	if (!r || r->csd != csd)
		return 0;
	r->csd = 0;
	key.func = ctx->args[0];
	key.tgid = task->tgid;
	/* a call that is not in scope by its culprit may be by its victim */
	if (!r->call.counted && (!tgid_in_scope(key.tgid) || !count_call(&r->call.key)))
		return 0;
	t = call_tally_of(&r->call.key);
	if (!t)
		return 0;
	stall = bpf_ktime_get_ns() - r->t1;
	/* clocks of two CPUs: a request is never handled before it is queued */
	delay = r->t1 > r->call.t0 ? r->t1 - r->call.t0 : 0;
	t->timed++;
	t->delay_ns += delay;
	t->stall_ns += stall;
	if (delay > t->delay_max_ns)
		t->delay_max_ns = delay;
	if (stall > t->stall_max_ns)
		t->stall_max_ns = stall;
	v = bpf_map_lookup_elem(&call_victims, &key);
	if (!v) {
		bpf_map_update_elem(&call_victims, &key, &none, BPF_NOEXIST);
		v = bpf_map_lookup_elem(&call_victims, &key);
	}
	if (!v) {
		ADD_TO_HEALTH(call_healths, lost, 1);
		return 0;
	}
	remember_name(key.tgid, task);
	__sync_fetch_and_add(&v->hits, 1);
	__sync_fetch_and_add(&v->stall_ns, stall);
	return 0;
}
