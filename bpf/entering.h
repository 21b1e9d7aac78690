/*
 * Processes that somebody brings into a sandbox from outside, as `docker exec` does: they are not forked by one of its own.
 * When such a process becomes another program, and its memory cgroup is one of `cgroups` or up to three levels below one,
 * it is tracked from then on with that cgroup's tag. Record of kind ENTERED: tgid and tag.
 *
 * Cost: a few loads and look-ups for each exec on the host of a process that is not tracked.
 */
#define CGROUPS_MAX 4096
#define LEVELS 4

/* By the inode of a cgroup's folder, in the hierarchy that has the memory controller. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CGROUPS_MAX);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Of v2 the deepest, even where the memory controller is not enabled there. */
static __always_inline struct cgroup *cgroup_of(struct task_struct *task)
{
	struct css_set *sets = BPF_CORE_READ(task, cgroups);
	__u64 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	struct cgroup *unified = BPF_CORE_READ(sets, dfl_cgrp), *cgroup;
	struct cgroup_subsys_state *state = 0;

	bpf_probe_read_kernel(&state, sizeof(state), (void *)&sets->subsys + memory * sizeof(state));
	cgroup = BPF_CORE_READ(state, cgroup);
	return BPF_CORE_READ(cgroup, root) == BPF_CORE_READ(unified, root) ? unified : cgroup;
}

static __always_inline __u32 *enter(struct task_struct *task, __u32 tgid)
{
	struct cgroup *cgroup = cgroup_of(task);

	for (int level = 0; level < LEVELS && cgroup; level++) {
		__u64 id = BPF_CORE_READ(cgroup, kn, id);
		__u32 *tag = bpf_map_lookup_elem(&cgroups, &id);

		if (tag) {
			if (bpf_map_update_elem(&tracked, &tgid, tag, BPF_ANY))
				COUNT(dropped, TRACKED_FULL);
			emit(ENTERED, tgid, *tag, 0, 0);
			return tag;
		}
		cgroup = BPF_CORE_READ(cgroup, self.parent, cgroup);
	}
	return 0;
}
