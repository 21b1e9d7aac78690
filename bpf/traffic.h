/*
 * When tracked processes talk to a model, or are talked to: bytes and times of TCP connections, never what is in them.
 *
 * A connection counts when a tracked process sends on it and its peer is one of `endpoints`, or when one reads from it and
 * its own port is one of `inbound`. It is then remembered at the socket, so that what arrives is seen when it arrives,
 * before the process reads it, and is forgotten with the socket. No other connection makes a record.
 *
 * A kprobe can not use a socket's own storage: those that kprobes find are in a table by the address of the socket.
 *
 * Cost, of a process that is not tracked: one hash lookup for each send and receive on any socket of the host. Of a socket
 * that does not count: one load of a null pointer for each arrival and change of state.
 *
 * Further fields of a record of kind SENT, ARRIVED or CLOSED:
 *   tgid      who sent, or read the first request; else 0, it is not the process that runs
 *   detail    SENT: bytes sent
 *   address   id of the connection, never used again (its socket cookie)
 *   received  bytes that have arrived on it so far
 *   port      SENT by the sandbox to an endpoint: the endpoint's port; of an inbound connection: the sandbox's own
 *   inbound   the sandbox is the one that is asked
 *
 * A send is news when nothing was sent since the last arrival; what arrives is news when the tag is armed, or a request.
 */
#define ENDPOINTS_MAX 4096
#define INBOUND_MAX 64
#define PROBED_MAX 16384

/* IPv4 as ::ffff:a.b.c.d, as the kernel keeps it in an IPv6 socket. */
struct endpoint {
	__u32 address[4]; /* network order */
	__u32 port;
};

struct connection {
	__u64 id;
	__u32 tag;
	__u32 port;
	__u32 inbound;
	__u32 asked; /* sent to since the last arrival */
};

struct traffic_event {
	struct event event;
	__u64 received;
	__u32 port;
	__u32 inbound;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENDPOINTS_MAX);
	__type(key, struct endpoint);
	__type(value, __u32);
} endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, INBOUND_MAX);
	__type(key, __u32);
	__type(value, __u32);
} inbound SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct connection);
} connections SEC(".maps");

/* Those that kprobes have found, by the address of the socket; forgotten when it is closed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBED_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct sock *);
	__type(value, struct connection);
} probed SEC(".maps");

static __always_inline void report(__u32 kind, __u32 tgid, __u32 bytes, struct sock *sk, struct connection *of, __u64 flags)
{
	struct traffic_event *traffic;
	struct tcp_sock *tcp = (struct tcp_sock *)sk;
	__u64 received = 0;

	COUNT(seen, kind);
	bpf_probe_read_kernel(&received, sizeof(received), &tcp->bytes_received);
	traffic = bpf_ringbuf_reserve(&ring, sizeof(*traffic), 0);
	if (!traffic) {
		COUNT(dropped, RING_FULL);
		return;
	}
	fill(&traffic->event, kind, tgid, of->tag, bytes, of->id);
	traffic->received = received;
	traffic->port = of->port;
	traffic->inbound = of->inbound;
	bpf_ringbuf_submit(traffic, flags);
}

/* What a socket is known by: STORED in its own storage, or PROBED. A constant, so that each program has one of both only. */
enum by { STORED, PROBED };

static __always_inline struct connection *known(struct sock *sk, enum by by)
{
	return by == STORED ? bpf_sk_storage_get(&connections, sk, 0, 0) : bpf_map_lookup_elem(&probed, &sk);
}

static __always_inline struct connection *adopt(struct sock *sk, enum by by, __u32 tag, __u32 port, __u32 is_inbound)
{
	struct connection *made, fresh = {};

	if (by == STORED) {
		made = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (made)
			made->id = bpf_get_socket_cookie(sk);
	} else {
		fresh.id = bpf_ktime_get_ns();
		bpf_map_update_elem(&probed, &sk, &fresh, BPF_ANY);
		made = known(sk, by);
	}
	if (!made)
		return 0;
	made->tag = tag;
	made->port = port;
	made->inbound = is_inbound;
	return made;
}

static __always_inline int is_tcp(struct sock *sk)
{
	unsigned short family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return (family == AF_INET || family == AF_INET6) && BPF_CORE_READ(sk, sk_protocol) == IPPROTO_TCP;
}

static __always_inline struct connection *to_endpoint(struct sock *sk, enum by by, __u32 tag)
{
	struct endpoint peer = {};

	if (BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET) {
		peer.address[2] = 0xffff0000; /* 00 00 ff ff */
		peer.address[3] = BPF_CORE_READ(sk, __sk_common.skc_daddr);
	} else {
		BPF_CORE_READ_INTO(&peer.address, sk, __sk_common.skc_v6_daddr);
	}
	peer.port = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	return bpf_map_lookup_elem(&endpoints, &peer) ? adopt(sk, by, tag, peer.port, 0) : 0;
}

static __always_inline int sent(struct sock *sk, enum by by, int bytes)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u32 *tag = bpf_map_lookup_elem(&tracked, &tgid);
	struct connection *connection;
	__u64 flags;

	if (!tag || bytes <= 0 || !is_tcp(sk))
		return 0;
	connection = known(sk, by);
	if (!connection)
		connection = to_endpoint(sk, by, *tag);
	if (!connection)
		return 0;
	flags = connection->asked || connection->inbound ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP;
	connection->asked = 1;
	report(SENT, tgid, bytes, sk, connection, flags);
	return 0;
}

/* Runs before the process is told; the bytes are counted already. */
static __always_inline int arrived(struct sock *sk, enum by by)
{
	struct connection *connection = known(sk, by);
	__u64 flags;

	if (!connection)
		return 0;
	flags = connection->inbound && connection->asked ? BPF_RB_FORCE_WAKEUP : waking(connection->tag);
	connection->asked = 0;
	report(ARRIVED, 0, 0, sk, connection, flags);
	return 0;
}

/* The first request on a connection: it is not known before it is read. */
static __always_inline int was_read(struct sock *sk, enum by by, int bytes)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u32 *tag = bpf_map_lookup_elem(&tracked, &tgid);
	struct connection *connection;
	__u32 port;

	if (!tag || bytes <= 0 || !is_tcp(sk))
		return 0;
	port = BPF_CORE_READ(sk, __sk_common.skc_num);
	if (!bpf_map_lookup_elem(&inbound, &port) || known(sk, by))
		return 0;
	connection = adopt(sk, by, *tag, port, 1);
	if (connection)
		report(ARRIVED, tgid, 0, sk, connection, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* Of the function that a kprobe is at; 0 to 2. */
static __always_inline unsigned long argument(void *registers, int number)
{
	struct pt_regs___on_x86 *x86 = registers;
	struct pt_regs___on_arm64 *arm64 = registers;

	if (!bpf_core_field_exists(x86->di))
		return BPF_CORE_READ(arm64, regs[number]);
	return number == 0 ? BPF_CORE_READ(x86, di) : number == 1 ? BPF_CORE_READ(x86, si) : BPF_CORE_READ(x86, dx);
}

/* These three tracepoints came with Linux 6.3; the trampolines below stand in for them, and kprobes for those. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(socket_sent, struct sock *sk, int result, int flags)
{
	return sent(sk, STORED, result);
}

SEC("fexit/tcp_sendmsg")
int BPF_PROG(socket_sent_fexit, struct sock *sk, void *message, unsigned long size, int result)
{
	return sent(sk, STORED, result);
}

SEC("kprobe/tcp_sendmsg")
int socket_sent_kprobe(void *registers)
{
	/* What it is to send: what was sent is not told where the socket is. */
	return sent((struct sock *)argument(registers, 0), PROBED, argument(registers, 2));
}

SEC("tp_btf/sk_data_ready")
int BPF_PROG(socket_arrived, struct sock *sk)
{
	return arrived(sk, STORED);
}

SEC("fentry/sock_def_readable")
int BPF_PROG(socket_arrived_fentry, struct sock *sk)
{
	return arrived(sk, STORED);
}

SEC("kprobe/sock_def_readable")
int socket_arrived_kprobe(void *registers)
{
	return arrived((struct sock *)argument(registers, 0), PROBED);
}

SEC("tp_btf/sock_recv_length")
int BPF_PROG(socket_read, struct sock *sk, int result, int flags)
{
	return was_read(sk, STORED, result);
}

SEC("fentry/tcp_cleanup_rbuf")
int BPF_PROG(socket_read_fentry, struct sock *sk, int copied)
{
	return was_read(sk, STORED, copied);
}

SEC("kprobe/tcp_cleanup_rbuf")
int socket_read_kprobe(void *registers)
{
	return was_read((struct sock *)argument(registers, 0), PROBED, argument(registers, 1));
}

/* One side has said its last, or the connection is gone. May come more than once. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(socket_closed, struct sock *sk, int before, int now)
{
	struct connection *connection;

	if (now != TCP_CLOSE && now != TCP_CLOSE_WAIT && now != TCP_FIN_WAIT1)
		return 0;
	connection = known(sk, STORED);
	if (!connection)
		connection = known(sk, PROBED);
	if (connection)
		report(CLOSED, 0, 0, sk, connection, waking(connection->tag));
	if (now == TCP_CLOSE)
		bpf_map_delete_elem(&probed, &sk);
	return 0;
}
