/*
 * The kernel types our probes touch, and of each only the members used. preserve_access_index makes clang emit a CO-RE
 * relocation for every access, so libbpf looks the real offsets up in the running kernel's BTF at load time.
 */
#ifndef AGENTZIP_KERNEL_H
#define AGENTZIP_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
/* Named by libbpf's helper declarations. */
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* Kernel ABI: enum bpf_map_type and the flags of bpf_map_update_elem and bpf_ringbuf_submit. */
#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_ANY 0
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define BPF_RB_NO_WAKEUP 1
#define BPF_RB_FORCE_WAKEUP 2

#define AF_INET 2
#define AF_INET6 10
#define IPPROTO_TCP 6
/* enum of include/net/tcp_states.h. */
#define TCP_FIN_WAIT1 4
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8

/* A struct without a tag here as in the kernel: libbpf matches it through the typedef's name. */
typedef struct {
	int counter;
} atomic_t;

struct kernfs_node {
	__u64 id; /* inode of the cgroup's folder */
} __attribute__((preserve_access_index));

struct cgroup;
struct cgroup_root;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} __attribute__((preserve_access_index));

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
} __attribute__((preserve_access_index));

/* The value differs between kernels. */
enum cgroup_subsys_id { memory_cgrp_id };

struct css_set {
	struct cgroup_subsys_state *subsys[1]; /* by cgroup_subsys_id */
	struct cgroup *dfl_cgrp; /* in the hierarchy of v2 */
} __attribute__((preserve_access_index));

struct signal_struct {
	atomic_t live; /* threads that have not begun to exit */
} __attribute__((preserve_access_index));

struct task_struct {
	int tgid; /* process id in the initial pid namespace */
	struct signal_struct *signal;
	struct css_set *cgroups;
} __attribute__((preserve_access_index));

struct in6_addr {
	__u32 words[4];
};

struct sock_common {
	__be32 skc_daddr;
	__be16 skc_dport;
	__u16 skc_num; /* local port, host order */
	unsigned short skc_family;
	struct in6_addr skc_v6_daddr;
} __attribute__((preserve_access_index));

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u64 bytes_received; /* all that ever came, in order */
} __attribute__((preserve_access_index));

/* Registers at the entry of a function, by machine: libbpf matches what comes before the three underscores. */
struct pt_regs___on_x86 {
	unsigned long di, si, dx;
} __attribute__((preserve_access_index));

struct pt_regs___on_arm64 {
	__u64 regs[3];
} __attribute__((preserve_access_index));

#endif
