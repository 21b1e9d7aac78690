/*
 * What the processes of sandboxes do: page faults, forks, execs and exits.
 *
 * Pids here are tgids of the initial pid namespace. `tracked` says which processes count and carries a tag chosen by user
 * space (its number for the sandbox). A process forked by a tracked one joins with its parent's tag before it first runs, and
 * leaves when its last thread exits, so user space adds only the roots.
 *
 * Cost, of a process that is not tracked: the tracepoint's call and one hash lookup, for each page fault, fork and exit on
 * the host. Of a tracked one also a record in the ring: 40 bytes with its header, 56 for an exec. User space polls, and is
 * woken only for a fork or an exec of a tag that it has armed: one for whose sandbox that is news.
 *
 * Record (little endian, 8-byte aligned in the ring):
 *   time_ns  CLOCK_MONOTONIC
 *   tgid     the process; at fork the parent
 *   tag      value of `tracked` for tgid
 *   kind     enum kind; SENT, ARRIVED and CLOSED: see traffic.h; ENTERED: see entering.h
 *   detail   fault: the architecture's error code (x86: bit 1 write, bit 2 from user mode, bit 4 instruction fetch);
 *            fork: tgid of the child; else 0
 *   address  fault: the address accessed, not rounded to a page; else 0
 *   comm     exec only: the new command name, NUL-terminated
 *
 * `seen[kind]` counts what tracked processes did, whether or not it fit; `dropped[reason]` what user space was not told.
 * seen = records in the ring so far + dropped[RING_FULL].
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define TRACKED_MAX 16384
#define RING_BYTES_DEFAULT (4 << 20)
#define COMM_BYTES 16
#define TAGS_MAX 4096

enum kind { FAULT_USER, FAULT_KERNEL, FORK, EXEC, EXIT, SENT, ARRIVED, CLOSED, ENTERED, KINDS };
/* RING_FULL: bpf_ringbuf_reserve found no room. TRACKED_FULL: a child could not join, what it does goes unseen. */
enum reason { RING_FULL, TRACKED_FULL, REASONS };

struct event {
	__u64 time_ns;
	__u32 tgid;
	__u32 tag;
	__u32 kind;
	__u32 detail;
	__u64 address;
};

struct exec_event {
	struct event event;
	char comm[COMM_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TRACKED_MAX);
	__type(key, __u32);
	__type(value, __u32);
} tracked SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES_DEFAULT);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KINDS);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, __u64);
} dropped SEC(".maps");

/* By tag: user space wants to know at once what its processes do. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TAGS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} armed SEC(".maps");

/* Atomic although per CPU: a fault may interrupt another program between its load and its store. */
#define COUNT(map, index)                                                \
	do {                                                             \
		__u32 key = (index);                                     \
		__u64 *count = bpf_map_lookup_elem(&(map), &key);        \
		if (count)                                               \
			__sync_fetch_and_add(count, 1);                  \
	} while (0)

static __always_inline void fill(struct event *event, __u32 kind, __u32 tgid, __u32 tag, __u32 detail, __u64 address)
{
	event->time_ns = bpf_ktime_get_ns();
	event->tgid = tgid;
	event->tag = tag;
	event->kind = kind;
	event->detail = detail;
	event->address = address;
}

/* Flags for bpf_ringbuf_submit. */
static __always_inline __u64 waking(__u32 tag)
{
	__u32 *wanted = bpf_map_lookup_elem(&armed, &tag);

	return wanted && *wanted ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
}

static __always_inline void emit(__u32 kind, __u32 tgid, __u32 tag, __u32 detail, __u64 address)
{
	struct event *event;

	COUNT(seen, kind);
	event = bpf_ringbuf_reserve(&ring, sizeof(*event), 0);
	if (!event) {
		COUNT(dropped, RING_FULL);
		return;
	}
	fill(event, kind, tgid, tag, detail, address);
	bpf_ringbuf_submit(event, kind == FORK || kind == ENTERED ? waking(tag) : BPF_RB_NO_WAKEUP);
}

static __always_inline int fault(__u32 kind, __u64 address, __u64 error_code)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u32 *tag = bpf_map_lookup_elem(&tracked, &tgid);

	/* Kernel addresses have the top bit set. */
	if (tag && (__s64)address >= 0)
		emit(kind, tgid, *tag, error_code, address);
	return 0;
}

/* Accesses by the program itself. */
SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, void *regs, unsigned long error_code)
{
	return fault(FAULT_USER, address, error_code);
}

/* Accesses by the kernel on its behalf, say read(2) into a page that is out. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, void *regs, unsigned long error_code)
{
	return fault(FAULT_KERNEL, address, error_code);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid;
	__u32 child_tgid = child->tgid;
	__u32 *parent_tag, tag;

	if (child_tgid == parent_tgid)
		return 0; /* a thread */
	parent_tag = bpf_map_lookup_elem(&tracked, &parent_tgid);
	if (!parent_tag)
		return 0;
	tag = *parent_tag;
	if (bpf_map_update_elem(&tracked, &child_tgid, &tag, BPF_ANY))
		COUNT(dropped, TRACKED_FULL);
	emit(FORK, parent_tgid, tag, child_tgid, 0);
	return 0;
}

#include "entering.h"

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u32 *tag = bpf_map_lookup_elem(&tracked, &tgid);
	struct exec_event *exec;

	if (!tag)
		tag = enter(task, tgid);
	if (!tag)
		return 0;
	COUNT(seen, EXEC);
	exec = bpf_ringbuf_reserve(&ring, sizeof(*exec), 0);
	if (!exec) {
		COUNT(dropped, RING_FULL);
		return 0;
	}
	fill(&exec->event, EXEC, tgid, *tag, 0, 0);
	bpf_get_current_comm(exec->comm, sizeof(exec->comm));
	bpf_ringbuf_submit(exec, waking(*tag));
	return 0;
}

/* Runs once a thread, after `live` was decremented; threads that leave together may both find 0, one deletes the entry. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u32 *entry = bpf_map_lookup_elem(&tracked, &tgid), tag;

	if (!entry || task->signal->live.counter)
		return 0;
	tag = *entry;
	if (!bpf_map_delete_elem(&tracked, &tgid))
		emit(EXIT, tgid, tag, 0, 0);
	return 0;
}

#include "traffic.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
